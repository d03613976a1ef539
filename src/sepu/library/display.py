"""Shows colours to people: as HTML in notebooks, as a table in terminals."""

from collections.abc import Iterable, Iterator, Sequence
from html import escape
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

from sepu.printable import printable

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions
    from rich.table import Table
    from rich.text import Text

_CELL = "padding:.2em .8em .2em 0;text-align:left"
_SWATCH = "display:inline-block;width:3em;height:1.4em;border:1px solid #8888"


class Line(NamedTuple):
    """A line of a table: a colour, its measure and its names."""

    hex: str
    measure: str
    zh: str = ""
    pinyin: str = ""
    en: str = ""
    reliability: str = ""


def html(lines: Iterable[Line]) -> str:
    """Returns an HTML table that needs no style sheet."""
    rows = [
        (
            f'<span style="{_SWATCH};background:{line.hex}"></span>',
            *map(escape, filter(None, (line.zh, line.pinyin, line.en))),
            line.hex,
            line.measure,
        )
        for line in lines
    ]
    cells = ("".join(f'<td style="{_CELL}">{cell}</td>' for cell in row) for row in rows)
    return f"<table>{''.join(f'<tr>{row}</tr>' for row in cells)}</table>"


# Least important first. A colour keeps a name.
_DROPPED = ("reliability", "pinyin", "en", "measure")
_DROPPED_WITHOUT_ZH = ("measure",)


class Lines:
    """Lines in sections, which rich shows as a table. In a narrow terminal it drops columns, and names them below."""

    def __init__(self, *sections: Sequence[Line], swatches: bool = True) -> None:
        self._sections = sections
        self._swatches = swatches

    def __rich_console__(self, _console: "Console", options: "ConsoleOptions") -> Iterator["Table | Text"]:
        """Yields the table; rich calls it."""
        from rich.console import Console
        from rich.text import Text

        endless = Console(width=10_000)
        has_zh = any(line.zh for lines in self._sections for line in lines)
        may_drop = _DROPPED if has_zh else _DROPPED_WITHOUT_ZH
        for dropped in range(len(may_drop) + 1):
            table = self._table(may_drop[:dropped])
            if endless.measure(table).maximum <= options.max_width:
                break
        yield table
        if dropped:
            names = ", ".join(may_drop[:dropped]).replace("measure", "ΔE or share")
            yield Text(f"not shown in {options.max_width} columns: {names}", style="dim", overflow="fold")

    def _table(self, dropped: Sequence[str]) -> "Table":
        from rich.box import SIMPLE
        from rich.table import Table
        from rich.text import Text

        lines = [*chain.from_iterable(self._sections)]
        # A column without content would take its title's width from the others.
        shown = [
            name for name in Line.__annotations__ if name not in dropped and any(getattr(line, name) for line in lines)
        ]
        table = Table(box=SIMPLE, padding=(0, 1, 0, 0))
        if self._swatches:
            table.add_column("", min_width=4)
        for name in shown:
            is_measure = name == "measure"
            table.add_column("" if is_measure else name, no_wrap=True, justify="right" if is_measure else "left")
        for section in self._sections:
            for line in section:
                swatch = [Text("    ", style=f"on {line.hex}")] if self._swatches else []
                table.add_row(*swatch, *(Text(printable(getattr(line, name))) for name in shown))
            table.add_section()
        return table
