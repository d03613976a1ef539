"""Writes colours in programs' file formats, with the required attribution."""

import csv
import io
import struct
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from html import escape
from itertools import count
from typing import Any, NamedTuple

import msgspec

from sepu.library.named import NamedPalette
from sepu.library.records import Record, Swatch, rgb_of
from sepu.library.release import Release
from sepu.shell import DIGITS, no_formula


class Entry(NamedTuple):
    """A colour that a command found, and the input for it, if any."""

    record: Record | Swatch
    input: str | None = None


Source = Release | NamedPalette
Writer = Callable[[Source, Sequence[Entry]], bytes]

# Of an SVG, in pixels.
_SWATCH_WIDTH, _LINE_HEIGHT = 80, 32

# After the decimal point.
_CHANNEL_DIGITS = 4


def members(entry: Entry) -> dict[str, Any]:
    """Returns a colour's members in JSON: the input, its record, and its channels."""
    found: dict[str, Any] = {} if entry.input is None else {"input": entry.input}
    rgb = [round(channel, _CHANNEL_DIGITS) for channel in entry.record.rgb]
    found |= msgspec.to_builtins(entry.record) | {"hex": entry.record.hex, "rgb": rgb}
    return found | {name: round(found[name], digits) for name, digits in DIGITS.items() if name in found}


def row(entry: Entry) -> dict[str, object]:
    """Returns the same as the cells of a row for a program."""
    found = members(entry)
    (red, green, blue), name = found["rgb"], found["name"]
    named = name if isinstance(name, dict) else {"name": name}
    whole = {**found, **named, "r": red, "g": green, "b": blue}
    names = ("input", "hex", *DIGITS, *named, "slug", "reliability", "r", "g", "b")
    return {name: whole[name] for name in names if name in whole}


def _title(source: Source) -> str:
    if isinstance(source, NamedPalette):
        return "Colours (sepu)"
    return f"Traditional Chinese colours (sepu, library {source.manifest.version})"


def _name(record: Record | Swatch) -> str:
    if isinstance(record, Swatch):
        return record.name
    return " ".join(dict.fromkeys((record.name.zh, record.name.zh_hant, record.name.en)))


def _about(source: Source) -> dict[str, object]:
    if isinstance(source, NamedPalette):
        return {}
    return {"datasetVersion": source.manifest.version, "attribution": source.attribution}


def _json(source: Source, entries: Sequence[Entry]) -> bytes:
    return msgspec.json.encode({**_about(source), "colors": [*map(members, entries)]}) + b"\n"


def _json_lines(source: Source, entries: Sequence[Entry]) -> bytes:
    lines = [members(entry) | (_about(source) if number == 0 else {}) for number, entry in enumerate(entries)]
    return msgspec.json.Encoder().encode_lines(lines)


def _separated(dialect: str) -> Writer:
    def write(source: Source, entries: Sequence[Entry]) -> bytes:
        # In the first row only: a comment would break the format, and a thousand characters in each row bloat it.
        credit = (" ".join(source.attribution) if number == 0 else "" for number in count())
        rows = [{**row(entry), "attribution": next(credit)} for entry in entries]
        text = io.StringIO()
        if rows:
            lines = csv.DictWriter(text, list(rows[0]), dialect=dialect, lineterminator="\n")
            lines.writeheader()
            lines.writerows({name: no_formula(value) for name, value in cells.items()} for cells in rows)
        return text.getvalue().encode()

    return write


def _once(entries: Sequence[Entry]) -> Iterator[tuple[str, Record | Swatch]]:
    """Yields each colour once, with a name of letters, digits and hyphens that no other has."""
    colors = {(entry.record.name, entry.record.hex): entry.record for entry in entries}
    counts, taken = Counter[str](), set[str]()
    for record in colors.values():
        identifier = slug = record.slug
        while identifier in taken:  # even by another name: "ink 2" takes the second "ink"'s
            counts[slug] += 1
            identifier = f"{slug}-{counts[slug] + 1}"
        taken.add(identifier)
        yield identifier, record


def _comment(text: str) -> str:
    """Returns a text that cannot end a CSS comment, and of which Sass runs nothing."""
    return text.replace("*/", "* /").replace("#{", "# {")


