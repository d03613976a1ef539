"""Prints the results of commands: JSON objects for a program, or aligned lines for a person."""

import sys
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, NoReturn, TypeVar

import click
import msgspec
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from sepu.errors import SepuError

F = TypeVar("F", bound=Callable[..., Any])


json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
json_lines_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON object on each line.")


def env_option(names: str, text: str, **settings: Any) -> Callable[[F], F]:  # noqa: ANN401
    """Adds an option that an environment variable can set too: `--host` or SEPU_HOST."""
    variable = "SEPU_" + names.partition("/")[0].removeprefix("--").replace("-", "_").upper()
    return click.option(names, envvar=variable, help=f"{text}  [env: {variable}]".lstrip(), **settings)


def echo_json(document: object) -> None:
    """Prints one JSON object on one line."""
    click.echo(msgspec.json.encode(document).decode())


def echo_fields(fields: Mapping[str, object], as_json: bool) -> None:
    """Prints one JSON object, or a line for each field."""
    if as_json:
        echo_json(fields)
        return
    width = max(map(len, fields))
    for name, value in fields.items():
        click.echo(f"{name:<{width}}  {'-' if value is None else value}")


def instant(value: datetime | None) -> str | None:
    """Formats a time to the second, in UTC: 2027-01-31T12:00:00Z."""
    return None if value is None else value.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def progress(what: str, *, hidden: bool = False) -> Progress:
    """Shows a progress bar with a unit on standard error, if that is a terminal."""
    console = Console(stderr=True)
    columns = (BarColumn(), MofNCompleteColumn(), TextColumn(what), TimeRemainingColumn())
    disable = hidden or not console.is_terminal
    # Other output goes to standard output, not to the bar's terminal.
    return Progress(*columns, console=console, disable=disable, redirect_stdout=False, redirect_stderr=False)


def fail(error: SepuError, status: int = 1) -> NoReturn:
    """Prints the reason on standard error, and exits."""
    click.echo(f"sepu: {error}", err=True)
    sys.exit(status)
