"""What a command prints: one JSON object for a program, or aligned lines for a person."""

import sys
from collections.abc import Callable, Mapping
from typing import Any, NoReturn, TypeVar

import click
import msgspec

from sepu.errors import SepuError

F = TypeVar("F", bound=Callable[..., Any])


def json_option(command: F) -> F:
    """Adds `--json`."""
    return click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")(command)


def echo_json(document: object) -> None:
    """One JSON object on one line."""
    click.echo(msgspec.json.encode(document).decode())


def echo_fields(fields: Mapping[str, object], as_json: bool) -> None:
    """One JSON object, or a line a field."""
    if as_json:
        echo_json(fields)
        return
    width = max(map(len, fields))
    for name, value in fields.items():
        click.echo(f"{name:<{width}}  {'-' if value is None else value}")


def fail(error: SepuError, status: int = 1) -> NoReturn:
    """Tells why, on standard error, and exits."""
    click.echo(f"sepu: {error}", err=True)
    sys.exit(status)
