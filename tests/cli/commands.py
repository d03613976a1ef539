"""The list of commands."""

from collections.abc import Iterator

import click

from sepu.cli.commands import commands


def every(group: click.Group = commands, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        yield (*path, name), command
        if isinstance(command, click.Group):
            yield from every(command, (*path, name))


COMMANDS = dict(every())
LEAVES = {path: command for path, command in COMMANDS.items() if not isinstance(command, click.Group)}
ON_A_DATABASE = {
    path for path, command in LEAVES.items() if "state_dir" in {option.name for option in command.params}
} - {("serve",)}
