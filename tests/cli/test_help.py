"""Every command, as `--help` shows it: whoever adds one is held to what the others do."""

import shlex
from collections.abc import Iterator

import click
import pytest
from click.testing import CliRunner

from sepu.cli.main import commands

IN_THE_FOREGROUND = {("console",), ("events", "deliver"), ("serve",)}  # what they do is their answer


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


def test_there_is_something_to_look_at() -> None:
    assert {("serve",), ("key", "rotate"), ("receipt", "open"), ("account", "list")} <= set(LEAVES)
    assert len(LEAVES) >= 20


@pytest.mark.parametrize("path", LEAVES, ids=" ".join)
def test_every_command_speaks_json(path: tuple[str, ...]) -> None:
    options = [option for each in LEAVES[path].params for option in each.opts]
    assert ("--json" in options) == (path not in IN_THE_FOREGROUND)


@pytest.mark.parametrize("path", COMMANDS, ids=" ".join)
def test_every_help_reads_well(path: tuple[str, ...]) -> None:
    shown = CliRunner().invoke(commands, [*path, "--help"], prog_name="sepu", terminal_width=100)
    assert shown.exit_code == 0
    assert shown.output.startswith(f"Usage: sepu {' '.join(path)} ")
    assert max(map(len, shown.output.splitlines())) <= 100

    command = COMMANDS[path]
    first, *rest = (command.help or "").strip().split("\n\n")
    assert first[:1].isupper()
    assert all(paragraph.strip().endswith((".", ":")) for paragraph in (first, *rest))
    assert "..." not in command.get_short_help_str(100), "the list of commands shows the first sentence whole"
    for each in command.params:
        name = each.make_metavar(click.Context(command))
        if isinstance(each, click.Option):
            assert each.help, f"{each.opts} says nothing"
        else:
            assert name == name.upper(), name


@pytest.mark.parametrize("path", LEAVES, ids=" ".join)
def test_one_word_for_one_thing(path: tuple[str, ...]) -> None:
    """What several commands take has the same name in all of them."""
    names = {"account_id": "ACCOUNT", "key_id": "KEYID"}
    for each in LEAVES[path].params:
        if isinstance(each, click.Argument) and each.name in names:
            assert each.make_metavar(click.Context(LEAVES[path])).strip("[]") == names[each.name]


@pytest.mark.parametrize("path", LEAVES, ids=" ".join)
def test_every_help_has_an_example_that_works(path: tuple[str, ...]) -> None:
    """As far as its words go: they are options and arguments that the command takes."""
    shown = CliRunner().invoke(commands, [*path, "--help"], prog_name="sepu", terminal_width=100)
    _, _, found = shown.output.partition("\n  Example:\n    sepu ")
    words = shlex.split(found.partition(" > ")[0])
    assert tuple(words[: len(path)]) == path
    parser = LEAVES[path].make_parser(click.Context(LEAVES[path]))
    _, rest, _ = parser.parse_args(words[len(path) :])
    assert rest == []
