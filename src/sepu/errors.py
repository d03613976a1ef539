"""The base of foreseeable failures."""


class SepuError(Exception):
    """A failure that somebody can do something about; the message says what is wrong, and never holds a secret."""
