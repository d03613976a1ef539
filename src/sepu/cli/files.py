"""Reads files for commands."""

import click

_MOST_BYTES = 65536
_LONGEST_NAME = 255


def first_bytes(name: str) -> bytes:
    """Reads a file, or standard input if the name is -, and no more of it than a command can use."""
    try:
        with click.open_file(name, "rb") as file:
            content: bytes = file.read(_MOST_BYTES)
    except OSError as error:
        if len(name) > _LONGEST_NAME:  # perhaps it is the content, and secret
            raise click.BadParameter("this is not a file name") from None
        raise click.BadParameter(f"{name!r}: {error.strerror}") from error
    return content
