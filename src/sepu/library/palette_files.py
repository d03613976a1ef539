"""Reads the palettes that people have: GIMP's, Adobe's swatches, design tokens, style sheets, JSON and CSV."""

import csv
import os
import re
import struct
import warnings
from collections.abc import Callable, Iterable, Iterator
from io import StringIO
from itertools import chain, islice
from pathlib import Path
from typing import NamedTuple

from sepu import limits
from sepu._palette import Palette
from sepu.library.css import read_hex
from sepu.library.files import read_file
from sepu.library.named import NamedPalette
from sepu.library.palette_css import read_style_sheet
from sepu.library.palette_entries import (
    Found,
    PaletteError,
    PaletteWarning,
    check_alpha,
    decode,
    find_alpha,
    find_members,
    of_unit,
    opaque_alpha,
    printable,
)
from sepu.library.palette_json import read_json
from sepu.library.parsing import FORMS, ColorError, ColorLike, parse_color
from sepu.library.records import Swatch, hex_of, is_in_srgb

# Characters of a line in a table.
_TABLE_LINE_CHARACTERS = 2**17

_SHOWN = 3  # kinds of skipped entries in a warning
_NAMED = 10  # further entries that it names for each kind
_PARTICULARS = re.compile(r"'.*'|\".*\"|[\d.]+", re.DOTALL)


def read_palette(path: str | os.PathLike[str], *, index: bool = False) -> NamedPalette:
    """Reads a palette with names from a file: .gpl, .ase, .tokens.json (DTCG), .json, .css, .csv or .tsv.

    Names and colours may repeat; a colour without a name is named by its HEX, in JSON by its path or as it is written.
    Entries that are not opaque colours are skipped, and a PaletteWarning says how many and why. `index`: whether to
    build an index, as in `Palette`. Raises PaletteError, which says where in the file the fault is, and what to do.
    """
    name = repr(os.fspath(path))
    ending = Path(path).suffix.lower()
    if ending not in READERS:
        raise PaletteError(f"{name} does not end in {', '.join(READERS)}; save it as one of these")
    content = read_file(path, limits.palettes.BYTES, "save its colours alone", PaletteError)
    swatches: list[Swatch] = []
    skipped: list[tuple[str, str]] = []  # where, and why
    try:
        entries = [*islice(READERS[ending](content), limits.palettes.COLORS + 1)]
    except PaletteError as error:
        raise PaletteError(f"{name}, {error}") from None
    if len(entries) > limits.palettes.COLORS:
        raise PaletteError(f"{name} has more than {limits.palettes.COLORS:,} colours; save fewer")
    for where, given, color in _from_0_to_255(entries):
        try:
            swatches.append(_swatch(printable(given), color))
        except (ColorError, PaletteError, TypeError, ValueError) as error:
            reason = str(error).removesuffix(f"; {FORMS}")
            skipped.append((printable(where), printable(reason)))
    if not swatches:
        raise PaletteError(f"{name} has no colour{f': {_summary(skipped)}' if skipped else ''}")
    if skipped:
        message = f"{name}: {len(skipped):,} of {len(entries):,} entries are not opaque colours and are skipped: "
        warnings.warn(PaletteWarning(message + _summary(skipped), skipped), stacklevel=2)
    return NamedPalette([(swatch.name, swatch) for swatch in swatches], index=index)


def _from_0_to_255(entries: list[Found]) -> list[Found]:
    """Returns the entries; where a file has r, g and b from 0 to 1, as Figma writes them, these become colours."""
    channels = [channel for _, _, color in entries if isinstance(color, dict) for channel in color.values()]
    if not all(0 <= channel <= 1 for channel in channels) or all(channel in (0, 1) for channel in channels):
        return entries
    return [
        (where, name, of_unit([color["r"], color["g"], color["b"]]) if isinstance(color, dict) else color)
        for where, name, color in entries
    ]


def _swatch(name: str, color: ColorLike | PaletteError) -> Swatch:
    """Returns a colour of a palette; raises ColorError or PaletteError if it is not one."""
    if isinstance(color, PaletteError):
        raise color
    rgb = parse_color(color)
    swatch = Swatch(name, rgb) if name else Swatch(hex_of(rgb), rgb)
    if not is_in_srgb(rgb):
        Palette(index=False, lab=[swatch.lab])  # refuses what lies too far out
    return swatch


def _summary(skipped: list[tuple[str, str]]) -> str:
    """Returns how many entries were skipped for each kind of reason, the first of each, and where others are."""
    places: dict[str, list[str]] = {}
    first: dict[str, str] = {}
    for where, reason in skipped:
        kind = _PARTICULARS.sub("", reason)
        places.setdefault(kind, []).append(where)
        first.setdefault(kind, reason)
    kinds = sorted(places, key=lambda kind: -len(places[kind]))
    parts = [_part(places[kind], first[kind]) for kind in kinds[:_SHOWN]]
    rest = sum(len(places[kind]) for kind in kinds[_SHOWN:])
    return "; ".join(parts) + (f"; and {rest:,} for other reasons" if rest else "")


