"""The processes that tests start: what they are, and that all of them end, whatever becomes of the test."""

import ctypes
import os
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psutil

STOP_SECONDS = 40
_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36
_GRACE_SECONDS = 5
_HEARD = {signal.SIGCHLD, signal.SIGHUP, signal.SIGINT, signal.SIGTERM}


@contextmanager
def running(command: Sequence[str | Path], **options: Any) -> Iterator[subprocess.Popen[Any]]:
    """Runs a program until the block ends, then stops it by SIGTERM; in the end it and its children are killed."""
    process = subprocess.Popen(command, **options)
    try:
        yield process
    finally:
        family = _below(process.pid)
        process.terminate()
        try:
            process.wait(STOP_SECONDS)
        finally:
            process.kill()
            send(signal.SIGKILL, family)
            process.wait()


def completed(
    command: Sequence[str | bytes | Path], *, timeout: float | None = 100, **options: Any
) -> subprocess.CompletedProcess[str]:
    """Runs a program to its end; returns its code, which may be any, and what it printed."""
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=timeout, **options)


def until(holds: Callable[[], object], *, seconds: float = 30, why: Callable[[], str] = str) -> None:
    """Waits for what another process is to bring about."""
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, why()
        time.sleep(0.05)


def children(pid: int) -> list[psutil.Process]:
    """What a process has started itself; nothing if it has ended."""
    try:
        return psutil.Process(pid).children()
    except psutil.NoSuchProcess:
        return []


def command_line(process: psutil.Process) -> str:
    """As anybody on the machine sees it; empty if the process has ended."""
    try:
        return " ".join(process.cmdline())
    except psutil.NoSuchProcess:
        return ""


def end_with_the_tests() -> None:
    """Forks: the parent waits until this process, the tests, ends in whatever way, and then ends all that is left.

    On Linux only, where the parent can adopt orphans: no Postgres of a killed server escapes it. What it has to end
    makes the run fail.
    """
    if sys.platform != "linux":
        return
    control = ctypes.CDLL(None).prctl
    signal.pthread_sigmask(signal.SIG_BLOCK, _HEARD)
    control(_PR_SET_CHILD_SUBREAPER, 1)
    tests = os.fork()
    if tests:
        status = 1
        try:
            status = _watch(tests)
        except BaseException:
            traceback.print_exc()
        sys.stderr.flush()
        os._exit(status)
    control(_PR_SET_PDEATHSIG, signal.SIGINT)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _HEARD)


def _watch(tests: int) -> int:
    status = None
    while status is None:
        heard = signal.sigwaitinfo(_HEARD)
        if heard.si_signo == signal.SIGCHLD:
            status = _reap(tests)
        elif heard.si_code <= 0:  # sent by kill(); what the terminal sends, the tests get too
            os.kill(tests, heard.si_signo)
    code = os.waitstatus_to_exitcode(status)
    if left := _left(_GRACE_SECONDS):
        lines = [f"  {process.pid}: {command_line(process)}" for process in left]
        print("The tests left processes behind, which are ended now:", *lines, sep="\n", file=sys.stderr)  # noqa: T201
        code = code or 1
    for number in (signal.SIGINT, signal.SIGKILL):
        send(number, left)
        left = _left(_GRACE_SECONDS)
    return code if code >= 0 else 128 - code


def _reap(awaited: int) -> int | None:
    """Takes note of every child that has ended; the status of the one that is awaited."""
    with suppress(ChildProcessError):
        while (found := os.waitpid(-1, os.WNOHANG)) != (0, 0):
            if found[0] == awaited:
                return found[1]
    return None


def _left(seconds: float) -> list[psutil.Process]:
    deadline = time.monotonic() + seconds
    while True:
        _reap(0)
        if not (found := _below(os.getpid())) or time.monotonic() > deadline:
            return found
        time.sleep(0.05)


def _below(pid: int) -> list[psutil.Process]:
    try:
        return psutil.Process(pid).children(recursive=True)
    except psutil.NoSuchProcess:
        return []


def send(number: signal.Signals, processes: Iterable[psutil.Process]) -> None:
    """Sends a signal to each of them that has not ended meanwhile."""
    for process in processes:
        with suppress(psutil.Error):
            process.send_signal(number)
