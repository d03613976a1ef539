"""Files that are given to commands."""

import click

_MOST_BYTES = 65536


class FirstBytes(click.ParamType[bytes]):
    """A file's content; - is standard input. Of what never ends, no more than anybody here takes."""

    name = "file"

    def convert(self, value: str | bytes, param: click.Parameter | None, ctx: click.Context | None) -> bytes:
        """Reads it."""
        if isinstance(value, bytes):
            return value
        content: bytes = click.File("rb").convert(value, param, ctx).read(_MOST_BYTES)
        return content
