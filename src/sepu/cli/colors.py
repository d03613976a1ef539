"""Runs the core offline: `sepu match`, `sepu search`, `sepu image` and `sepu list`."""

import os
import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path

import click
import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.text import Text

from sepu.cli.output import echo_json, example, json_option
from sepu.cli.palette_formats import WRITERS
from sepu.library.display import Line, line_of, table
from sepu.library.images import Pixels, nearest_places, read_image
from sepu.library.parsing import ColorError, Rgb, parse_color
from sepu.library.records import Record
from sepu.library.release import Release, UnknownNameError, load_release
from sepu.operations.color import color

_NUMBER = re.compile(r"\d{1,3}(\.\d*)?,?", re.ASCII)
_SKETCH_COLUMNS, _SKETCH_LINES = 60, 100

format_option = click.option(
    "--format", "file_format", type=click.Choice(sorted(WRITERS)), help="Print a file for another program."
)


def _show(*sections: Sequence[Line]) -> None:
    console = Console()
    console.print(table(*sections, swatches=_has_colors(console)))


def _has_colors(console: Console) -> bool:
    return console.color_system is not None and not console.no_color


def _given(arguments: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yields each colour as it was given, and where: three numbers in a row are one, and - is standard input."""
    remaining = iter(arguments)
    for argument in remaining:
        if argument == "-":
            for number, line in enumerate(sys.stdin, 1):
                if line.strip():
                    yield line.strip(), f"line {number}: "
        elif _NUMBER.fullmatch(argument):
            yield " ".join(more.rstrip(",") for more in (argument, *islice(remaining, 2))), ""
        else:
            yield argument, ""


def _parse(release: Release, text: str, where: str) -> Rgb:
    try:
        return parse_color(text, release.named(text))
    except ColorError as error:
        hint = f"; for an image: sepu image {text}" if not where and Path(text).is_file() else ""
        raise click.BadParameter(f"{where}{error}{hint}") from None


def _in_srgb(rgb: Rgb) -> bool:
    return min(rgb) >= 0 and max(rgb) <= 255


def _hex(rgb: Rgb) -> str:
    """Returns HEX; of a colour outside sRGB, the nearest by channels, which is only shown."""
    return "#{:02X}{:02X}{:02X}".format(*(round(min(max(channel, 0), 255)) for channel in rgb))


def _exactly(rgb: Rgb) -> str:
    """Returns HEX, or rgb() for channels that HEX cannot express, or color() outside sRGB."""
    if not _in_srgb(rgb):
        return "color(srgb {:.10g} {:.10g} {:.10g})".format(*(channel / 255 for channel in rgb))
    whole = all(channel == round(channel) for channel in rgb)
    return _hex(rgb) if whole else "rgb({:.10g}, {:.10g}, {:.10g})".format(*rgb)


@click.command(epilog=example("match '#C83C23' --top 3"))
@click.argument("colors", nargs=-1, metavar="COLOR...")
@click.option("--top", type=click.IntRange(1, 161), default=3, show_default=True, help="Matches for each colour.")
@json_option
def match(colors: tuple[str, ...], top: int, as_json: bool) -> None:
    """Show the nearest colours by CIEDE2000. This works offline and is not metered.

    A colour is '#C83C23', c83c23, '#fff', 200 60 35, a name of the library, or a colour of CSS, such as tomato or
    'oklch(0.6 0.2 30)'. A - stands for the lines of standard input.
    """
    if not colors:
        raise click.UsageError("give a colour; in a shell write '#C83C23' in quotes, because # begins a comment")
    release = load_release()
    given = [(text, _parse(release, text, where)) for text, where in _given(colors)]
    found = [(text, rgb, release.match_rgb(rgb, top=top)) for text, rgb in given]
    if as_json:
        results = [
            {
                "input": _exactly(rgb),
                "matches": [{**color(each), "deltaE": round(each.delta_e, 4)} for each in matches],
            }
            for _, rgb, matches in found
        ]
        echo_json({"datasetVersion": release.manifest.version, "results": results})
        return
    sections = []
    for text, rgb, matches in found:
        is_hex = text.lstrip("#").upper() == _hex(rgb)[1:]
        given_as = "" if is_hex else text if _in_srgb(rgb) else f"{text} (outside sRGB)"
        sections.append([Line(_hex(rgb), "input", en=given_as), *map(line_of, matches)])
    _show(*sections)


@click.command(epilog=example("search tao hong"))
@click.argument("text", nargs=-1, required=True)
@click.option("--limit", type=click.IntRange(1, 161), default=10, show_default=True, help="Maximum number of results.")
@json_option
def search(text: tuple[str, ...], limit: int, as_json: bool) -> None:
    """Find colours by Chinese name, pinyin, English name or slug. This works offline and is not metered."""
    release = load_release()
    q = " ".join(text)
    found = release.search(q, limit=limit)
    if as_json:
        results = [color(record) for record in found]
        echo_json({"datasetVersion": release.manifest.version, "count": len(results), "results": results})
    elif found:
        _show([*map(line_of, found)])
    else:
        click.echo(
            f"Nothing found by {q!r}. Try a character (红), pinyin (tao hong), its initials (th) or an English word "
            "(peach). sepu list shows all colours.",
            err=True,
        )


@click.command("list", epilog=example("list --format css"))
@click.argument("names", nargs=-1, metavar="[NAME]...")
@format_option
@json_option
def list_colors(names: tuple[str, ...], file_format: str | None, as_json: bool) -> None:
    """List colours, or export them as CSS, Tailwind, GIMP, ASE or JSON.

    Without names these are all colours of the library. An exported file has the attribution that must go with it. For
    example: sepu list --format css > colours.css.
    """
    release = load_release()
    try:
        records = [release[name] for name in names] if names else release.records
    except UnknownNameError as error:
        raise click.BadParameter(f"{error}; sepu list shows all") from None
    _print(release, records, "json" if as_json else file_format)


def _print(release: Release, records: Sequence[Record], file_format: str | None) -> None:
    if file_format is None:
        _show([*map(line_of, records)])
        return
    if file_format == "ase" and sys.stdout.isatty():
        raise click.UsageError("an ASE file is binary; write it to a file: … --format ase > colours.ase")
    sys.stdout.buffer.write(WRITERS[file_format](release, records))
    sys.stdout.flush()


@click.command(epilog=example("image photo.jpg --top 5"))
@click.argument("file", type=click.Path(exists=True, dir_okay=False))
@click.option("--top", type=click.IntRange(1, 161), default=10, show_default=True, help="Colours, the most frequent.")
@click.option("--picture", type=click.Path(dir_okay=False), help="Write the image in the library's colours here.")
@format_option
@json_option
def image(file: str, top: int, picture: str | None, file_format: str | None, as_json: bool) -> None:
    """Name the colours of an image, with the share of each. This works offline and is not metered.

    Each pixel counts for its nearest colour. --format exports these colours for another program.
    """
    release = load_release()
    with _only_our_errors():
        pixels, opacity = read_image(file)
    found = release.name_pixels(pixels, opacity, top=top)
    if picture is not None:
        _write_picture(_in_colors_of(release, pixels), picture)
    if as_json:
        colors = [{**color(record), "share": round(record.share, 6)} for record in found]
        echo_json({"datasetVersion": release.manifest.version, "colors": colors})
        return
    console = Console()
    if file_format is None and _has_colors(console):
        console.print(_sketch(release, pixels, min(console.width, _SKETCH_COLUMNS)))
    _print(release, found, file_format)


@contextmanager
def _only_our_errors() -> Iterator[None]:
    """Drops what libtiff prints on standard error, of which no Python program hears."""
    try:
        before = os.dup(2)
    except OSError:  # it is closed
        yield
        return
    with Path(os.devnull).open("wb") as nothing:
        os.dup2(nothing.fileno(), 2)
    try:
        yield
    finally:
        os.dup2(before, 2)
        os.close(before)


def _in_colors_of(release: Release, pixels: Pixels) -> NDArray[np.uint8]:
    colors = np.array([record.rgb for record in release], np.uint8)
    named: NDArray[np.uint8] = colors[nearest_places(release.palette(), pixels)]
    return named


def _write_picture(pixels: NDArray[np.uint8], file: str) -> None:
    from PIL import Image

    try:
        Image.fromarray(pixels).save(file)
    except Exception as error:  # an ending that Pillow does not know, or a size that its format cannot have
        if isinstance(error, OSError) and error.errno is not None:
            raise
        raise click.BadParameter(f"{file!r}: {error}; use an ending such as .png", param_hint="--picture") from None


def _sketch(release: Release, pixels: Pixels, columns: int) -> Text:
    """Returns the picture as half blocks: two pixels, one above the other, in each character."""
    height, width = pixels.shape[:2]
    columns = min(columns, width)
    lines = min(max(1, round(height / width * columns / 2)), _SKETCH_LINES)
    rows = np.linspace(0, height - 1, 2 * lines).round().astype(int)
    sample = _in_colors_of(release, pixels[rows][:, np.linspace(0, width - 1, columns).round().astype(int)])
    sketch = Text()
    for upper, lower in zip(sample[::2].tolist(), sample[1::2].tolist(), strict=True):
        for above, below in zip(upper, lower, strict=True):
            sketch.append("▀", f"{_hex(above)} on {_hex(below)}")
        sketch.append("\n")
    return sketch
