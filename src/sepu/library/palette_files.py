"""Reads the palettes that people have: GIMP's, Adobe's swatches, design tokens, style sheets, JSON and CSV."""

import csv
import json
import os
import re
import struct
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from io import StringIO
from itertools import islice
from pathlib import Path
from typing import Any

from sepu import limits
from sepu.errors import SepuError
from sepu.library.css import read_css
from sepu.library.files import read_file
from sepu.library.named import NamedPalette
from sepu.library.parsing import ColorError, ColorLike, parse_color
from sepu.library.records import Swatch

# Where it is in the file, its name, and its value.
Found = tuple[str, str, ColorLike]

_DEEPEST = 32  # groups in groups, and references to references
_NEXT_TO_A_BYTE = 1e-4  # of a channel: more than a float of 32 bits rounds


class PaletteError(SepuError, ValueError):
    """This is not a palette that can be read; the message says where in the file, and what to do."""


def read_palette(path: str | os.PathLike[str], *, index: bool = False) -> NamedPalette:
    """Reads a palette with names from a file: .gpl, .ase, .tokens.json (DTCG), .json, .css, .csv or .tsv.

    A name may come twice, and a colour too; without a name a colour is called by its HEX. `index`: whether to build
    one, as `Palette` does. Raises PaletteError, which names the file, the line or the place in it, and what to do.
    """
    name = repr(os.fspath(path))
    ending = Path(path).suffix.lower()
    if ending not in READERS:
        raise PaletteError(f"{name} does not end in {', '.join(READERS)}; save it as one of these")
    content = read_file(path, limits.PALETTE_BYTES, "save its colours alone", PaletteError)
    swatches = []
    try:
        for where, given, color in islice(READERS[ending](content), limits.PALETTE_COLORS + 1):
            try:
                rgb = parse_color(color)
            except (ColorError, TypeError) as error:
                raise PaletteError(f"{where}: {error}") from None
            swatch = Swatch(_printable(given), rgb)
            swatches.append(swatch if swatch.name else Swatch(swatch.hex, rgb))
    except PaletteError as error:
        raise PaletteError(f"{name}, {error}") from None
    if not swatches:
        raise PaletteError(f"{name} has no colour")
    if len(swatches) > limits.PALETTE_COLORS:
        raise PaletteError(f"{name} has more than {limits.PALETTE_COLORS:,} colours; save fewer")
    try:
        return NamedPalette([(swatch.name, swatch) for swatch in swatches], index=index)
    except ValueError as error:
        raise PaletteError(f"{name}: {error}") from None


def _printable(name: str) -> str:
    """Returns a name without what terminals take for a command."""
    return "".join(filter(str.isprintable, name[: limits.NAME_CHARACTERS])).strip()


def _text(content: bytes) -> str:
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise PaletteError(f"line {line}: this is not UTF-8; save the file as UTF-8") from None


def _of_unit(channels: Sequence[float]) -> ColorLike:
    """Returns a colour of channels from 0 to 1; those of a byte, which 32 bits do not hold, are as they were."""
    if not all(-_NEXT_TO_A_BYTE <= channel <= 1 + _NEXT_TO_A_BYTE for channel in channels):  # nor NaN
        raise PaletteError(f"its channels are {', '.join(map(str, channels))}, and not from 0 to 1")
    scaled = [min(max(255 * channel, 0.0), 255.0) for channel in channels]
    red, green, blue = (round(each) if abs(each - round(each)) < 255 * _NEXT_TO_A_BYTE else each for each in scaled)
    return Swatch("", (red, green, blue))


def _gimp(content: bytes) -> Iterator[Found]:
    """Reads a palette of GIMP's, which Inkscape, Krita and Aseprite write too."""
    lines = _text(content).splitlines()
    if not lines or lines[0].strip() != "GIMP Palette":
        raise PaletteError("line 1: this is not 'GIMP Palette'; export it from GIMP, Krita or Inkscape")
    for number, line in enumerate(lines[1:], 2):
        if not line.strip() or line.lstrip().startswith("#") or re.match(r"(Name|Columns):", line):
            continue
        form = re.fullmatch(r"\s*(\d{1,3})\s+(\d{1,3})\s+(\d{1,3})(?:\s+(.*))?", line, re.ASCII)
        if form is None:
            raise PaletteError(
                f"line {number}: {line!r:.60} is not like '200 60 35 Scarlet', three channels and a name"
            )
        red, green, blue, name = form.groups()
        yield f"line {number}", name or "", (int(red), int(green), int(blue))


