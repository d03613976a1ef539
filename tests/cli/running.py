"""How commands are run, and what they answer."""

import json
import os
import signal
import subprocess
from collections.abc import Callable
from typing import Any

from click.testing import CliRunner
from tests.processes import completed
from tests.serving import SEPU

from sepu.cli.main import commands
from sepu.errors import SepuError

Done = subprocess.CompletedProcess[str]
Run = Callable[..., Done]


def invoke(*arguments: str, given: str = "", **environment: str | None) -> Done:
    """Runs `sepu` in this process."""
    before = signal.getsignal(signal.SIGTERM)
    try:
        done = CliRunner().invoke(commands, arguments, given, {"COLUMNS": "200", **environment}, prog_name="sepu")
    finally:
        signal.signal(signal.SIGTERM, before)
    said = ""
    if isinstance(done.exception, SepuError):  # as `sepu.cli.main.main` does
        said = f"sepu: {done.exception}\n"
    elif done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return subprocess.CompletedProcess(arguments, done.exit_code, done.stdout, done.stderr + said)


def process(*arguments: str | bytes, given: str = "", **environment: str) -> Done:
    """Runs `sepu` as others do: as a process."""
    return completed([SEPU, *arguments], env={**os.environ, "COLUMNS": "200", **environment}, input=given)


def printed(done: Done) -> Any:
    assert (done.returncode, done.stderr) == (0, "")
    return json.loads(done.stdout)


def lines(done: Done) -> list[Any]:
    assert (done.returncode, done.stderr) == (0, "")
    return [json.loads(line) for line in done.stdout.splitlines()]


def fields(done: Done) -> dict[str, str]:
    assert (done.returncode, done.stderr) == (0, "")
    return dict(line.split(maxsplit=1) for line in done.stdout.splitlines())


def failed(done: Done, *reasons: str, status: int = 1) -> None:
    assert (done.returncode, done.stdout) == (status, "")
    assert status != 1 or (done.stderr.startswith("sepu: ") and done.stderr.count("\n") == 1)
    for reason in reasons:
        assert reason in done.stderr
