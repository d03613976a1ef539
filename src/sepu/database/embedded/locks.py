"""Takes locks on files of the state directory, which the kernel releases with their process."""

import fcntl
import os
import time
from contextlib import suppress
from pathlib import Path
from typing import IO

from sepu import limits
from sepu.errors import StartError
from sepu.printable import say

_POLL_SECONDS = 0.02


def open_private(path: str, flags: int) -> int:
    """Opens a file that only its owner may open. Does not follow links."""
    return os.open(path, flags | os.O_NOFOLLOW, 0o600)


def unwritable(state_dir: Path, error: OSError) -> StartError:
    """Returns the error for a state directory that cannot be written to."""
    return StartError(
        f"cannot write in the state directory {state_dir} ({error.strerror}); "
        "choose another with --state-dir or SEPU_STATE_DIR"
    )


def open_lock(path: Path) -> IO[bytes]:
    """Opens a file that other users cannot open or lock."""
    try:
        lock = open(path, "a+b", buffering=0, opener=open_private)  # noqa: SIM115
        found = os.fstat(lock.fileno())
        if found.st_uid != os.geteuid():
            lock.close()
            raise StartError(f"{path} belongs to user id {found.st_uid}; be that user, or choose another --state-dir")
        os.fchmod(lock.fileno(), 0o600)
    except OSError as error:
        raise unwritable(path.parent, error) from error
    return lock


def take(lock: IO[bytes]) -> None:
    """Takes the lock, unless this process has it, and writes this process's id into the file."""
    wait_for(lock, fcntl.LOCK_EX)
    with suppress(OSError):  # a full disk
        lock.truncate(0)
        lock.write(b"%d" % os.getpid())


def give_back(lock: IO[bytes]) -> None:
    """Releases the lock, and removes the holder's id from the file."""
    lock.truncate(0)
    fcntl.flock(lock, fcntl.LOCK_UN)


def wait_for(lock: IO[bytes], how: int) -> None:
    """Waits until the file is locked (flock(2)); says who holds it if that takes long.

    Raises:
        StartError: another process holds it for longer than any start takes.
    """
    begun, reported = time.monotonic(), False
    while True:
        try:
            return fcntl.flock(lock, how | fcntl.LOCK_NB)
        except BlockingIOError:
            waited = time.monotonic() - begun
        lock.seek(0)
        holder = f"process {pid}" if (pid := lock.read(20).decode(errors="replace")) else "another process"
        if waited > limits.embedded.LOCK_SECONDS:
            raise StartError(
                f"{holder} has held the lock {lock.name} for {waited:.0f} seconds; "
                "end it, or choose another --state-dir"
            )
        if waited > limits.embedded.REPORT_SECONDS and not reported:
            say(f"waiting for the lock {lock.name}, which {holder} holds")
            reported = True
        time.sleep(_POLL_SECONDS)


def is_last(users: IO[bytes]) -> bool:
    """Returns whether no other process uses the state directory."""
    try:
        fcntl.flock(users, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
