"""Defines the errors that layers share."""

from typing import Literal

Remedy = Literal[
    "another role",
    "audit",
    "credit",
    "credit by hand",
    "erase account",
    "list events",
    "move accounts",
    "rotate again",
    "search accounts",
    "set plan",
]
"""Remedies that an operator has for a failure; `cli/output.py` says by which command or option."""


class SepuError(Exception):
    """A failure that somebody can do something about; the message says what is wrong, and never holds a secret.

    `remedy` is what an operator can do.
    """

    def __init__(self, message: str = "", remedy: Remedy | None = None) -> None:
        super().__init__(message)
        self.remedy = remedy


class StartError(SepuError):
    """Says why the server cannot start, and what to do."""


class InputError(Exception):
    """The input breaks the contract; `code` is the contract's error code. Never holds the input.

    `pointer` (RFC 6901) leads to the place at fault, only by the contract's names and indices. It is empty if the body
    or the query as a whole is at fault.
    """

    def __init__(self, code: str, pointer: str = "") -> None:
        super().__init__(code)
        self.code = code
        self.pointer = pointer
