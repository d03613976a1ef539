"""Shows colours to people: as HTML in notebooks, as a table in terminals."""

from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING, NamedTuple

from sepu.library.records import Entry, Record

if TYPE_CHECKING:
    from rich.table import Table

_CELL = "padding:.2em .8em .2em 0;text-align:left"
_SWATCH = "display:inline-block;width:3em;height:1.4em;border:1px solid #8888"


def html(records: Sequence[Entry]) -> str:
    """Returns a table, which needs no style sheet."""
    rows = [
        (
            f'<span style="{_SWATCH};background:{line.hex}"></span>',
            *map(escape, filter(None, (line.zh, line.pinyin, line.en))),
            line.hex,
            line.measure,
        )
        for line in map(line_of, records)
    ]
    cells = ("".join(f'<td style="{_CELL}">{cell}</td>' for cell in row) for row in rows)
    return f"<table>{''.join(f'<tr>{row}</tr>' for row in cells)}</table>"


class Line(NamedTuple):
    """A line of a table: a colour, and what is said of it."""

    hex: str
    measure: str
    zh: str = ""
    pinyin: str = ""
    en: str = ""
    reliability: str = ""


def line_of(record: Entry) -> Line:
    """Returns the line of a colour."""
    if not isinstance(record, Record):
        return Line(record.hex, record.measure, en=record.label)
    name = record.name
    return Line(record.hex, record.measure, name.zh, name.pinyin, name.en, record.reliability)


def table(*sections: Sequence[Line], swatches: bool = True) -> "Table":
    """Returns a table for rich. In narrow terminals names wrap, and values never do."""
    from rich.box import SIMPLE
    from rich.table import Table
    from rich.text import Text

    measure = max((len(row.measure) for section in sections for row in section), default=0)
    shown = Table(box=SIMPLE, padding=(0, 1, 0, 0))
    if swatches:
        shown.add_column("", min_width=4)
    shown.add_column("hex", no_wrap=True, min_width=7)
    if measure:
        shown.add_column("", no_wrap=True, min_width=measure, justify="right")
    for column in ("zh", "pinyin", "en"):
        shown.add_column(column, overflow="fold")
    shown.add_column("reliability", no_wrap=True, min_width=11)
    for section in sections:
        for row in section:
            swatch = [Text("    ", style=f"on {row.hex}")] if swatches else []
            shown.add_row(*swatch, row.hex, *map(Text, row[1 if measure else 2 :]))
        shown.add_section()
    return shown