def _part(places: list[str], reason: str) -> str:
    [place, *others] = places
    if not others:
        return f"{place}: {reason}"
    named = ", ".join(others[:_NAMED])
    more = f" and {len(others) - _NAMED:,} more" if len(others) > _NAMED else ""
    return f"{len(places):,} such as {place}: {reason} (also {named}{more})"


# A name may follow without a blank, as `255 255 255Untitled`, which GIMP takes.
_GIMP_COLOR = re.compile(
    r"(\d{1,3}\s+\d{1,3}\s+\d{1,3})(?=\s|\Z|[A-Za-z])(?:\s+(\d{1,3})(?=\s|\Z))?\s*(.*)", re.ASCII | re.DOTALL
)


def _gimp(content: bytes) -> Iterator[Found]:
    """Reads a palette of GIMP's, which Inkscape, Krita and Aseprite write too."""
    lines = StringIO(decode(content), newline=None)  # not splitlines, for which U+2028 ends a line
    if lines.readline().strip() != "GIMP Palette":
        raise PaletteError("line 1: this is not 'GIMP Palette'; export it from GIMP, Krita or Inkscape")
    with_alpha = False
    for number, line in enumerate(lines, 2):
        if line.isspace() or line.lstrip().startswith("#"):
            continue
        if line[0].isalpha() and ":" in line:  # 'Name: ', 'Columns: ' and those of other programs
            title, _, value = line.partition(":")
            with_alpha = with_alpha or (title, value.strip()) == ("Channels", "RGBA")
            continue
        form = _GIMP_COLOR.fullmatch(line.strip())
        channels, alpha, name = form.groups("") if form else ("", "", "")
        color: ColorLike | PaletteError
        if not channels or (with_alpha and not alpha):
            color = PaletteError(f"{line.strip()!r:.60} is not like '200 60 35 Scarlet'")
        else:
            color = [*map(int, channels.split())]
            name = name if with_alpha else f"{alpha} {name}"
            if with_alpha:
                color = _if_opaque(color, alpha, 255)
        yield f"line {number}", name, color


def _if_opaque(color: ColorLike, alpha: str | None, opaque: int | None) -> ColorLike | PaletteError:
    try:
        check_alpha(alpha, opaque)
    except PaletteError as error:
        return error
    return color


def _ase(content: bytes) -> Iterator[Found]:
    """Reads Adobe Swatch Exchange: blocks of big-endian fields, and names in UTF-16.

    The format is not published; this is what programs that write it agree on.
    """
    if content[4:6] == b"\xe0\xa5":
        raise PaletteError("byte 4: this is a sprite of Aseprite; export its palette as .gpl")
    if content[:4] != b"ASEF":
        raise PaletteError("byte 0: this is not 'ASEF'; export it as Adobe Swatch Exchange (not .aco or .act)")
    at, number = 12, 0
    while at < len(content):
        try:
            kind, length = struct.unpack_from(">HI", content, at)
            block = content[at + 6 : at + 6 + length]
            if len(block) < length:
                raise PaletteError(f"byte {at}: the file is cut off; export it again")
            if kind == 0x0001:
                number += 1
                (units,) = struct.unpack_from(">H", block)
                name = block[2 : 2 + 2 * units].decode("utf-16-be").rstrip("\0")
                where = f"colour {number}, {printable(name)!r}"
                try:
                    yield where, name, _ase_color(block, 2 + 2 * units)
                except PaletteError as error:
                    yield where, name, error
        except (struct.error, UnicodeDecodeError):
            raise PaletteError(f"byte {at}: this is not a block of swatches; export the file again") from None
        at += 6 + length


def _ase_color(block: bytes, at: int) -> ColorLike:
    (model,) = struct.unpack_from(">4s", block, at)
    if model == b"RGB ":
        return of_unit(struct.unpack_from(">3f", block, at + 4))
    if model == b"Gray":
        return of_unit(3 * struct.unpack_from(">f", block, at + 4))
    if model == b"CMYK":
        raise PaletteError("CMYK is not a colour without the profile of a press; convert the swatch to RGB")
    if model == b"LAB ":  # under D50, like lab() in CSS
        lightness, a, b = struct.unpack_from(">3f", block, at + 4)
        return f"lab({100 * lightness} {a} {b})"
    raise PaletteError(f"its model is {model.decode('latin-1').strip()!r}; convert the swatch to RGB")


