"""The error of a server that cannot start."""

from sepu.errors import SepuError


class StartError(SepuError):
    """Says why the server cannot start, and what to do."""
