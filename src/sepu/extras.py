"""Says how sepu and its optional parts are installed."""

PACKAGE = "."  # a clone; "sepu" once it is on PyPI


def how_to_install(extra: str) -> str:
    """Returns the command that installs an extra, and where it works."""
    return f"pip install '{PACKAGE}[{extra}]'{' in a clone of sepu' if PACKAGE == '.' else ''}"
