"""Only `sepu serve` makes an embedded database."""

import os
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from jwcrypto.jwk import JWK
from tests.cli.running import Run, invoke
from tests.faults.proxy import socket_directory

from sepu.cli.database import database
from sepu.cli.main import commands

# What each needs besides.
COMMANDS = {
    "account create": "",
    "account erase": "a --yes",
    "account list": "",
    "account move": "a --plan standard",
    "account reactivate": "a",
    "account set": "a",
    "account show": "a",
    "account suspend": "a",
    "audit": "",
    "console": "--bind unix:console.sock",
    "db distribute": "",
    "db grant": "a",
    "db migrate": "",
    "events dead": "",
    "events deliver": "--print --once",
    "events list": "",
    "events retry": "--all-dead",
    "events status": "",
    "export-usage": "2027-01",
    "key issue": "a",
    "key list": "a",
    "key revoke": "a-b",
    "key rotate": "a --public-key -",
    "key set": "a-b",
    "plan list": "",
    "plan show": "standard",
    "plan set": "standard --match-limit 1 --search-limit 1 --requests-per-minute 1",
    "prune": "",
    "top": "",
    "usage": "a",
}


def on_a_database(group: click.Group, path: str = "") -> Iterator[str]:
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if isinstance(command, click.Group):
            yield from on_a_database(command, f"{path}{name} ")
        elif command and "state_dir" in {option.name for option in command.params}:
            yield path + name


def test_every_command_is_tried() -> None:
    assert set(on_a_database(commands)) == {*COMMANDS, "serve"}


@pytest.fixture
def sepu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs `sepu` in a directory where there is nothing."""
    monkeypatch.chdir(tmp_path)
    for name in [name for name in os.environ if name.startswith("SEPU_")]:
        monkeypatch.delenv(name)
    return invoke


@pytest.mark.parametrize("command", COMMANDS)
def test_without_a_database_a_command_says_where_it_looked_and_makes_nothing(
    sepu: Run, tmp_path: Path, command: str
) -> None:
    public_key = JWK.generate(kty="RSA", size=3072).export_public() if command == "key rotate" else ""
    done = sepu(*command.split(), *COMMANDS[command].split(), given=public_key)
    assert (done.returncode, done.stdout) == (2 if command == "audit" else 1, "")  # audit's 1: it does not add up
    assert done.stderr.startswith(f"sepu: there is no database in {tmp_path}/.sepu: ")
    assert done.stderr.count("\n") == 1
    for way_out in ("`sepu serve`", "--state-dir", "--database-url"):
        assert way_out in done.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_a_stopped_database_is_started_for_a_command(sepu: Run) -> None:
    with socket_directory() as state_dir:
        with database(None, state_dir, create=True):
            pass
        assert not (state_dir / "postgres" / "postmaster.pid").exists()
        done = sepu("account", "list", "--state-dir", str(state_dir))
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
        assert not (state_dir / "postgres" / "postmaster.pid").exists()