def _style_sheet(before: str, prefix: str, after: str = "}\n") -> Writer:
    def write(source: Source, entries: Sequence[Entry]) -> bytes:
        about = "\n".join(f" * {line}" for line in (_title(source), *source.attribution))
        colors = "\n".join(
            f"{prefix}{slug}: {record.hex}; /* {_comment(_name(record))} */" for slug, record in _once(entries)
        )
        return f"/*\n{about}\n */\n{before}{colors}\n{after}".encode()

    return write


def _gimp(source: Source, entries: Sequence[Entry]) -> bytes:
    about = [f"# {line}" for line in source.attribution]
    colors = [
        f"{red:3} {green:3} {blue:3}\t{_name(record)}"
        for _, record in _once(entries)
        for red, green, blue in [rgb_of(record.hex)]
    ]
    return "\n".join(["GIMP Palette", f"Name: {_title(source)}", "Columns: 7", *about, *colors, ""]).encode()


def _ase(source: Source, entries: Sequence[Entry]) -> bytes:
    """Writes Adobe Swatch Exchange: blocks of big-endian fields. The attribution is in the group's name.

    The format has no comments and no specification; this is what programs that read it agree on.
    """

    def block(kind: int, content: bytes) -> bytes:
        return struct.pack(">HI", kind, len(content)) + content

    def text(value: str) -> bytes:
        encoded = f"{value}\0".encode("utf-16-be")
        return struct.pack(">H", len(encoded) // 2) + encoded

    colors = [
        block(
            0x0001,
            text(_name(record)) + struct.pack(">4s3fH", b"RGB ", *(part / 255 for part in rgb_of(record.hex)), 0),
        )
        for _, record in _once(entries)
    ]
    group = block(0xC001, text(" ".join((f"{_title(source)}.", *source.attribution))))
    blocks = [group, *colors, block(0xC002, b"")]
    return b"ASEF" + struct.pack(">HHI", 1, 0, len(blocks)) + b"".join(blocks)


def _tokens(source: Source, entries: Sequence[Entry]) -> bytes:
    """Writes design tokens (Design Tokens Format Module and Color Module, 2025.10)."""
    tokens = {
        slug: {
            "$value": {
                "colorSpace": "srgb",
                "components": [round(part / 255, 6) for part in rgb_of(record.hex)],
                "hex": record.hex.lower(),
            },
            "$description": _name(record),
        }
        for slug, record in _once(entries)
    }
    about = " ".join((f"{_title(source)}.", *source.attribution))
    return msgspec.json.format(msgspec.json.encode({"$description": about, "$type": "color", **tokens})) + b"\n"


def _svg(source: Source, entries: Sequence[Entry]) -> bytes:
    """Writes a picture of the colours with their names (SVG 2)."""
    records = [record for _, record in _once(entries)]
    lines = [
        f'<rect y="{top}" width="{_SWATCH_WIDTH}" height="{_LINE_HEIGHT}" fill="{record.hex}"/>'
        f'<text x="{_SWATCH_WIDTH + 12}" y="{top + 21}">{escape(_name(record))} {record.hex}</text>'
        for top, record in zip(range(0, _LINE_HEIGHT * len(records), _LINE_HEIGHT), records, strict=True)
    ]
    size = f"0 0 480 {_LINE_HEIGHT * len(records)}"
    about = escape(" ".join(source.attribution))
    parts = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="{size}" font-family="sans-serif" font-size="15">',
        f"<title>{_title(source)}</title><desc>{about}</desc>",
        *lines,
        "</svg>\n",
    )
    return "\n".join(parts).encode()


WRITERS: dict[str, Writer] = {
    "json": _json,
    "jsonl": _json_lines,
    "tsv": _separated("excel-tab"),
    "csv": _separated("excel"),
    "css": _style_sheet(":root {\n", "  --"),
    "scss": _style_sheet("", "$", ""),
    "tailwind": _style_sheet("@theme {\n", "  --color-"),
    "svg": _svg,
    "ase": _ase,
    "gpl": _gimp,
    "tokens": _tokens,
}
