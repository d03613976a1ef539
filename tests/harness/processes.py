"""The processes that tests start, which all end whatever becomes of the test."""

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
    """Runs a program until the block ends, then stops it with SIGTERM; finally kills it and its children."""
    process = subprocess.Popen(command, **options)
    try:
        yield process
    finally:
        family = children(process.pid, recursive=True)
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
    """Runs a program to its end; returns its exit status, which is not checked, and its output."""
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=timeout, **options)


def until(holds: Callable[[], object], *, seconds: float = 30, why: Callable[[], str] = str) -> None:
    """Waits until another process has brought this about."""
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, why()
        time.sleep(0.05)


def children(pid: int, *, recursive: bool = False) -> list[psutil.Process]:
    """A process's direct children, or also theirs; empty if it has ended."""
    try:
        return psutil.Process(pid).children(recursive=recursive)
    except psutil.NoSuchProcess:
        return []


def command_line(process: psutil.Process) -> str:
    """A process's arguments, as visible to every user; empty if it has ended."""
    try:
        return " ".join(process.cmdline())
    except psutil.NoSuchProcess:
        return ""


def end_with_the_tests() -> None:
    """Forks: the parent waits until this process, the tests, ends in whatever way, and then ends all that is left.

    Only on Linux, where the parent can adopt orphans, such as the Postgres of a killed server. Any process left fails
    the run.
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
        elif heard.si_code <= 0:  # sent by kill(); the terminal signals the tests itself
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
    """Reaps every child that has ended; returns the status of the awaited one."""
    with suppress(ChildProcessError):
        while (found := os.waitpid(-1, os.WNOHANG)) != (0, 0):
            if found[0] == awaited:
                return found[1]
    return None


def _left(seconds: float) -> list[psutil.Process]:
    deadline = time.monotonic() + seconds
    while True:
        _reap(0)
        if not (found := children(os.getpid(), recursive=True)) or time.monotonic() > deadline:
            return found
        time.sleep(0.05)


def send(number: signal.Signals, processes: Iterable[psutil.Process]) -> None:
    """Sends a signal to each process that has not ended."""
    for process in processes:
        with suppress(psutil.Error):
            process.send_signal(number)
