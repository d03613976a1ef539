"""Names who runs a command."""

import getpass
import os

_LONGEST = 100


def operator_name() -> str:
    """Returns SEPU_OPERATOR, else the user's name: at most 100 printable characters."""
    name = os.environ.get("SEPU_OPERATOR", "").strip() or _user()
    return "".join(letter if letter.isprintable() else "?" for letter in name[:_LONGEST])


def _user() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError, ImportError):  # a container may run as a user without a name
        return f"uid {os.getuid()}"
