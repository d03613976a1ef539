"""Runs cases in another process, which a case may hang or end."""

import faulthandler
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

HANG_SECONDS = 40.0  # of one case, which takes far less; the machine may be busy
_ROOT = Path(__file__).parents[2]


def answer(outcome: Callable[[str], str]) -> None:
    """Answers each case that comes on standard input by a line, and ends when one takes too long."""
    errors, answers = sys.__stderr__, sys.__stdout__  # a case may replace the others
    assert errors
    assert answers
    for line in sys.stdin:
        faulthandler.dump_traceback_later(HANG_SECONDS, exit=True, file=errors)
        found = outcome(line.strip()).replace("\n", " ")
        faulthandler.cancel_dump_traceback_later()
        answers.write(f"{found}\n")
        answers.flush()


def ask(module: str, argument: str, numbers: Iterator[int]) -> Iterator[tuple[int, str]]:
    """Yields each case with its line, which says FAULT if the process ended; then a new one goes on."""
    command = [sys.executable, "-W", "always", "-m", module, argument]
    case = next(numbers, None)
    while case is not None:
        with (
            tempfile.TemporaryFile("w+") as log,
            subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                cwd=_ROOT,
                env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
                start_new_session=True,
            ) as process,
        ):
            assert process.stdin is not None
            assert process.stdout is not None
            found = "begun"
            while case is not None and found:
                process.stdin.write(f"{case}\n")
                process.stdin.flush()
                found = process.stdout.readline()
                if not found:
                    log.seek(0)
                yield case, found.strip() or f"FAULT it ended: {log.read()[-600:]!r}"
                case = next(numbers, None)
            os.killpg(process.pid, signal.SIGKILL)  # with what it may have started
