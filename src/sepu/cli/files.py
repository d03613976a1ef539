"""Reads files for commands."""

import click

from sepu import limits

# A name in a file system.
_NAME_BYTES = 255


def first_bytes(name: str) -> bytes:
    """Reads as much as a command can use of a file, or of standard input if the name is -."""
    try:
        with click.open_file(name, "rb") as file:
            content: bytes = file.read(limits.files.KEY_BYTES)
    except OSError as error:
        if len(name) > _NAME_BYTES:  # it may be the content, and secret
            raise click.BadParameter("this is not a file name") from None
        raise click.BadParameter(f"{name!r}: {error.strerror}") from error
    return content
