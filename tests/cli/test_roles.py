"""People's database roles: each may run the commands that the table on the page says, and no others."""

import re
from collections.abc import Iterator
from pathlib import Path
from secrets import token_hex

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import make_conninfo
from tests.cli.commands import ON_A_DATABASE, arguments
from tests.cli.running import invoke

from sepu.database.roles import PEOPLE, grant

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "accounts.md").read_text()
ROLES = (*PEOPLE, "owner")
# Not tried here: one runs in the foreground (tests/console opens its pages as a read-only role), one needs Citus.
UNTRIED = {"console", "db distribute"}
MORE = {"db grant": "{role} --for support", "events deliver": "--print --once", "export-usage": "{past_month}"}


def least_roles() -> dict[str, str]:
    """Returns the first role in the page's table that may run each command."""
    table = re.search(r"\| role \| [^\n]+\n\|---\|---\|\n((?:\|.*\n)+)", PAGE)
    assert table is not None
    found = {}
    for row in table[1].splitlines():
        role, commands = row.strip("| ").split(" | ")
        for command in re.findall(r"`([^`]+)`", commands):
            assert command not in found
            found[command] = role.strip("`")
    return found


@pytest.fixture
def roles(connection: psycopg.Connection) -> Iterator[dict[str, str]]:
    """A role for each purpose; of the owner the superuser who owns the schema here."""
    made: dict[str, str] = {purpose: f"test_{purpose}_{token_hex(4)}" for purpose in PEOPLE}
    for purpose in PEOPLE:
        connection.execute(sql.SQL("create role {} login").format(sql.Identifier(made[purpose])))
        grant(connection, made[purpose], purpose)
    yield {**made, "owner": connection.info.user}
    for role in made.values():
        connection.execute(sql.SQL("drop owned by {}").format(sql.Identifier(role)))
        connection.execute(sql.SQL("drop role {}").format(sql.Identifier(role)))


def test_each_role_runs_the_commands_of_the_page_and_no_others(
    ledger_url: str, world: dict[str, str], roles: dict[str, str]
) -> None:
    least = least_roles()
    assert least.keys() == {" ".join(path) for path in ON_A_DATABASE}
    world |= {"role": roles["support"], "past_month": "2026-01"}
    found: dict[str, str] = {}
    last = ("events deliver", "account delete", "account erase", "db grant")
    for path in sorted(ON_A_DATABASE, key=lambda path: (" ".join(path) in last, " ".join(path) in last[1:], path)):
        command = " ".join(path)
        given = MORE[command].format(**world).split() if command in MORE else arguments(path, world)
        for role in ROLES if command not in UNTRIED else ():
            url = make_conninfo(ledger_url, user=roles[role])
            done = invoke(*path, *given, given=world["api_key"], SEPU_DATABASE_URL=url)
            if not re.search("permission denied|can grant; connect as", done.stderr):
                found[command] = role
                expected = 1 if command == "db check" else 0  # fsync is off in this run
                assert done.returncode == expected, (role, command, done.stderr)
                break  # each role includes the rights of those before it
            assert done.returncode > 0
            assert "Traceback" not in done.stderr
    assert found == {command: role for command, role in least.items() if command not in UNTRIED}


def test_each_page_names_the_role_that_its_commands_need() -> None:
    least = least_roles()
    commands = {tuple(command.split()): ROLES.index(role) for command, role in least.items()}
    pages = [page for page in DOCS.rglob("*.md") if page.parent.name != "develop"]
    found = set()
    for page in pages:
        text = page.read_text()
        needed = [
            index
            for words in re.findall(r"^[$#] (?:\w+=\S+ )*(?:/opt/sepu/bin/)?sepu (\S+)(?: (\S+))?", text, re.MULTILINE)
            for index in [commands.get(words, commands.get(words[:1]))]
            if index is not None
        ]
        if needed:
            found.add(page.name)
            role = ROLES[max(needed)]
            assert re.search(r"\bowner\b" if role == "owner" else f"`{role}`", text), f"{page.name} needs {role}"
            assert "#roles-for-people" in text, page.name
    assert {"accounts.md", "billing.md", "support.md", "runbook.md"} <= found
