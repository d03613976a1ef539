"""Prints the results of commands: JSON or CSV for a program, or aligned lines for a person."""

import csv
import errno
import io
import os
import re
import shutil
import sys
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, nullcontext
from dataclasses import fields
from datetime import UTC, date, datetime
from functools import cache
from itertools import chain, islice
from typing import Any, Literal, NoReturn, get_origin

import click
import msgspec
from click.core import ParameterSource
from rich.cells import cell_len, set_cell_size
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    Task,
    TextColumn,
    TimeRemainingColumn,
)
from rich.text import Text

from sepu.errors import Remedy, SepuError
from sepu.metering.key_format import without_keys
from sepu.metering.meters import METERS, is_month
from sepu.printable import printable
from sepu.shell import no_formula

# An error's message, which quotes the input; a longer one loses its middle.
_MESSAGE_CHARACTERS = 1200

Form = Literal["table", "json", "csv"]
Fields = Mapping[str, object]

# Fields with a number for each meter, and the suffix of their names, as in matchLimit.
_BY_METER = {"limits": "Limit", "committed": "Committed", "last_month": "LastMonth", "units": "Units"}

_GAP = "  "
# Columns that may be cut to fit the terminal. The others can be copied as they are.
_MAY_BE_CUT = ("name", "account", "externalId", "planId", "reason")
_LEAST_CELLS = 6
# Rows that set the columns' widths, so that a list of a million rows begins immediately.
_MEASURED_ROWS = 1000
_BAR_CELLS = 20
# The fields that say what a command did.
_IDS = ("id", "accountId", "keyId", "planId", "role")


class Port(click.IntRange):
    """A port. The address that Kubernetes puts into the variable of a Service called sepu is ignored."""

    def __init__(self) -> None:
        super().__init__(1, 65535)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:  # noqa: ANN401
        """Reads a port; click calls it."""
        source = ctx and param and ctx.get_parameter_source(param.name or "")
        if ctx and param and source is ParameterSource.ENVIRONMENT and re.match("(tcp|udp|sctp)://", value):
            value = param.get_default(ctx)
            note(f"{param.envvar} is the address of a Kubernetes Service, not a port; using {value}")
        port: int = super().convert(value, param, ctx)
        return port


def month(value: str) -> str:
    """Checks the form of a UTC month, such as 2027-01."""
    if not is_month(value):
        raise click.BadParameter(f"{value!r} is not like 2027-01")
    return value


def columns(kind: Any) -> tuple[str, ...]:  # noqa: ANN401  # any dataclass; mypy knows no hash of type[Any]
    """Returns the names of this dataclass's values in JSON and CSV, in order."""
    return tuple(name for name, _, _ in _layout(kind))


def members(result: Any) -> dict[str, Any]:  # noqa: ANN401  # any dataclass
    """Returns a result's values by the names of `columns`: times in UTC, and a number for each meter."""
    found = {}
    for name, field, meter in _layout(result.__class__):
        value = getattr(result, field)
        found[name] = _plain(value) if meter is None else value.get(meter, 0)
    return found


@cache
def _layout(kind: Any) -> list[tuple[str, str, str | None]]:  # noqa: ANN401
    """Lists each name with its field, and with its meter if the field has a number for each."""
    found: list[tuple[str, str, str | None]] = []
    for field in fields(kind):
        if get_origin(field.type) is Mapping:
            suffix = _BY_METER[field.name]
            found += [(meter.operation + suffix, field.name, name) for name, meter in METERS.items()]
        else:
            first, *others = field.name.split("_")
            found.append((first + "".join(map(str.capitalize, others)), field.name, None))
    return found


def _plain(value: Any) -> object:  # noqa: ANN401
    match value:
        case datetime():
            return instant(value)
        case date():
            return value.isoformat()
        case [] | [int(), *_]:
            return ",".join(map(str, value))
    return value


def echo(*lines: str, err: bool = False) -> None:
    """Prints lines, escaped for a terminal, on standard error if asked.

    Raises:
        OSError: standard output is closed or full.
    """
    if not err:
        check_output()
    click.echo("\n".join(map(printable, lines)), err=err)


