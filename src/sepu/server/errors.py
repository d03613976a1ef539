"""Why the server cannot start."""

from sepu.errors import SepuError


class StartError(SepuError):
    """The server cannot start; the message says why and what to do."""
