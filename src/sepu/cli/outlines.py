"""Restores commands from their outlines, so that shells complete their words without importing them.

`python -m tools.outlines` writes the outlines.
"""

import json
from pathlib import Path
from typing import Any

import click

FILE = Path(__file__).with_name("outlines.json")


def restore(name: str) -> click.Command:
    """Returns a command that does nothing, but of which shells complete the same words as of the named one."""
    outlines = json.loads(FILE.read_bytes())
    if name in outlines:
        return _restore(name, outlines[name])
    below = [path.removeprefix(f"{name} ") for path in outlines if path.startswith(f"{name} ")]
    return click.Group(name, [_restore(each, outlines[f"{name} {each}"]) for each in below])


def _restore(name: str, outline: dict[str, Any]) -> click.Command:
    return click.Command(name, help=outline["help"], params=[_parameter(**each) for each in outline["params"]])


def _parameter(
    decls: list[str],
    choices: list[str] | None = None,
    path: str | None = None,
    **settings: Any,  # noqa: ANN401
) -> click.Parameter:
    kind = click.Choice(choices) if choices else click.Path(file_okay=path == "file") if path else None
    return (click.Option if decls[1:] else click.Argument)(decls, type=kind, **settings)
