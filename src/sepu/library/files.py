"""Reads files that people name, without trusting them."""

import os
import stat

from sepu.errors import SepuError


def read_file(path: str | os.PathLike[str], most: int, remedy: str, error: type[SepuError]) -> bytes:
    """Returns the content of a regular file of up to `most` bytes, and never waits for a pipe; raises `error`."""
    name = repr(os.fspath(path))
    try:
        with open(path, "rb", opener=_without_waiting) as file:
            about = os.fstat(file.fileno())
            if not stat.S_ISREG(about.st_mode):
                raise error(f"{name} is not a file; copy its output into one first")
            if about.st_size > most:
                raise error(f"{name} has more than {most:,} bytes; {remedy}")
            return file.read(most)
    except OSError as reason:
        raise error(f"{name}: {reason.strerror}") from None
    except ValueError as reason:  # a NUL in the name
        raise reason if isinstance(reason, SepuError) else error(f"{name}: {reason}") from None


def _without_waiting(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NONBLOCK | os.O_NOCTTY)
