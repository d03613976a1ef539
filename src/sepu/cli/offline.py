"""Runs the core offline, for the commands in `colors`."""

import csv
import io
import os
import re
import sys
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import islice
from pathlib import Path
from shlex import quote
from string import ascii_lowercase

import click
import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.text import Text

from sepu import limits
from sepu.cli.command import refuse_useless_options
from sepu.cli.output import check_output, echo, progress, terminal_width
from sepu.cli.palette_formats import WRITERS, Entry, Source, row
from sepu.library.collection import UnknownNameError
from sepu.library.display import Line, Lines
from sepu.library.images import Pixels, nearest_positions, read_image
from sepu.library.palette_entries import PaletteError, PaletteWarning
from sepu.library.palette_files import read_palette
from sepu.library.parsing import ColorError, Rgb, parse_color
from sepu.library.records import Record, hex_of, is_in_srgb, line_of, rgb_of
from sepu.library.release import load_release
from sepu.printable import printable
from sepu.shell import as_given, file_fault, in_threes, no_formula

# A line of standard input with a colour, and maybe a comment.
_COLOR_LINE_CHARACTERS = 1000
# A line of CSV with a colour in one of its columns.
_CSV_LINE_CHARACTERS = 2**20

# A # before a colour's digits does not begin a comment.
_COMMENT = re.compile(r"(?:^|\s)#(?![0-9A-Fa-f]{3,8}\b).*", re.DOTALL)
_BYTE_ORDER_MARK = "\ufeff"
_LONGEST_CSS_NAME = 20  # lightgoldenrodyellow
_SKETCH_COLUMNS, _SKETCH_LINES = 60, 100


def _load(palette: str | None) -> Source:
    """Returns the library, or the colours of a file; says on standard error what was skipped of it."""
    if palette is None:
        return load_release()
    try:
        with warnings.catch_warnings(record=True) as skipped:
            warnings.simplefilter("always", PaletteWarning)
            source = read_palette(palette)
    except PaletteError as error:
        raise click.BadParameter(str(error), param_hint="--palette") from None
    for warning in skipped:
        echo(f"--palette: {warning.message}", err=True)
    return source


def _print(
    source: Source, entries: Sequence[Entry], file_format: str | None, sections: Iterable[Sequence[Line]] = ()
) -> None:
    """Prints a file, or lines with tabs for a pipe, or a table for a person: the sections, if any."""
    check_output()
    if file_format is not None:
        if file_format == "ase" and sys.stdout.isatty():
            raise click.UsageError("an ASE file is binary; write it to a file: … --format ase > colours.ase")
        content = WRITERS[file_format](source, entries)
        if file_format != "ase":
            content = "\n".join(map(printable, content.decode().split("\n"))).encode()
        sys.stdout.buffer.write(content)
    elif terminal_width() is None:
        for entry in entries:
            echo("\t".join(map(str, row(entry).values())))
    else:
        console = Console()
        lines = [*sections] or [[line_of(entry.record) for entry in entries]]
        console.print(Lines(*lines, swatches=_has_colors(console)))
        if _has_colors(console) and console.color_system != "truecolor":
            shown = "256" if console.color_system == "256" else "16"
            echo(
                f"This terminal is known for {shown} colours, so different swatches may look alike; if it shows more: "
                "COLORTERM=truecolor",
                err=True,
            )


def _has_colors(console: Console) -> bool:
    return console.color_system is not None and not console.no_color


