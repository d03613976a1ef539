"""The error for input that breaks the contract."""


class InputError(Exception):
    """The input breaks the contract; `code` is the contract's error code. Never holds the input."""

    def __init__(self, code: str) -> None:
        super().__init__(code)
        self.code = code