def _table_lines(text: str) -> Iterator[str]:
    for number, line in enumerate(StringIO(text, newline=""), 1):
        if len(line) > _TABLE_LINE_CHARACTERS:
            raise PaletteError(f"line {number} has more than {_TABLE_LINE_CHARACTERS:,} characters; save fewer columns")
        yield line


class _Columns(NamedTuple):
    """The titles of a table's columns, and the positions of a colour's parts in a row."""

    titles: list[str]
    positions: list[int]  # of the values, each a colour, or of red, green and blue
    are_channels: bool
    name: int | None
    alpha: int | None


def _table(content: bytes) -> Iterator[Found]:
    """Reads a table, whose first line names the columns; if not, the first HEX values show them."""
    text = decode(content)
    first = text.partition("\n")[0]
    reader = csv.reader(_table_lines(text), delimiter=max("\t;,", key=first.count), strict=True)
    try:
        columns = _titled([title.strip()[: limits.inputs.NAME_CHARACTERS] for title in next(reader, [])])
        rows: Iterable[list[str]] = reader
        if not columns.positions:
            columns, row = _untitled(columns, reader)
            rows = chain([row], reader)
        titles, positions, are_channels, name, alpha = columns
        found: list[tuple[str, str, ColorLike | PaletteError, str | None]] = []
        for row in rows:
            if not row or not any(map(str.strip, row)):
                continue
            where = f"line {reader.line_num}"
            if len(row) <= max(*positions, alpha or 0):
                error = PaletteError(f"there are {len(row)} cells, and line 1 has {len(titles)}")
                found.append((where, "", error, None))
                continue
            given = row[name] if name is not None and name < len(row) else ""
            given = given[: limits.inputs.NAME_CHARACTERS]  # a line may have thousands of colours
            of_row = None if alpha is None else row[alpha]
            if are_channels:
                found.append((where, given, _of_cells([row[position] for position in positions]), of_row))
            elif len(positions) == 1:
                found.append((where, given, row[positions[0]], of_row))
            else:
                values = [(titles[each], row[each]) for each in positions if row[each].strip()]
                found += ((where, f"{given} {title}", value, of_row) for title, value in values)
            if len(found) > limits.palettes.COLORS:
                break
    except csv.Error as error:
        raise PaletteError(f"line {reader.line_num}: {error}") from None
    opaque = opaque_alpha(of_row for *_, of_row in found)
    for where, given, color, of_row in found:
        yield where, given, color if isinstance(color, PaletteError) else _if_opaque(color, of_row, opaque)


def _titled(titles: list[str]) -> _Columns:
    """Returns the columns by their titles; without positions if no title is of a value."""
    name, value, channels = find_members(titles)
    positions = [titles.index(title) for title in channels or (value,) if title is not None]
    alpha = find_alpha(titles) if positions else None
    name_position, alpha_position = (None if title is None else titles.index(title) for title in (name, alpha))
    return _Columns(titles, positions, channels is not None, name_position, alpha_position)


def _untitled(columns: _Columns, rest: Iterator[list[str]]) -> tuple[_Columns, list[str]]:
    """Returns the columns, by the HEX values of the first or second row, and that row.

    Raises:
        PaletteError: neither row has one, or the second is longer than the first.
    """
    titles, row = columns.titles, columns.titles
    if positions := _hex_positions(row, bare=True):
        titles = [""] * len(row)
    else:
        row = next(rest, [])
        positions = _hex_positions(row)
    if not positions or len(titles) < len(row):
        raise PaletteError("line 1: it does not name the columns; write name,hex or name,r,g,b")
    name = columns.name
    if name is None and positions[0]:
        name = positions[0] - 1
    elif name is None and len(row) > 1 == len(positions):
        name = 1
    return _Columns(titles, positions, are_channels=False, name=name, alpha=None), row


def _hex_positions(row: list[str], *, bare: bool = False) -> list[int]:
    """Returns the positions of HEX values: those with a number sign, or else, if `bare`, those of six digits."""
    found = [position for position, cell in enumerate(row) if read_hex(cell.strip())]
    signed = [position for position in found if row[position].lstrip().startswith("#")]
    return signed or [position for position in found if bare and len(row[position].strip()) == 6]


def _of_cells(cells: list[str]) -> ColorLike:
    """Returns red, green and blue as numbers; as a text if they are not, such as 1_0."""
    try:
        red, green, blue = (int(cell) if cell.strip().isdecimal() else float(cell.replace("_", "?")) for cell in cells)
    except ValueError:
        return " ".join(cells)
    return {"r": red, "g": green, "b": blue}


READERS: dict[str, Callable[[bytes], Iterator[Found]]] = {
    ".gpl": _gimp,
    ".ase": _ase,
    ".json": read_json,
    ".css": read_style_sheet,
    ".csv": _table,
    ".tsv": _table,
}
