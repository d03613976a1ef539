"""Says to the person who starts a server what is wrong, or what happens."""

import sys
from pathlib import Path

from sepu.errors import SepuError
from sepu.printable import printable


class StartError(SepuError):
    """Says why the server cannot start, and what to do."""


def unwritable(state_dir: Path, error: OSError) -> StartError:
    """Returns the error of a state directory that cannot be written."""
    return StartError(
        f"cannot write in the state directory {state_dir} ({error.strerror}); "
        "choose another with --state-dir or SEPU_STATE_DIR"
    )


def say(message: str) -> None:
    """Prints a message beside what the server logs."""
    print(f"sepu: {printable(message)}", file=sys.stderr)  # noqa: T201
