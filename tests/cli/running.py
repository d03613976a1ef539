"""Runs commands and reads their output."""

import csv
import io
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from typing import Any, NamedTuple
from unittest.mock import patch

import pytest
from click.testing import CliRunner
from tests.harness.processes import completed
from tests.harness.serving import SEPU

from sepu.cli.main import main

Done = subprocess.CompletedProcess[str]
Run = Callable[..., Done]


class Pair(NamedTuple):
    """The files of a key pair for receipts."""

    private: str
    public: str
    thumbprint: str


def invoke(*arguments: str, given: str = "", closed: bool = False, **environment: str | None) -> Done:
    """Runs `sepu` in this process; `closed`: with standard output already closed."""
    before = signal.getsignal(signal.SIGTERM)
    try:
        with (
            patch.object(sys, "argv", ["sepu", *arguments]),
            CliRunner().isolation(given, {"COLUMNS": "200", **environment}) as (out, err, _),
        ):
            with pytest.raises(SystemExit) as ended, patch.object(sys, "stdout", None if closed else sys.stdout):
                main()
            sys.stdout.flush()
    finally:
        signal.signal(signal.SIGTERM, before)
    status = ended.value.code or 0
    assert isinstance(status, int)
    return subprocess.CompletedProcess(arguments, status, out.getvalue().decode(), err.getvalue().decode())


def process(*arguments: str | bytes, given: str = "", **environment: str) -> Done:
    """Runs `sepu` as a process."""
    return completed([SEPU, *arguments], env={**os.environ, "COLUMNS": "200", **environment}, input=given)


def text(done: Done) -> str:
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def printed(done: Done) -> Any:
    return json.loads(text(done))


def lines(done: Done) -> list[Any]:
    return [json.loads(line) for line in text(done).splitlines()]


def rows(done: Done) -> list[dict[str, str]]:
    """The rows of CSV output."""
    return list(csv.DictReader(io.StringIO(text(done))))


def fields(done: Done) -> dict[str, str]:
    return dict(line.split(maxsplit=1) for line in text(done).splitlines())


def assert_failed(done: Done, *reasons: str, status: int = 1) -> None:
    assert (done.returncode, done.stdout) == (status, "")
    assert status != 1 or (done.stderr.startswith("sepu: ") and done.stderr.count("\n") == 1)
    for reason in reasons:
        assert reason in done.stderr
