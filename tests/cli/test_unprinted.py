"""What a command says when it did its work but cannot print the result."""

import re
import shlex
from datetime import UTC, datetime
from typing import Any

import psycopg
import pytest
from tests.charging import charge
from tests.cli.running import Done, Run, assert_failed, fields, lines, printed, process, text
from tests.harness.processes import completed
from tests.harness.serving import SEPU

from sepu.admin import accounts
from sepu.admin.events import list_events
from sepu.admin.keys import IssuedKey
from sepu.admin.plans import set_plan


def redirected(url: str, words: str, to: str) -> Done:
    command = f"{shlex.quote(str(SEPU))} {words} {to}"
    return completed(["sh", "-c", command], env={"SEPU_DATABASE_URL": url, "PATH": "/usr/bin:/bin"})


def test_a_key_that_nobody_saw_is_named_and_can_be_replaced(run: Run, ledger_url: str, issued: IssuedKey) -> None:
    for words in ("account create --name Silk", f"key issue {issued.account_id} --json"):
        done = redirected(ledger_url, words, "> /dev/full")
        assert_failed(done, "No space left on device; but the command succeeded: accountId ", "Nobody has seen the key")
        assert "sepu_" not in done.stderr
        (key_id,) = re.findall(r"sepu key revoke (\S+);", done.stderr)
        (account_id,) = re.findall(r"sepu key issue (\S+)", done.stderr)
        assert fields(run("key", "revoke", key_id))["status"] == "revoked"
        assert printed(run("key", "issue", account_id, "--json"))["accountId"] == account_id


def test_a_receipt_that_nobody_saw_is_printed_again(run: Run, ledger_url: str, world: dict[str, str]) -> None:
    public = f"--public-key {world['public_key']}"
    done = redirected(ledger_url, f"account create {public}", "> /dev/full")
    (rotate,) = re.findall(r"sepu (key rotate \S+) --public-key FILE", done.stderr)
    assert printed(run(*rotate.split(), *public.split(), "--json"))["repeated"]


def test_a_grant_that_nobody_saw_is_added_once(run: Run, ledger_url: str, issued: IssuedKey) -> None:
    words = f"grant add {issued.account_id} color_match 500 --reason 展会 --json"
    without_chinese = process(*words.split(), SEPU_DATABASE_URL=ledger_url, PYTHONIOENCODING="latin-1")
    for done in (redirected(ledger_url, words, "> /dev/full"), without_chinese):
        assert_failed(done, "; but the command succeeded", "Running it again adds it again")
        (own_id,) = re.findall(r"with (--id \S+) it adds nothing", done.stderr)
        text(run(*words.split(), *own_id.split()))
    assert [line["units"] for line in lines(run("grant", "list", "--json"))] == [500, 500]


def test_a_connection_lost_in_a_change_leads_to_the_history(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    create = accounts.create_account

    def lost(*given: Any) -> IssuedKey:
        create(*given)
        raise psycopg.OperationalError("server closed the connection unexpectedly")

    monkeypatch.setattr(accounts, "create_account", lost)
    assert_failed(
        run("account", "create"), "closed the connection", "It is not known whether this was done", "sepu history"
    )
    assert [line["action"] for line in lines(run("history", "--json"))] == ["key.issue", "account.create"]


def test_a_list_that_cannot_be_printed_fails(ledger_url: str, issued: IssuedKey) -> None:
    for words in ("account list", f"key list {issued.account_id} --csv", "list --format css"):
        assert_failed(redirected(ledger_url, words, "> /dev/full"), "No space left on device")
    assert_failed(redirected(ledger_url, "match c83c23", ">&-"), "standard output is closed")
    assert_failed(redirected(ledger_url, "audit", "> /dev/full"), "No space left on device", status=2)


def test_an_event_that_was_not_printed_is_not_delivered(connection: psycopg.Connection, ledger_url: str) -> None:
    set_plan(connection, "test-tiny", {"color_match": 1, "color_search": 1}, requests_per_minute=10)
    charge(connection, accounts.create_account(connection, "test-tiny").api_key, "only-once", 1, datetime.now(UTC))
    for to in (">&-", "> /dev/full"):
        assert redirected(ledger_url, "events deliver --print --once", to).returncode == 1
    assert {event.state for event in list_events(connection)} == {"due"}