def note(text: str) -> None:
    """Prints a remark on standard error."""
    echo(f"sepu: {text}", err=True)


def note_to_person(text: str) -> None:
    """Prints a remark on standard error, unless the command prints JSON."""
    if not click.get_current_context().params.get("as_json"):
        note(text)


def check_output() -> None:
    """Raises OSError if standard output was closed before Python started."""
    if sys.stdout is None:
        raise OSError(errno.EBADF, "standard output is closed")


@contextmanager
def report_success_if_unprinted(done: Fields, now: str) -> Iterator[None]:
    """If the block cannot print, says what the command did, and what to do `now`. Never prints a key.

    Raises:
        SepuError: the block cannot print.
    """
    try:
        yield
    except (OSError, UnicodeEncodeError) as error:
        ids = ", ".join(f"{name} {done[name]}" for name in _IDS if done.get(name) is not None)
        raise SepuError(f"{why_not_printed(error)}; but the command succeeded{ids and ': '}{ids}. {now}") from error


def why_not_printed(error: OSError | UnicodeEncodeError) -> str:
    """Returns why nothing can be printed, and drops what Python would print at exit."""
    if isinstance(error, UnicodeEncodeError):
        if "\ud800" <= error.object[error.start] <= "\udfff":  # arguments' other bytes become these
            return "an argument is not UTF-8"
        return f"the output's encoding, {error.encoding}, has no Chinese; set PYTHONIOENCODING=utf-8"
    drop_output()
    reason = error.strerror or type(error).__name__
    return reason if error.filename is None else f"{error.filename!r}: {reason}"


def drop_output() -> None:
    """Drops what cannot be printed. Python would retry at exit, and change the exit status."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


def echo_json(document: object) -> None:
    """Prints one JSON object on one line."""
    echo(msgspec.json.encode(document).decode())


def echo_fields(fields: Mapping[str, object], as_json: bool) -> None:
    """Prints one JSON object, or a line for each field."""
    if as_json:
        echo_json(fields)
        return
    width = max(map(len, fields))
    for name, value in fields.items():
        text = (", ".join(value) or "nothing") if isinstance(value, list | tuple) else _text(value)
        echo(f"{name:<{width}}  {text}")


def echo_rows(
    columns: Sequence[str],
    rows: Iterable[Fields],
    form: Form,
    in_table: Callable[[Fields], Fields] | None = None,
    *,
    nothing: str | None = "nothing was found",
) -> None:
    """Prints rows as JSON objects, CSV, or a table.

    A row has a value for each column. `in_table` turns it into the table's row; by default they are the same. A
    generator is always closed, even if printing fails. `nothing` is the remark in place of an empty table.
    """
    with closing(rows) if isinstance(rows, Generator) else nullcontext():
        if form == "json":
            for row in rows:
                echo_json(row)
        elif form == "csv":
            print_line = csv_printer(columns)
            for row in rows:
                print_line(row)
        else:
            _echo_table(map(in_table, rows) if in_table else rows, nothing)


def csv_printer(columns: Sequence[str]) -> Callable[[Fields], None]:
    """Prints a CSV's header, and returns a function that prints a line."""

    def print_line(row: Fields) -> None:
        line = io.StringIO()
        csv.writer(line, lineterminator="").writerow([_cell(row[name]) for name in columns])
        echo(line.getvalue())

    print_line({name: name for name in columns})

    return print_line


def _cell(value: object) -> object:
    return str(value).lower() if isinstance(value, bool) else no_formula(value)


def _echo_table(rows: Iterable[Fields], nothing: str | None) -> None:
    rest = iter(rows)
    first = list(islice(rest, _MEASURED_ROWS))
    if not first:
        if nothing:
            note(nothing)
        return
    titles = list(first[0])
    widths = {title: max(cell_len(title), *(cell_len(_text(row[title])) for row in first)) for title in titles}
    numbers = {title for title in titles if isinstance(first[0][title], int)}
    width = terminal_width()
    cut = _cut(widths, width) if width else []

    def line(cells: Mapping[str, object]) -> str:
        parts = []
        for title in titles:
            text = _text(cells[title])
            if title in cut and cell_len(text) > widths[title]:
                text = set_cell_size(text, widths[title] - 1) + "…"
            space = " " * (widths[title] - cell_len(text))
            parts.append(space + text if title in numbers else text + space)
        return _GAP.join(parts).rstrip()

    echo(line({title: title for title in titles}))
    for row in chain(first, rest):
        echo(line(row))
    if cut:
        note(f"cut to fit {width} columns: {', '.join(cut)}; --json or --csv prints all")


