"""Writes the manual page of the commands, from the texts of their help."""

import inspect
from collections.abc import Iterator

import click


def manual(context: click.Context) -> str:
    """Returns the page of a group of commands, in the macros of man(7)."""
    commands = context.command
    assert isinstance(commands, click.Group)  # noqa: S101
    parts = [
        '.TH SEPU 1 "" "sepu" "User Commands"',
        ".SH NAME",
        "sepu \\- traditional Chinese colours: match, search, serve",
        ".SH DESCRIPTION",
        _text(commands.help or ""),
        ".SH COMMANDS",
        *_commands(commands, context),
    ]
    return "\n".join(parts) + "\n"


def _commands(group: click.Group, context: click.Context) -> Iterator[str]:
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None  # noqa: S101
        below = click.Context(command, info_name=name, parent=context)
        if isinstance(command, click.Group):
            yield from _commands(command, below)
            continue
        yield f".SS {_text(' '.join([below.command_path, *command.collect_usage_pieces(below)]))}"
        yield _text(inspect.cleandoc(command.help or ""))
        for parameter in command.get_params(below):
            record = parameter.get_help_record(below)
            if record and record[1] and "--help" not in parameter.opts:
                yield f".TP\n.B {_text(record[0])}\n{_text(record[1])}"


def _text(text: str) -> str:
    """Escapes what troff would take for its own: a backslash, a minus, and a period or a quote that begins a line."""
    escaped = text.replace("\\", "\\e").replace("-", "\\-").replace("\b\n", "")
    lines = [f"\\&{line}" if line.startswith((".", "'")) else line for line in escaped.splitlines()]
    return "\n".join(line or ".PP" for line in lines)
