"""Writes the formats in which colours are exported for designers' programs, with the attribution that they need."""

import struct
from collections.abc import Callable, Sequence

import msgspec

from sepu.library.records import Record
from sepu.library.release import Release
from sepu.operations.color import color

Writer = Callable[[Release, Sequence[Record]], bytes]


def _title(release: Release) -> str:
    return f"Traditional Chinese colours (sepu, library {release.manifest.version})"


def _style_sheet(selector: str, prefix: str) -> Writer:
    def write(release: Release, records: Sequence[Record]) -> bytes:
        about = "\n".join(f" * {line}" for line in (_title(release), *release.attribution))
        colors = "\n".join(
            f"  {prefix}{record.slug}: {record.hex}; /* {record.name.zh} {record.name.en} */" for record in records
        )
        return f"/*\n{about}\n */\n{selector} {{\n{colors}\n}}\n".encode()

    return write


def _gimp(release: Release, records: Sequence[Record]) -> bytes:
    about = "\n".join(f"# {line}" for line in release.attribution)
    colors = "\n".join(
        f"{red:3} {green:3} {blue:3}\t{record.name.zh} {record.name.en}"
        for record in records
        for red, green, blue in [record.rgb]
    )
    return f"GIMP Palette\nName: {_title(release)}\nColumns: 7\n{about}\n{colors}\n".encode()


def _ase(release: Release, records: Sequence[Record]) -> bytes:
    """Writes Adobe Swatch Exchange: blocks of big-endian fields. The attribution is in the group's name.

    The format has no comments, and is not published; this is what the programs that read it agree about.
    """

    def block(kind: int, content: bytes) -> bytes:
        return struct.pack(">HI", kind, len(content)) + content

    def text(value: str) -> bytes:
        encoded = f"{value}\0".encode("utf-16-be")
        return struct.pack(">H", len(encoded) // 2) + encoded

    colors = [
        block(
            0x0001,
            text(f"{record.name.zh} {record.name.en}")
            + struct.pack(">4s3fH", b"RGB ", *(channel / 255 for channel in record.rgb), 0),
        )
        for record in records
    ]
    group = block(0xC001, text(" ".join((f"{_title(release)}.", *release.attribution))))
    blocks = [group, *colors, block(0xC002, b"")]
    return b"ASEF" + struct.pack(">HHI", 1, 0, len(blocks)) + b"".join(blocks)


def _json(release: Release, records: Sequence[Record]) -> bytes:
    document = {
        "datasetVersion": release.manifest.version,
        "attribution": release.attribution,
        "colors": [color(record) for record in records],
    }
    return msgspec.json.encode(document) + b"\n"


WRITERS: dict[str, Writer] = {
    "ase": _ase,
    "css": _style_sheet(":root", "--"),
    "gimp": _gimp,
    "json": _json,
    "tailwind": _style_sheet("@theme", "--color-"),
}
