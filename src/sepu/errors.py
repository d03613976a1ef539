"""The errors that more than one layer knows."""


class SepuError(Exception):
    """A failure that somebody can do something about; the message says what is wrong, and never holds a secret."""


class InputError(Exception):
    """The input breaks the contract; `code` is the contract's error code. Never holds the input."""

    def __init__(self, code: str) -> None:
        super().__init__(code)
        self.code = code
