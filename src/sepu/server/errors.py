"""Why the server cannot start."""


class StartError(Exception):
    """The server cannot start; the message says why and what to do."""
