"""The commands that need no server: `sepu match`, `sepu search`, `sepu image` and `sepu list`.

PERF: a shell imports this for each completion, so what the commands do is in `offline`, which imports numpy and rich.
"""

import json
import pkgutil

import click
from click.shell_completion import CompletionItem

from sepu.cli.command import Command, F, command, example
from sepu.shell import PALETTES, ROWS

LIBRARY_SIZE = 161
"""The number of colours; `make release` writes it, as reading the library would delay each completion."""

FORMATS = (*ROWS, "css", "scss", "tailwind", "svg", "ase", "gpl", "tokens")


def _format_options(command: F) -> F:
    """Adds `--format` and `--json`."""
    command = click.option("--json", "file_format", flag_value="json", help="The same as --format json.")(command)
    formats = click.option(
        "--format", "file_format", type=click.Choice(FORMATS), help="Print a file for another program."
    )
    return formats(command)


class _ColorsCommand(Command):
    """A command that takes a negative number for a channel, not for an option."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parses the command line; click calls it."""
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            if error.option_name[1:2].isdigit():
                ctx.fail(f"{error.option_name} is not a channel: channels are numbers from 0 to 255")
            raise


_palette_option = click.option(
    "--palette",
    type=click.Path(exists=True, dir_okay=False),
    help=f"Take colours and names from this file: .tokens.json, {', '.join(PALETTES)}.",
)


def _complete(_context: click.Context, _parameter: click.Parameter, begun: str) -> list[CompletionItem]:
    """Returns the names that begin with `begun`, for a shell. The command reports ambiguous ones."""
    return [
        CompletionItem(spelling, help=f"{record['name']['en']} {record['hex']}")
        for record in json.loads(pkgutil.get_data("sepu.library", "release/library.json") or "[]")
        for spelling in (record["slug"], record["name"]["zh"])
        if spelling.startswith(begun)
    ]


@command(epilog=example("match '#C83C23' --top 3"), kind=_ColorsCommand)
@click.argument("colors", nargs=-1, metavar="COLOR...", shell_complete=_complete)
@click.option(
    "--top", type=click.IntRange(1), help="Matches for each colour.  [default: 3, or 1 with --column]", metavar="N"
)
@click.option("--column", help="Read CSV on standard input, and add the matches of this column's colours to its rows.")
@_palette_option
@_format_options
def match(
    colors: tuple[str, ...], top: int | None, column: str | None, palette: str | None, file_format: str | None
) -> None:
    """Show the nearest colours by CIEDE2000. This works offline and is not metered.

    A colour is '#C83C23', c83c23, '#fff', 200 60 35, a name of the library, or a colour of CSS, such as tomato or
    'oklch(0.6 0.2 30)'. A - stands for the lines of standard input, which may have # comments.
    """
    from sepu.cli import offline

    offline.match(colors, top, column, palette, file_format)


@command(epilog=example("search tao hong"))
@click.argument("text", nargs=-1, required=True)
@click.option(
    "--limit", type=click.IntRange(1, LIBRARY_SIZE), default=10, show_default=True, help="Maximum number of results."
)
@_format_options
def search(text: tuple[str, ...], limit: int, file_format: str | None) -> None:
    """Find colours by Chinese name, pinyin, English name or slug. This works offline and is not metered."""
    from sepu.cli import offline

    offline.search(" ".join(text), limit, file_format)


@command("list", epilog=example("list --format css"))
@click.argument("names", nargs=-1, metavar="[NAME]...", shell_complete=_complete)
@click.option("--group", help="Only colours of this hue group of the library, such as 红.")
@_palette_option
@_format_options
def list_colors(names: tuple[str, ...], group: str | None, palette: str | None, file_format: str | None) -> None:
    """List colours, or export them as CSS, Tailwind, GIMP, ASE or JSON.

    Without names these are all colours of the library. Exported files include the required attribution. For example:
    sepu list --format css > colours.css.
    """
    from sepu.cli import offline

    offline.list_colors(names, group, palette, file_format)


@command(epilog=example("image photo.jpg --top 5"))
@click.argument("file", type=click.Path(exists=True, dir_okay=False, allow_dash=True))
@click.option(
    "--top", type=click.IntRange(1, LIBRARY_SIZE), default=10, show_default=True, help="Maximum number of colours."
)
@click.option(
    "--within",
    type=click.FloatRange(0, 100),
    default=0,
    help="Merge a colour into one as frequent or more that differs by at most this ΔE: 20 leaves the dominant ones.",
)
@click.option("--picture", type=click.Path(dir_okay=False), help="Write the image in the library's colours here.")
@click.option("--width", type=click.IntRange(1, 1000), help="Columns of the sketch; default: 60, or what fits.")
@_palette_option
@_format_options
def image(
    file: str,
    top: int,
    within: float,
    picture: str | None,
    width: int | None,
    palette: str | None,
    file_format: str | None,
) -> None:
    """Name the colours of an image, with the share of each. This works offline and is not metered.

    Each pixel counts for its nearest colour. A - stands for an image on standard input.
    """
    from sepu.cli import offline

    offline.image(file, top, within, picture, width, palette, file_format)