def _cut(widths: dict[str, int], width: int) -> list[str]:
    """Makes the widest columns that may be cut narrower until all fit; returns their titles."""
    cut = set()
    while sum(widths.values()) + len(_GAP) * (len(widths) - 1) > width:
        widest = max((title for title in _MAY_BE_CUT if title in widths), key=lambda title: widths[title], default=None)
        if widest is None or widths[widest] <= _LEAST_CELLS:
            break
        widths[widest] -= 1
        cut.add(widest)
    return [title for title in widths if title in cut]


def _text(value: object) -> str:
    return "-" if value is None else str(value)


def terminal_width() -> int | None:
    """Returns the width that a table has to fit; a pipe has none, unless COLUMNS says so."""
    check_output()
    known = os.environ.get("COLUMNS") or sys.stdout.isatty()
    return shutil.get_terminal_size().columns if known else None


def percent(part: int, whole: int) -> str:
    """Returns how much of a limit is used, rounded down: 100 % is at the limit."""
    return f"{part * 100 // whole if whole else 100 if part else 0:>3} %"


def bar(part: int, whole: int) -> str:
    """Draws a part of a whole."""
    eighths = round(part * _BAR_CELLS * 8 / whole) if whole else 0
    full, rest = divmod(min(eighths, _BAR_CELLS * 8), 8)
    drawn = "█" * full + ("▏▎▍▌▋▊▉"[rest - 1] if rest else "")
    try:
        drawn.encode(sys.stdout.encoding)
    except UnicodeEncodeError:
        drawn = "#" * round(eighths / 8)
    return drawn


def instant(value: datetime | None) -> str | None:
    """Formats a time to the second, in UTC: 2027-01-31T12:00:00Z."""
    return None if value is None else value.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


class _Rate(ProgressColumn):
    """Shows how much is done in a second."""

    def render(self, task: Task) -> Text:
        return Text(f"{task.finished_speed or task.speed or 0:.0f}/s")


def progress(what: str, *, hidden: bool = False, transient: bool = False) -> Progress:
    """Shows a progress bar with a unit, a rate and the time left on standard error, if that is a terminal.

    `transient`: erases it at the end.
    """
    console = Console(stderr=True)
    columns = (BarColumn(), MofNCompleteColumn(), TextColumn(what), _Rate(), TimeRemainingColumn())
    disable = hidden or not console.is_terminal
    # Other output goes to standard output, not to the bar's terminal.
    return Progress(
        *columns,
        console=console,
        disable=disable,
        transient=transient,
        redirect_stdout=False,
        redirect_stderr=False,
    )


REMEDIES: dict[Remedy, str] = {
    "another role": "docs/accounts.md#roles-for-people lists the commands of each role",
    "audit": "compare all with: sepu audit",
    "credit": "see: sepu credit add",
    "credit by hand": "see: sepu usage --by day, sepu credit add",
    "erase account": "see: sepu account erase",
    "list events": "see: sepu events list --json",
    "move accounts": "see: sepu account move",
    "rotate again": "a new rotation needs another --rotation-id",
    "search accounts": "see: sepu account list --search TEXT",
    "set plan": "see: sepu plan set --help",
}


def fail(error: SepuError, status: int = 1) -> NoReturn:
    """Prints the reason and the remedy on standard error, and exits."""
    note("; ".join([safe_message(str(error)), *([REMEDIES[error.remedy]] if error.remedy else [])]))
    sys.exit(status)


def safe_message(message: str) -> str:
    """Returns a message without API keys, and without its middle if it is too long."""
    message = without_keys(message)  # given as an argument, by mistake
    half = _MESSAGE_CHARACTERS // 2
    return message if len(message) <= 2 * half else f"{message[:half]} … {message[-half:]}"
