"""Who changed what: each command that changes something leaves a row in its own transaction, and no other does."""

import json
from datetime import UTC, datetime, timedelta
from functools import partial
from unittest.mock import Mock

import psycopg
import pytest
from psycopg.conninfo import make_conninfo
from tests.cli.commands import CHANGES, ON_A_DATABASE, arguments
from tests.cli.running import Run, assert_failed, invoke, lines, printed, rows, text

from sepu.admin.events import list_events
from sepu.admin.history import Change, list_changes
from sepu.admin.operator import operator_name

# What it records, if that is not its own name.
ACTIONS = {"account import": "account.create"}
NOT_WHEN_REPEATED = CHANGES.keys() - {"plan delete", "account create", "key issue", "grant add", "credit add"}
# These change the schema and its roles, which Postgres records, or an event, which records its own delivery.
NOT_OF_THE_LEDGER = {"db distribute", "db grant", "db migrate", "events deliver"}


def test_what_changes_something_is_recorded_once_with_who_did_it(
    run: Run, connection: psycopg.Connection, world: dict[str, str]
) -> None:
    def newly(seen: int) -> list[Change]:
        changes = list_changes(connection)
        return changes[: len(changes) - seen]

    told = ""
    for command, given in CHANGES.items():
        seen = len(newly(0))
        done = run(*command.split(), *given.format(**world).split(), SEPU_OPERATOR="Ada\x1b[2J")
        assert done.returncode == 0, done.stderr
        told += done.stdout
        recorded = newly(seen)
        assert ACTIONS.get(command, command.replace(" ", ".")) in {change.action for change in recorded}, command
        assert {(change.operator, change.role) for change in recorded} == {("Ada?[2J", "sepu")}
        if command in NOT_WHEN_REPEATED:
            seen = len(newly(0))
            run(*command.split(), *given.format(**world).split())
            assert newly(seen) == [], f"{command} changed nothing"
    history = text(run("history", "--json", "--limit", "1000"))
    receipt = next(word for word in told.split() if word.startswith("eyJ"))
    for secret in (world["api_key"], receipt, *connection.execute("select encode(key_hash, 'hex') from sepu.api_key")):
        assert str(secret) not in history


def test_what_is_not_recorded_works_where_nothing_can_be_written(ledger_url: str, world: dict[str, str]) -> None:
    """A new command that changes something fails here until it is in the list above."""
    url = make_conninfo(ledger_url, options="-c default_transaction_read_only=on")
    for path in ON_A_DATABASE:
        if not {" ".join(path)} & {*CHANGES, *NOT_OF_THE_LEDGER, "console"}:
            done = invoke(*path, *arguments(path, world), given=world["api_key"], SEPU_DATABASE_URL=url)
            expected = 1 if path == ("db", "check") else 0  # fsync is off in this run
            assert (done.returncode, done.stderr.replace("sepu: nothing was found\n", "")) == (expected, ""), path


def test_a_command_that_fails_records_nothing(run: Run, connection: psycopg.Connection, world: dict[str, str]) -> None:
    seen = list_changes(connection)
    [event] = list_events(connection)
    missing = event.event_id.replace("80:2000", "95:2000")
    assert_failed(run("events", "retry", event.event_id, missing), f"there is no event '{missing}'")
    assert_failed(
        run("account", "create", "--external-id", "cus_8812"), f"'cus_8812' is that of account {world['account']}"
    )
    assert_failed(run("plan", "set", "gold", "--match-limit", "1", "--thresholds", "0"), "from 1 to 100")
    assert list_changes(connection) == seen
    assert [event.state for event in list_events(connection)] == ["dead"]


