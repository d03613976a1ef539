"""Runs the core offline: `sepu match` and `sepu search`."""

import re

import click
from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table
from rich.text import Text

from sepu.cli.output import echo_json, example, json_option
from sepu.library.records import Record, rgb_of
from sepu.library.release import load_release
from sepu.operations.color import color

_HEX = re.compile(r"#?([0-9A-Fa-f]{6})", re.ASCII)


def hex_color(value: str) -> str:
    """Normalises a colour such as #C83C23 to #RRGGBB; the number sign is optional."""
    form = _HEX.fullmatch(value)
    if form is None:
        raise click.BadParameter(f"{value!r} is not like '#C83C23'")
    return f"#{form[1].upper()}"


def _swatch(hex_color: str) -> Text:
    return Text("    ", style=f"on {hex_color}")


def _table(*columns: str) -> Table:
    """Returns a table for 80 columns, in which only the English name may wrap."""
    table = Table(box=SIMPLE, padding=(0, 1, 0, 0))
    for column in columns:
        table.add_column(column, no_wrap=column != "en")
    return table


def _names(record: Record) -> tuple[str, str, str, str]:
    return record.name.zh, record.name.pinyin, record.name.en, record.reliability


@click.command(epilog=example("match '#C83C23' --top 3"))
@click.argument("colors", nargs=-1, required=True, type=hex_color, metavar="'#RRGGBB' ...")
@click.option("--top", type=click.IntRange(1, 161), default=3, show_default=True, help="Matches for each colour.")
@json_option
def match(colors: tuple[str, ...], top: int, as_json: bool) -> None:
    """Show the nearest colours by CIEDE2000. This works offline and is not metered."""
    release = load_release()
    palette = release.palette()
    found = [(given, palette.nearest(*rgb_of(given), top)) for given in colors]
    if as_json:
        results = [
            {
                "input": given,
                "matches": [
                    {**color(release.records[position]), "deltaE": round(delta_e, 4)} for position, delta_e in nearest
                ],
            }
            for given, nearest in found
        ]
        echo_json({"datasetVersion": release.manifest.version, "results": results})
        return
    table = _table("", "input", "", "hex", "deltaE", "zh", "pinyin", "en", "reliability")
    for given, nearest in found:
        for rank, (position, delta_e) in enumerate(nearest):
            record = release.records[position]
            left = (_swatch(given), given) if rank == 0 else ("", "")
            table.add_row(*left, _swatch(record.hex), record.hex, f"{delta_e:.4f}", *_names(record))
        table.add_section()
    Console().print(table)


@click.command(epilog=example("search tao hong"))
@click.argument("text", nargs=-1, required=True)
@click.option("--limit", type=click.IntRange(1, 161), default=10, show_default=True, help="Maximum number of results.")
@json_option
def search(text: tuple[str, ...], limit: int, as_json: bool) -> None:
    """Find colours by Chinese name, pinyin, English name or slug. This works offline and is not metered."""
    release = load_release()
    found = [release.records[position] for position in release.names().search(" ".join(text), limit)]
    if as_json:
        results = [color(record) for record in found]
        echo_json({"datasetVersion": release.manifest.version, "count": len(results), "results": results})
        return
    table = _table("", "hex", "zh", "pinyin", "en", "reliability")
    for record in found:
        table.add_row(_swatch(record.hex), record.hex, *_names(record))
    Console().print(table)
