"""Reads files for commands."""

import click

_MOST_BYTES = 65536
_LONGEST_NAME = 255


class FirstBytes(click.ParamType[bytes]):
    """Accepts a file, or - for standard input, and reads no more than a command can use."""

    name = "file"

    def convert(self, value: str | bytes, param: click.Parameter | None, ctx: click.Context | None) -> bytes:
        """Reads the file."""
        if isinstance(value, bytes):
            return value
        try:
            with click.open_file(value, "rb") as file:
                content: bytes = file.read(_MOST_BYTES)
        except OSError as error:
            if len(value) > _LONGEST_NAME:
                self.fail("this is not a file name", param, ctx)  # perhaps it is the content, and secret
            self.fail(f"{value!r}: {error.strerror}", param, ctx)
        return content