def _given(arguments: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yields each colour as it was given, and where: - is standard input."""
    most = _COLOR_LINE_CHARACTERS
    for text in in_threes(arguments):
        if text != "-":
            yield text, ""
            continue
        for number, line in enumerate(iter(partial(sys.stdin.readline, most + 1), ""), 1):
            if number == 1:
                line = line.removeprefix(_BYTE_ORDER_MARK)
            if len(line) > most:
                raise click.BadParameter(f"line {number} has more than {most:,} characters")
            if colour := _COMMENT.sub("", line).strip():
                yield colour, f"line {number}: "


def _parse(source: Source, text: str, where: str) -> Rgb:
    try:
        return parse_color(text, source.named(text))
    except ColorError as error:
        if not where and (fault := file_fault(text)):
            raise click.BadParameter(fault) from None
        raise click.BadParameter(
            f"{where}{error}{source.hint(text) or _css_hint(text)}{_csv_hint(text, where)}"
        ) from None


def _css_hint(text: str) -> str:
    """Returns the end of a message: the CSS names that are one typing error away; may be empty."""
    name = text.lower()
    if not 3 < len(name) <= _LONGEST_CSS_NAME + 1:
        return ""
    cuts = [(name[:at], name[at:]) for at in range(len(name) + 1)]
    near = {before + after[1:] for before, after in cuts}
    near |= {before + after[1::-1] + after[2:] for before, after in cuts}
    near |= {
        before + letter + rest for before, after in cuts for letter in ascii_lowercase for rest in (after, after[1:])
    }
    found = sorted(each for each in near if each.isalpha() and _is_color(each))
    return f"; perhaps you mean {' or '.join(found)}" if found else ""


def _csv_hint(text: str, where: str) -> str:
    """Returns the end of a message about a line that looks like a row of several cells; may be empty."""
    is_row = where and re.search(r"[,;\t]", text) and "(" not in text
    return "; for a CSV with a header: sepu match - --column COLUMN" if is_row else ""


def _is_color(text: str) -> bool:
    try:
        parse_color(text)
    except ColorError:
        return False
    return True


def match(
    colors: tuple[str, ...], top: int | None, column: str | None, palette: str | None, file_format: str | None
) -> None:
    """Prints the nearest colours."""
    if not colors:
        raise click.UsageError("give a colour; in a shell write '#C83C23' in quotes, because # begins a comment")
    source = _load(palette)
    if top is not None and top > (most := max(len(source), len(load_release()))):
        raise click.BadParameter(f"{top} is more than the {most} colours", param_hint="--top")
    if column is not None:
        if colors != ("-",):
            raise click.UsageError("--column reads CSV on standard input: sepu match - --column NAME < FILE")
        if file_format not in (None, "csv"):
            raise click.UsageError(f"--column writes CSV, not {file_format}")
        _match_column(source, column, top or 1)
        return
    top = top or 3
    most = limits.palettes.COLORS
    with progress("colours", hidden="-" not in colors or sys.stdin.isatty(), transient=True) as bar:
        read = bar.track(islice(_given(colors), most + 1))
        given = [(text, _parse(source, text, where)) for text, where in read]
    if len(given) > most:
        raise click.BadParameter(f"there are more than {most:,} colours; give them in several parts")
    entries, sections = [], []
    for text, rgb in given:
        matches = source.match_rgb(rgb, top=min(top, len(source)))
        entries += [Entry(record, as_given(text, rgb)) for record in matches]
        is_hex = text.lstrip("#").upper() == hex_of(rgb)[1:]
        given_as = "" if is_hex else text if is_in_srgb(rgb) else f"{text} (outside sRGB)"
        sections.append([Line(hex_of(rgb), "input", en=given_as), *map(line_of, matches)])
    _print(source, entries, file_format, sections)


def _match_column(source: Source, column: str, top: int) -> None:
    """Prints the CSV of standard input with the matches' columns after its own."""
    check_output()
    lines = csv.reader(_csv_lines(), strict=True)
    try:
        header = next(lines, [])
        if header.count(column) != 1:
            raise click.BadParameter(
                f"{column!r} is not a column; there are {', '.join(header)}", param_hint="--column"
            )
        position = header.index(column)
        found: list[tuple[list[str], dict[str, object]]] = []
        with progress("rows", hidden=sys.stdin.isatty(), transient=True) as bar:
            for cells in bar.track(lines):
                if not cells:
                    continue
                if len(found) >= limits.palettes.COLORS * top:
                    raise click.BadParameter(
                        f"there are more than {limits.palettes.COLORS:,} rows; give them in several parts"
                    )
                where = f"line {lines.line_num}: "
                if len(cells) != len(header):
                    raise click.BadParameter(f"{where}{len(cells)} cells, and the header has {len(header)}")
                text = cells[position].strip()
                matches = source.match_rgb(_parse(source, text, where), top=min(top, len(source))) if text else ()
                found += [(cells, row(Entry(each))) for each in matches] or [(cells, {})]
    except csv.Error as error:
        raise click.BadParameter(f"line {lines.line_num}: {error}") from None
    names = next((list(added) for _, added in found if added), [])
    credit = ["attribution"] if source.attribution else []
    taken = set(header)
    titles = [name if name not in taken else f"match_{name}" for name in (*names, *credit)]
    output = io.StringIO()
    writer = csv.writer(output, lineterminator="\n")
    writer.writerow([*header, *titles])
    for number, (cells, added) in enumerate(found):
        about = [" ".join(source.attribution) if number == 0 else ""] if credit else []
        writer.writerow([*cells, *(no_formula(added.get(name, "")) for name in names), *about])
    sys.stdout.buffer.write("\n".join(map(printable, output.getvalue().split("\n"))).encode())


def _csv_lines() -> Iterator[str]:
    """Yields the lines of standard input, each within the bound, without a byte-order mark."""
    most = _CSV_LINE_CHARACTERS
    for number, line in enumerate(iter(partial(sys.stdin.readline, most + 1), ""), 1):
        if len(line) > most:
            raise click.BadParameter(f"line {number} has more than {most:,} characters")
        yield line.removeprefix(_BYTE_ORDER_MARK) if number == 1 else line


def search(q: str, limit: int, file_format: str | None) -> None:
    """Prints the colours that a query finds."""
    release = load_release()
    try:
        found = release.search(q, limit=limit)
    except ValueError as error:
        raise click.BadParameter(str(error)) from None
    if not found and file_format is None:
        advice = (
            f"To find the nearest colours: sepu match {quote(q)}"
            if _is_color(q)
            else "Try a character (红), pinyin (tao hong), its initials (th) or an English word (peach)"
        )
        echo(f"Nothing found by {q!r}. {advice}. sepu list shows all colours.", err=True)
        return
    _print(release, [*map(Entry, found)], file_format)


def list_colors(names: tuple[str, ...], group: str | None, palette: str | None, file_format: str | None) -> None:
    """Prints colours of the library or a palette."""
    source = _load(palette)
    try:
        records = [source[name] for name in names] if names else [*source]
    except UnknownNameError as error:
        raise click.BadParameter(f"{error}; sepu list shows all") from None
    if group is not None:
        groups = dict.fromkeys(record.group for record in source if isinstance(record, Record))
        if group not in groups:
            known = f"the groups are {', '.join(groups)}" if groups else "a palette has no groups"
            raise click.BadParameter(f"{group!r} is not a group; {known}", param_hint="--group")
        records = [record for record in records if isinstance(record, Record) and record.group == group]
    _print(source, [*map(Entry, records)], file_format)


def image(
    file: str,
    top: int,
    within: float,
    picture: str | None,
    width: int | None,
    palette: str | None,
    file_format: str | None,
) -> None:
    """Prints the colours of an image."""
    if file_format is not None:
        refuse_useless_options("--format", useless=("width",))
    source = _load(palette)
    with _only_our_errors():
        given = sys.stdin.buffer.read(limits.images.BYTES + 1) if file == "-" else file
        pixels, opacity = read_image(given)
    found = source.name_pixels(pixels, opacity, top=top, within=within)
    if picture is not None:
        _write_picture(_in_colors_of(source, pixels), picture)
    console = Console()
    if file_format is None and terminal_width() and _has_colors(console):
        console.print(_sketch(source, pixels, width or min(console.width, _SKETCH_COLUMNS)), soft_wrap=True)
    _print(source, [*map(Entry, found)], file_format)


@contextmanager
def _only_our_errors() -> Iterator[None]:
    """Drops what libtiff prints to standard error, bypassing Python."""
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


def _in_colors_of(source: Source, pixels: Pixels) -> NDArray[np.uint8]:
    colors = np.array([rgb_of(record.hex) for record in source], np.uint8)
    named: NDArray[np.uint8] = colors[nearest_positions(source.palette(), pixels)]
    return named


def _write_picture(pixels: NDArray[np.uint8], file: str) -> None:
    from PIL import Image

    try:
        Image.fromarray(pixels).save(file)
    except Exception as error:  # an ending that Pillow does not know, or a size that its format cannot have
        if isinstance(error, OSError) and error.errno is not None:
            raise
        raise click.BadParameter(f"{file!r}: {error}; use an ending such as .png", param_hint="--picture") from None


def _sketch(source: Source, pixels: Pixels, columns: int) -> Text:
    """Returns the picture as half blocks: two pixels, one above the other, in each character."""
    height, width = pixels.shape[:2]
    columns = min(columns, width)
    lines = min(max(1, round(height / width * columns / 2)), _SKETCH_LINES)
    rows = np.linspace(0, height - 1, 2 * lines).round().astype(int)
    sample = _in_colors_of(source, pixels[rows][:, np.linspace(0, width - 1, columns).round().astype(int)])
    sketch = Text()
    for upper, lower in zip(sample[::2].tolist(), sample[1::2].tolist(), strict=True):
        for above, below in zip(upper, lower, strict=True):
            sketch.append("▀", f"{hex_of(above)} on {hex_of(below)}")
        sketch.append("\n")
    return sketch
