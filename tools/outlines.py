"""Writes the outlines of the operators' commands, from which shells complete their words."""

import json
from typing import Any

import click

from sepu.cli.commands import commands
from sepu.cli.outlines import FILE


def outlines() -> str:
    """Returns the text of the file: a line for each command."""
    found: dict[str, Any] = {}
    context = click.Context(commands)
    for name in commands.list_commands(context):
        command = commands.get_command(context, name)
        if isinstance(command, click.Group):
            found |= {f"{name} {each}": _outline(below) for each, below in command.commands.items()}
        elif command is not None and command.callback.__module__ != "sepu.cli.colors":
            found[name] = _outline(command)
    lines = (f"{json.dumps(path)}: {json.dumps(outline, ensure_ascii=False)}" for path, outline in found.items())
    return "{\n" + ",\n".join(lines) + "\n}\n"


def _outline(command: click.Command) -> dict[str, Any]:
    return {"help": command.get_short_help_str(), "params": [_parameter(each) for each in command.params]}


def _parameter(parameter: click.Parameter) -> dict[str, Any]:
    found: dict[str, Any] = {"decls": [parameter.name]}
    if isinstance(parameter, click.Option):
        found["decls"] += [*parameter.opts, *parameter.secondary_opts]
        found |= {"help": parameter.help}
        found |= {name: True for name in ("is_flag", "multiple") if getattr(parameter, name)}
    if parameter.nargs != 1:
        found["nargs"] = parameter.nargs
    if isinstance(parameter.type, click.Choice):
        found["choices"] = list(parameter.type.choices)
    elif isinstance(parameter.type, click.Path):
        found["path"] = "file" if parameter.type.file_okay else "dir"
    return found


if __name__ == "__main__":
    FILE.write_text(outlines(), "utf-8")
