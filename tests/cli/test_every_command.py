"""Every command: its help, and that it creates no database. A new command must pass too."""

import os
import re
import shlex
from pathlib import Path

import click
import pytest
from tests.cli.commands import COMMANDS, LEAVES, ON_A_DATABASE
from tests.cli.running import Pair, assert_failed, invoke, lines, text
from tests.harness.proxy import socket_directory

from sepu.database.embedded import mark_moved
from sepu.database.opening import database

IN_THE_FOREGROUND = {("console",), ("events", "deliver"), ("serve",)}  # they have no result to print
# Required options of each command.
OPTIONS = {
    "account erase": "--yes",
    "account move": "--plan standard",
    "console": "--bind unix:console.sock",
    "credit add": "--month 2027-01 --reason outage",
    "credit range": "--since 2027-01-01 --until 2027-01-02 --reason outage",
    "db grant": "--for service",
    "events deliver": "--print --once",
    "events retry": "--state dead",
    "grant add": "--reason fair",
    "key rotate": "--public-key -",
    "plan set": "--match-limit 1 --search-limit 1 --requests-per-minute 1",
}


def whole(path: tuple[str, ...]) -> list[str]:
    """Returns a command with its required arguments and options."""
    required = [each.name for each in LEAVES[path].params if isinstance(each, click.Argument) and each.required]
    given = {"period": "2027-01", "meter": "color_match", "units": "5"}
    return [*path, *(given.get(str(name), "a-b") for name in required), *OPTIONS.get(" ".join(path), "").split()]


def shown(path: tuple[str, ...]) -> str:
    return text(invoke(*path, "--help"))


@pytest.mark.parametrize("path", COMMANDS, ids=" ".join)
def test_every_help_reads_well(path: tuple[str, ...]) -> None:
    help_text = shown(path)
    assert help_text.startswith(f"Usage: sepu {' '.join(path)} ")
    assert max(map(len, help_text.splitlines())) <= 100
    assert "..." not in COMMANDS[path].get_short_help_str(100), "the list of commands shows the first sentence whole"
    assert all(each.help for each in COMMANDS[path].params if isinstance(each, click.Option))


@pytest.mark.parametrize("path", LEAVES, ids=" ".join)
def test_every_command_speaks_json_and_has_an_example_of_what_it_takes(path: tuple[str, ...]) -> None:
    options = [option for each in LEAVES[path].params for option in each.opts]
    assert ("--json" in options) == (path not in IN_THE_FOREGROUND)
    _, _, found = shown(path).partition("\n  Example:\n    sepu ")
    words = shlex.split(re.split(" [<>] ", found)[0])
    assert tuple(words[: len(path)]) == path
    _, rest, _ = LEAVES[path].make_parser(click.Context(LEAVES[path])).parse_args(words[len(path) :])
    assert rest == []


@pytest.mark.parametrize("path", LEAVES, ids=" ".join)
def test_an_option_is_repeatable_or_refused_when_it_is_given_twice(path: tuple[str, ...]) -> None:
    for option in LEAVES[path].params:
        if isinstance(option, click.Option) and not option.multiple:
            words = [option.opts[0]] if option.is_flag else [option.opts[0], "x"]
            done = invoke(*path, *words, *words)
            assert_failed(done, f"{option.opts[0]} is given twice; only one counts, so give it once", status=2)


@pytest.mark.parametrize("path", sorted(ON_A_DATABASE), ids=" ".join)
def test_without_a_database_a_command_says_where_it_looked_and_makes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: tuple[str, ...], pair: Pair
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in [name for name in os.environ if name.startswith("SEPU_")]:
        monkeypatch.delenv(name)
    words = whole(path)
    public_key = Path(pair.public).read_text() if "--public-key" in words else ""
    done = invoke(*words, given=public_key)
    assert (done.returncode, done.stdout) == (2 if path == ("audit",) else 1, "")  # audit's 1 means a difference
    assert done.stderr.startswith(f"sepu: there is no database in {tmp_path}/.sepu: ")
    assert done.stderr.count("\n") == 1
    for way_out in ("`sepu serve`", "--state-dir", "--database-url"):
        assert way_out in done.stderr
    assert list(tmp_path.iterdir()) == []
    (tmp_path / ".sepu" / "postgres").mkdir(parents=True)
    mark_moved(tmp_path / ".sepu")
    assert "the service uses another database" in invoke(*words, given=public_key).stderr


@pytest.mark.parametrize("path", sorted(ON_A_DATABASE - IN_THE_FOREGROUND - {("audit",)}), ids=" ".join)
def test_with_a_closed_standard_output_a_command_does_nothing(
    path: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("sepu.cli.output.drop_output", lambda: None)  # it would redirect this process's output
    done = invoke(*whole(path), "--state-dir", str(tmp_path), closed=True)
    assert_failed(done, "standard output is closed")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_a_stopped_database_is_started_for_a_command() -> None:
    with socket_directory() as state_dir:
        with database(None, state_dir, create=True):
            pass
        assert not (state_dir / "postgres" / "postmaster.pid").exists()
        assert lines(invoke("account", "list", "--state-dir", str(state_dir), "--json")) == []
        assert not (state_dir / "postgres" / "postmaster.pid").exists()
