"""Who gives a command."""

import getpass
import os

from sepu.errors import SepuError

_MOST = 200  # characters


def operator_name() -> str:
    """Returns who gives the command: SEPU_OPERATOR, or else the name of the system's user.

    Raises:
        SepuError: there is no such name, or it is too long, or cannot be printed.
    """
    try:
        name = os.environ.get("SEPU_OPERATOR") or getpass.getuser()
    except (KeyError, OSError, ImportError):  # a user without a name, as in some containers
        name = ""
    if not (name.isprintable() and name.strip() == name and 1 <= len(name) <= _MOST):
        raise SepuError(
            f"say who you are: SEPU_OPERATOR has 1 to {_MOST} characters that can be printed, "
            "and no space before or after them"
        )
    return name
