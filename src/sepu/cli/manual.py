"""Writes the manual page: each command's help, unchanged."""

from collections.abc import Iterator

import click

_HEAD = """\
.TH SEPU 1 "" "sepu" "User Commands"
.SH NAME
sepu \\- traditional Chinese colours: match, search, serve
.SH COMMANDS"""


def manual(context: click.Context) -> str:
    """Returns the page of a group of commands, in the macros of man(7)."""
    return "\n".join([_HEAD, *_sections(context.command, context), ""])


def _sections(command: click.Command, context: click.Context) -> Iterator[str]:
    if not isinstance(command, click.Group):
        yield f".SS {_text(context.command_path)}\n.nf\n{_text(command.get_help(context))}\n.fi"
        return
    for name in command.list_commands(context):
        if below := command.get_command(context, name):
            yield from _sections(below, click.Context(below, context, name, terminal_width=72))


def _text(text: str) -> str:
    """Escapes what troff would interpret: a backslash, a minus, and a period or quote that begins a line."""
    lines = text.replace("\\", "\\e").replace("-", "\\-").splitlines()
    return "\n".join(f"\\&{line}" if line.startswith((".", "'")) else line for line in lines)
