"""How commands are run, and what they answer."""

import json
import subprocess
from collections.abc import Callable
from typing import Any

Run = Callable[..., subprocess.CompletedProcess[str]]


def printed(done: subprocess.CompletedProcess[str]) -> Any:
    assert (done.returncode, done.stderr) == (0, "")
    return json.loads(done.stdout)


def fields(done: subprocess.CompletedProcess[str]) -> dict[str, str]:
    assert (done.returncode, done.stderr) == (0, "")
    return dict(line.split(maxsplit=1) for line in done.stdout.splitlines())


def failed(done: subprocess.CompletedProcess[str], *reasons: str) -> None:
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("sepu: ")
    assert done.stderr.count("\n") == 1
    for reason in reasons:
        assert reason in done.stderr