def _ase(content: bytes) -> Iterator[Found]:
    """Reads Adobe Swatch Exchange: blocks of big-endian fields, and names in UTF-16.

    The format is not published; this is what the programs that write it agree about.
    """
    if content[:4] != b"ASEF":
        raise PaletteError("byte 0: this is not 'ASEF'; export it as Adobe Swatch Exchange (not .aco or .act)")
    at, number = 12, 0
    while at < len(content):
        try:
            kind, length = struct.unpack_from(">HI", content, at)
            block = content[at + 6 : at + 6 + length]
            if len(block) < length:
                raise PaletteError(f"byte {at}: the file is cut off; export it anew")
            if kind == 0x0001:
                number += 1
                (units,) = struct.unpack_from(">H", block)
                name = block[2 : 2 + 2 * units].decode("utf-16-be").rstrip("\0")
                where = f"colour {number}, {_printable(name)!r}"
                try:
                    yield where, name, _ase_color(block, 2 + 2 * units)
                except PaletteError as error:
                    raise PaletteError(f"{where}: {error}") from None
        except (struct.error, UnicodeDecodeError):
            raise PaletteError(f"byte {at}: this is no block of swatches; export the file anew") from None
        at += 6 + length


def _ase_color(block: bytes, at: int) -> ColorLike:
    (model,) = struct.unpack_from(">4s", block, at)
    if model == b"RGB ":
        return _of_unit(struct.unpack_from(">3f", block, at + 4))
    if model == b"Gray":
        return _of_unit(3 * struct.unpack_from(">f", block, at + 4))
    if model == b"CMYK":
        raise PaletteError("CMYK is not a colour without the profile of a press; convert the swatch to RGB")
    if model == b"LAB ":  # of D50, as lab() of CSS
        lightness, a, b = struct.unpack_from(">3f", block, at + 4)
        return f"lab({100 * lightness} {a} {b})"
    raise PaletteError(f"its model is {model.decode('latin-1').strip()!r}; convert the swatch to RGB")


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        [(twice, _)] = Counter(name for name, _ in pairs).most_common(1)
        raise PaletteError(f"{twice!r:.60} comes twice in one object; give each name once")
    return found


def _json(content: bytes) -> Iterator[Found]:
    """Reads design tokens (Design Tokens Format Module 2025.10), and other objects and lists of names and colours."""
    text = _text(content)
    try:
        document = json.loads(text, object_pairs_hook=_once)
        colors = dict(islice(_json_colors(document, (), None), limits.PALETTE_COLORS + 1))
    except json.JSONDecodeError as error:
        raise PaletteError(f"line {error.lineno}: {error.msg}; this is not JSON") from None
    except PaletteError as error:
        raise PaletteError(f"JSON: {error}") from None
    except (RecursionError, ValueError):
        raise PaletteError(f"line 1: objects lie more than {_DEEPEST} deep, or a number is too long") from None
    if len(colors) > limits.PALETTE_COLORS:
        raise PaletteError(f"JSON: there are more than {limits.PALETTE_COLORS:,} colours; save fewer")
    for path, (name, value) in colors.items():
        where = ".".join(path) or "JSON"
        for _ in range(_DEEPEST):
            if not (isinstance(value, str) and value.startswith("{") and value.endswith("}")):
                break
            target = tuple(value[1:-1].split("."))
            if target not in colors:
                raise PaletteError(f"{where}: {value:.60} is not a colour of this file")
            value = colors[target][1]
        else:
            raise PaletteError(f"{where}: its references lead nowhere")
        try:
            yield where, name or where, _json_color(value)
        except PaletteError as error:
            raise PaletteError(f"{where}: {error}") from None


_LISTS = ("colors", "colours", "palette", "swatches")
_VALUES = ("hex", "value", "color", "colour", "rgb")


def _json_colors(
    value: object, path: tuple[str, ...], kind: object
) -> Iterator[tuple[tuple[str, ...], tuple[str, object]]]:
    """Yields the path, the name if it is not the path's, and the value of each colour."""
    if len(path) > _DEEPEST:
        raise RecursionError
    if sum(map(len, path)) > limits.PATH_CHARACTERS:
        raise PaletteError(f"a path of names has more than {limits.PATH_CHARACTERS:,} characters; give shorter names")
    if isinstance(value, dict):
        kind = value.get("$type", kind)
        given = next(
            (value[key] for key in ("$value", *_VALUES) if isinstance(value.get(key), str | list | dict)), None
        )
        if "$value" in value:
            if kind in (None, "color"):
                yield path, ("", value["$value"])
        elif isinstance(given, str | list) and kind is None:
            yield path, (_json_name(value.get("name", "")), given)
        else:
            listed = next((key for key in _LISTS if key in value), None) if not path else None
            for key in value if listed is None else [listed]:
                if not key.startswith("$"):
                    yield from _json_colors(value[key], path if key == listed else (*path, key), kind)
    elif isinstance(value, list) and not (len(value) == 3 and all(isinstance(each, int | float) for each in value)):
        for place, each in enumerate(value):
            below = (*path, str(place + 1))
            yield from [(below, (each, each))] if isinstance(each, str) else _json_colors(each, below, kind)
    else:
        yield path, ("", value)