def test_the_history_of_an_account_and_of_all(run: Run, connection: psycopg.Connection, world: dict[str, str]) -> None:
    ada = partial(run, SEPU_OPERATOR="Ada")
    for command in (
        "account set cus_8812 --name Silk",
        "account move cus_8812 --plan gold",
        "plan set gold --thresholds 50",
    ):
        text(ada(*command.split()))
    account = world["account"]
    plan, moved, named, issued, created, *_ = (
        {name: value for name, value in line.items() if name != "at"} for line in lines(run("history", "--json"))
    )
    by_ada = {"accountId": account, "subject": account, "operator": "Ada", "role": "sepu"}
    standard, gold = (
        {"planId": plan_id, "requestsPerMinute": requests, "color_match": match, "color_search": search}
        for plan_id, requests, match, search in (("standard", 120, 2000, 1000), ("gold", 9, 9, 9))
    )
    assert moved == {**by_ada, "action": "account.move", "before": standard, "after": gold}
    assert (named["before"], named["after"]) == ({"name": None}, {"name": "Silk"})
    assert (plan["accountId"], plan["subject"], plan["action"]) == (None, "gold", "plan.set")
    assert (plan["before"], plan["after"]) == ({"thresholds": [80, 95, 100]}, {"thresholds": [50]})
    assert (issued["subject"], issued["before"], issued["after"]) == (world["key"], None, {})
    assert created["after"] == {**standard, "status": "active", "externalId": "cus_8812"}
    assert issued["operator"] == operator_name()

    head, *shown = text(run("history", "cus_8812")).splitlines()
    assert head.split() == ["at", "operator", "action", "subject", "changed"]
    actions = ["plan.set", "account.move", "account.set", "key.issue", "account.create"]
    assert [line.split()[4] for line in shown] == actions, "and not what was changed of gold before"
    assert all(line.split()[1:4] == ["Ada", "as", "sepu"] for line in shown[:3])
    assert shown[1].endswith(
        "planId standard to gold, color_match 2000 to 9, color_search 1000 to 9, requestsPerMinute 120 to 9"
    )
    pages = [list_changes(connection, account_id=account, limit=2, skip=skip) for skip in (0, 2, 4, 6)]
    assert [change.action for page in pages for change in page] == actions
    one = run("history", "--limit", "1", "--csv")
    assert one.stderr == "sepu: these are the newest 1; --limit, --since, --until or a filter shows more or others\n"
    row, *_ = rows(run("history", "--csv", "--since", "1h"))
    assert [json.loads(row[name]) for name in ("before", "after")] == [plan["before"], plan["after"]]
    text(run("account", "suspend", "cus_8812", SEPU_OPERATOR="sepu"))
    for given, expected in (
        ("--operator Ada", ["plan.set", "account.move", "account.set"]),
        ("--operator Ada --action account", ["account.move", "account.set"]),
        ("--operator Ada --action account.set", ["account.set"]),
        ("--operator Ada --role sepu --action plan", ["plan.set"]),
        *(("--role ada", []), ("--action acc", []), ("--action %", [])),
    ):
        for which in ([], ["cus_8812"]):
            assert [line["action"] for line in lines(run("history", *which, *given.split(), "--json"))] == expected
    assert text(run("history", "--operator", "sepu")).splitlines()[1].split()[1:3] == ["sepu", "account.suspend"]
    granted = printed(run("grant", "add", "cus_8812", "color_match", "5", "--reason", "fair", "--json"))
    assert f"  grant.add        {granted['id']} of {account}  " in text(run("history", "--limit", "9")).splitlines()[1]
    tomorrow = datetime.now(UTC) + timedelta(days=1)
    for since in (f"{tomorrow:%Y-%m-%d}", f"{tomorrow.isoformat()}", "0s"):
        assert lines(run("history", "--since", since, "--json")) == []
        assert len(lines(run("history", "--until", since, "--json"))) >= len(actions)
    assert lines(run("history", "--until", "1h", "--json")) == []
    assert "is not like 2027-01-31" in run("history", "--since", "friday").stderr


def test_an_operator_has_a_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SEPU_OPERATOR", "\u202e" + "x" * 200)
    assert operator_name() == "?" + "x" * 99
    monkeypatch.setenv("SEPU_OPERATOR", " Ada\r\n")
    assert operator_name() == "Ada"
    monkeypatch.setenv("SEPU_OPERATOR", " ")
    monkeypatch.setattr("getpass.getuser", Mock(side_effect=KeyError("uid not found")))
    assert operator_name().startswith("uid ")
