"""Files that are given to commands."""

import click

_MOST_BYTES = 65536
_LONGEST_NAME = 255


class FirstBytes(click.ParamType[bytes]):
    """A file's content; - is standard input. Of what never ends, no more than anybody here takes."""

    name = "file"

    def convert(self, value: str | bytes, param: click.Parameter | None, ctx: click.Context | None) -> bytes:
        """Reads it."""
        if isinstance(value, bytes):
            return value
        try:
            with click.open_file(value, "rb") as file:
                content: bytes = file.read(_MOST_BYTES)
        except OSError as error:
            if len(value) > _LONGEST_NAME:
                self.fail("this is no file's name", param, ctx)  # the content itself perhaps, and that a secret
            self.fail(f"{value!r}: {error.strerror}", param, ctx)
        return content