def _json_name(name: object) -> str:
    """Returns the name of a colour; those of this library have several."""
    if isinstance(name, dict):
        return " ".join(str(name[language]) for language in ("zh", "en") if language in name)
    return str(name)


def _json_color(value: object) -> ColorLike:
    if isinstance(value, dict):
        space, channels, alpha = value.get("colorSpace"), value.get("components"), value.get("alpha", 1)
        if not isinstance(space, str) or not isinstance(channels, list) or len(channels) != 3:
            raise PaletteError("a colour has the members colorSpace and components, of which there are three")
        numbers = [0 if channel == "none" else channel for channel in channels]
        if not all(isinstance(number, int | float) for number in numbers):
            raise PaletteError("components are three numbers, or 'none'")
        if alpha != 1:
            raise PaletteError("it has an alpha channel: blend it with its background first")
        if space == "srgb":
            return _of_unit(numbers)
        percents = space in {"hsl", "hwb"}
        css = " ".join(f"{number}%" if percents and place else str(number) for place, number in enumerate(numbers))
        return f"{space}({css})" if percents or space in {"lab", "lch", "oklab", "oklch"} else f"color({space} {css})"
    if not isinstance(value, str | list):
        raise PaletteError(f"{value!r:.60} is not a colour; write '#C83C23'")
    return value


_COMMENT = re.compile(r"/\*.*?(?:\*/|\Z)", re.DOTALL)
_PROPERTY = re.compile(r"(?<![\w-])--([\w-]{1,200})\s{0,99}:\s{0,99}([^;{}]{1,500})")
_REFERENCE = re.compile(r"var\(\s*--([\w-]+)\s*\)")


def _css(content: bytes) -> Iterator[Found]:
    """Reads the custom properties of a style sheet that are a colour; what else there is does not matter."""
    properties = islice(_PROPERTY.finditer(_COMMENT.sub(" ", _text(content))), limits.PALETTE_COLORS + 1)
    found = [(form[1], form[2].strip()) for form in properties]
    if len(found) > limits.PALETTE_COLORS:
        raise PaletteError(f"CSS: there are more than {limits.PALETTE_COLORS:,} custom properties; save fewer")
    values = dict(found)
    for name, given in found:
        value = given
        for _ in range(_DEEPEST):
            if form := _REFERENCE.fullmatch(value):
                value = values.get(form[1], "")
        with suppress(ValueError):  # a colour with alpha
            # Not `parse_color`, which takes 'abc' for HEX, and three numbers, which are here for an hsl(), for RGB.
            if rgb := read_css(value):
                yield f"--{name}", name, Swatch("", rgb)


_NAMES = ("name", "title", "label", "slug", "id")
_CHANNELS = (("r", "g", "b"), ("red", "green", "blue"))


def _table(content: bytes) -> Iterator[Found]:
    """Reads lines of cells, whose first line names the columns."""
    text = _text(content)
    first = text.partition("\n")[0]
    reader = csv.reader(StringIO(text, newline=""), delimiter=max("\t;,", key=first.count), strict=True)
    try:
        titles = [title.strip().casefold() for title in next(reader, [])]
        name = next((titles.index(title) for title in _NAMES if title in titles), None)
        value = next((titles.index(title) for title in _VALUES if title in titles), None)
        channels = next(([*map(titles.index, each)] for each in _CHANNELS if {*each} <= {*titles}), [])
        if value is None and not channels:
            raise PaletteError("line 1: it does not name the columns; write name,hex or name,r,g,b")
        for row in reader:
            if not any(map(str.strip, row)):
                continue
            where = f"line {reader.line_num}"
            try:
                color = " ".join(row[place] for place in channels) if value is None else row[value]
                yield where, "" if name is None else row[name], color
            except IndexError:
                raise PaletteError(f"{where}: there are {len(row)} cells, and line 1 has {len(titles)}") from None
    except csv.Error as error:
        raise PaletteError(f"line {reader.line_num}: {error}") from None


READERS: dict[str, Callable[[bytes], Iterator[Found]]] = {
    ".gpl": _gimp,
    ".ase": _ase,
    ".json": _json,
    ".css": _css,
    ".csv": _table,
    ".tsv": _table,
}
