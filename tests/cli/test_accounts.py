"""Accounts, plans and keys: created, named, found, listed and erased; and names that no customer sees."""

import json
import os
import pty
import re
import select
from datetime import UTC, date, datetime, timedelta, tzinfo
from pathlib import Path
from typing import Any

import psycopg
import pytest
from tests.charging import charge
from tests.cli.running import Run, assert_failed, fields, lines, printed, rows, text
from tests.harness.processes import running, until
from tests.harness.serving import SEPU, serving
from tests.keys import admitted, holder_of, made_up_key

from sepu.admin import accounts, erase
from sepu.admin.keys import IssuedKey, change_key, issue_key
from sepu.cli.output import safe_message
from sepu.database import statements

NAME = "Silk & Co. 丝绸"
INSTANT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")
TINY = ("plan", "set", "tiny", "--match-limit", "7", "--search-limit", "5", "--requests-per-minute", "30")


def created(run: Run, *options: str) -> Any:
    return printed(run("account", "create", *options, "--json"))


def test_plans(run: Run) -> None:
    assert_failed(
        run(*TINY[:5]), "a new one needs limits of color_search, requests per minute too; see: sepu plan set --help"
    )
    assert_failed(run(*TINY[:5], *TINY[7:]), "there is no plan 'tiny' yet; a new one needs limits of color_search too")
    run(*TINY)
    changed = printed(run("plan", "set", "tiny", "--match-limit", "0", "--json"))
    limits = {"matchLimit": 0, "searchLimit": 5, "requestsPerMinute": 30}
    assert changed == {"planId": "tiny", **limits, "thresholds": "80,95,100", "accounts": 0}
    created(run, "--plan", "tiny")
    shown = printed(run("plan", "show", "tiny", "--json"))
    assert shown == {**changed, "accounts": 1}
    assert lines(run("plan", "list", "--json"))[1] == shown
    head, *listed = text(run("plan", "list")).splitlines()
    assert head.split() == list(shown)
    assert [line.split()[0] for line in listed] == ["standard", "tiny"]
    assert_failed(run("plan", "show", "nope"), "there is no plan 'nope'")
    for percentages in ("0", "80,101"):
        why = "a threshold is a percentage of a limit, from 1 to 100\n"
        assert_failed(run("plan", "set", "tiny", "--thresholds", percentages), why)
    assert printed(run("plan", "set", "tiny", "--thresholds", "100,1,100", "--json"))["thresholds"] == "1,100"
    assert_failed(run("plan", "delete", "nope"), "there is no plan 'nope'; see: sepu plan set --help")
    assert_failed(run("plan", "delete", "tiny"), "plan 'tiny' has accounts; move them first; see: sepu account move")


def test_an_account_from_its_plan_to_its_suspension(run: Run, connection: psycopg.Connection) -> None:
    run(*TINY)
    account = created(run, "--plan", "tiny")
    assert list(account) == ["accountId", "planId", "keyId", "apiKey", "expiresAt"]
    account_id = account["accountId"]
    shown = printed(run("account", "show", account_id, "--json"))
    assert INSTANT.fullmatch(shown.pop("createdAt"))
    limits = {"matchLimit": 7, "searchLimit": 5, "requestsPerMinute": 30, "matchCommitted": 0, "searchCommitted": 0}
    limits |= {"matchLastMonth": 0, "searchLastMonth": 0}
    names = {"accountId": account_id, "externalId": None, "name": None, "expiresAt": None, "lastUsedOn": None}
    assert shown == {**names, "status": "active", "planId": "tiny", **limits}

    assert printed(run("account", "move", account_id, "--plan", "standard", "--json"))["planId"] == "standard"
    for command, status, outcome in (("suspend", "suspended", "account_unavailable"), ("reactivate", "active", "ok")):
        assert printed(run("account", command, account_id, "--json"))["status"] == status
        assert fields(run("account", "show", account_id))["status"] == status
        assert printed(run("usage", account_id, "--json"))["status"] == status
        assert admitted(connection, account["apiKey"]) == outcome
    for stored, status in (("active", "expired"), ("suspended", "suspended")):
        ended = "update sepu.account set status = %s, expires_at = now() where account_id = %s"
        connection.execute(ended, [stored, account_id])
        assert fields(run("account", "show", account_id))["status"] == status
    assert fields(run("account", "reactivate", account_id))["status"] == "expired"


def test_names_change_and_an_external_id_belongs_to_one_account(run: Run) -> None:
    first = created(run, "--name", "A", "--external-id", "a-1")["accountId"]
    second = created(run)["accountId"]
    for taking in (("create",), ("set", second)):
        assert_failed(run("account", *taking, "--external-id", "a-1"), f"'a-1' is that of account {first}")

    def changed(*options: str) -> tuple[str | None, str | None]:
        shown = printed(run("account", "set", first, *options, "--json"))
        return shown["name"], shown["externalId"]

    assert changed("--external-id", "a-1") == ("A", "a-1")
    assert changed("--name", "B") == ("B", "a-1")
    assert changed("--external-id", "b-1") == ("B", "b-1")
    assert changed("--name", "", "--external-id", "") == (None, None)
    assert_failed(run("account", "show", "b-1"), "there is no account 'b-1'")


def test_malformed_names_are_refused(run: Run) -> None:
    for name in (" silk", "silk ", "a\nb", "a\x1b[2J", "a\u202eb", "n" * 201):
        assert_failed(run("account", "create", "--name", name), "a name has 1 to 200 characters")
    for external_id in ("two words", "-x", "a" * 16, "x" * 129, "né"):
        assert_failed(run("account", "create", f"--external-id={external_id}"), "an external id has 1 to 128")
    assert lines(run("account", "list", "--json")) == []
    created(run, "--name", "n" * 200, "--external-id", "x" * 128)
    assert printed(run("account", "show", "x" * 128, "--json"))["name"] == "n" * 200


def test_accounts_are_searched(run: Run) -> None:
    run(*TINY)
    silk = created(run, "--name", NAME, "--external-id", "cus_silk")["accountId"]
    tea = created(run, "--name", "Tea 50%_", "--plan", "tiny")["accountId"]
    run("account", "suspend", tea)

    def found(*filters: str) -> set[str]:
        return {each["accountId"] for each in lines(run("account", "list", *filters, "--json"))}

    assert found() == {silk, tea}
    assert printed(run("account", "show", silk, "--json")) in lines(run("account", "list", "--json"))
    assert found("--search", "SILK") == found("--search", "cus_") == found("--search", "丝") == {silk}
    assert found("--search", tea[3:12]) == found("--search", "%_") == {tea}
    key_id = printed(run("key", "issue", tea, "--external-id", "k_77", "--json"))["keyId"]
    assert (
        found("--search", key_id) == found("--search", key_id[-8:].upper()) == found("--search", key_id[-7:-1]) == {tea}
    )
    assert found("--plan", "tiny") == found("--status", "suspended") == {tea}
    assert found("--search", "k_77") == {tea}
    assert found("--plan", "tiny", "--status", "active") == found("--search", "k_7") == set()
    listed = rows(run("account", "list", "--csv"))
    assert {(row["accountId"], row["name"]) for row in listed} == {(silk, NAME), (tea, "Tea 50%_")}


def test_an_accounts_keys(run: Run, connection: psycopg.Connection) -> None:
    account = created(run)
    issue = ("key", "issue", account["accountId"], "--json")
    issued = [printed(run(*issue)), printed(run(*issue, "--expires-at", "2999-01-31T12:00:00+08:00"))]
    past = issue_key(connection, account["accountId"], datetime(2000, 1, 1, tzinfo=UTC))
    for _ in range(2):  # revoking again changes nothing
        assert fields(run("key", "revoke", account["keyId"])) == {"keyId": account["keyId"], "status": "revoked"}

    listed = lines(run("key", "list", account["accountId"], "--json"))
    assert [each["keyId"] for each in listed] == [account["keyId"], *(each["keyId"] for each in issued), past.key_id]
    columns = ["keyId", "externalId", "name", "state", "createdAt", "expiresAt", "revokedAt", "lastUsedOn"]
    columns += ["accountName", "accountExternalId", "accountExpiresAt"]
    assert all(list(each) == columns for each in listed)
    assert [each["state"] for each in listed] == ["revoked", "valid", "valid", "expired"]
    assert [each["expiresAt"] for each in listed] == [None, None, "2999-01-31T04:00:00Z", "2000-01-01T00:00:00Z"]
    assert [each["revokedAt"] is not None for each in listed] == [True, False, False, False]

    shown = run("key", "list", account["accountId"], COLUMNS="40").stdout  # cuts everything but ids
    head, *table = shown.splitlines()
    assert head.split() == ["keyId", "accou…", "name", "state", "ends", "lastUsedOn"]
    for each, line in zip(listed, table, strict=True):
        ends = each["revokedAt"] or each["expiresAt"] or "-"
        assert line.split() == [each["keyId"], "-", "-", each["state"], ends, "-"]
    for made, outcome in zip((account, *issued), ("unauthorized", "ok", "ok"), strict=True):
        assert admitted(connection, made["apiKey"]) == outcome
        for secret in (made["apiKey"], made["apiKey"].split("_")[2], holder_of(made["apiKey"]).key_hash.hex()):
            assert secret not in shown + json.dumps(listed)
    far = run(*issue, "--expires-at", "9999-12-31T23:59:59Z")
    assert_failed(far, "too far in the future", status=2)  # out of range in some time zones
    done = run("key", "set", account["keyId"], "--expires-at", "30d")
    assert done.stderr.startswith(f"sepu: {account['keyId']} stays revoked: its end changes nothing. ")
    assert text(run("key", "set", account["keyId"], "--name", "old"))
    said = "sepu: all keys of an account share its limits; a staging system needs an account of its own\n"
    assert run(*issue[:-1]).stderr == said


def test_the_databases_clock_decides_when_a_key_ends(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    class Slow(datetime):
        @classmethod
        def now(cls, tz: tzinfo | None = None) -> "Slow":
            return super().now(tz) - timedelta(days=300)

    monkeypatch.setattr("sepu.cli.times.datetime", Slow)
    began = datetime.now(UTC)
    account = created(run, "--expires-at", "7d")
    ends = datetime.fromisoformat(account["expiresAt"])
    assert timedelta(days=6, hours=23) < ends - began < timedelta(days=7, minutes=5)
    for change, kept in ((("--name", "A"), account["expiresAt"]), (("--expires-at", ""), None)):
        assert printed(run("account", "set", account["accountId"], *change, "--json"))["expiresAt"] == kept
    yesterday = f"{began - timedelta(days=1):%Y-%m-%dT%H:%M:%SZ}"
    assert_failed(run("key", "issue", account["accountId"], "--expires-at", yesterday), "is in the past", status=2)
    assert len(lines(run("history", "--since", "1h", "--json"))) == 4


def test_a_day_is_the_end_of_a_key_and_counts_as_a_whole(run: Run) -> None:
    done = run("account", "create", "--expires-at", "2098-12-31")
    assert "expiresAt  2099-01-01T00:00:00Z" in done.stdout
    assert done.stderr == "sepu: 2098-12-31 is taken to its end in UTC: 2099-01-01T00:00:00Z\n"
    account_id = lines(run("account", "list", "--json"))[0]["accountId"]
    today = f"{datetime.now(UTC):%Y-%m-%d}"
    issued = json.loads(run("key", "issue", account_id, "--expires-at", today, "--json").stdout)
    assert issued["expiresAt"] == f"{datetime.now(UTC) + timedelta(days=1):%Y-%m-%d}T00:00:00Z"


@pytest.mark.parametrize("zone", ["America/St_Johns"], indirect=True)  # where a UTC day begins the day before
def test_a_keys_names_and_its_last_use(run: Run, connection: psycopg.Connection) -> None:
    account = created(run, "--external-id", "cus_1")
    used = printed(run("key", "issue", "cus_1", "--name", "web shop", "--external-id", "k-1", "--json"))
    assert_failed(run("key", "issue", "cus_1", "--external-id", "k-1"), "'k-1' is that of another key of this account")
    renamed = printed(run("key", "set", used["keyId"], "--name", "shop", "--json"))
    assert (renamed["name"], renamed["externalId"], renamed["lastUsedOn"]) == ("shop", "k-1", None)
    assert_failed(run("key", "set", account["keyId"], "--external-id", "k-1"), "'k-1' is that of another key")
    assert admitted(connection, used["apiKey"]) == "ok"
    first, second = lines(run("key", "list", "cus_1", "--json"))
    today = f"{datetime.now(UTC):%Y-%m-%d}"
    assert (first["lastUsedOn"], second["lastUsedOn"]) == (None, today)
    assert printed(run("account", "show", "cus_1", "--json"))["lastUsedOn"] == today
    assert " shop " in text(run("key", "list", "cus_1"))


def test_a_table_fits_and_says_what_it_cut(run: Run) -> None:
    account_id = created(run, "--name", "绸" * 60, "--external-id", "c" * 100)["accountId"]
    shown = run("account", "list", COLUMNS="80")
    _head, row = shown.stdout.splitlines()
    assert row.startswith(account_id)
    assert "c…" in row
    assert "绸…" in row
    assert len(row) + row.count("绸") <= 80
    assert shown.stderr == "sepu: cut to fit 80 columns: externalId, name; --json or --csv prints all\n"
    whole = text(run("account", "list", COLUMNS="400"))
    head = ["accountId", "externalId", "name", "status", "planId", "match", "search", "lastUsedOn"]
    assert whole.split("\n")[0].split() == head
    assert ("绸" * 60 in whole, "c" * 100 in whole) == (True, True)
    assert "\x1b" not in shown.stdout


def test_what_ends_soon(run: Run, connection: psycopg.Connection) -> None:
    last, soon, _never = (created(run, *ends) for ends in (("--expires-at", "20d"), ("--expires-at", "3d"), ()))
    suspended = created(run, "--expires-at", "1d")
    run("account", "suspend", suspended["accountId"])
    charge(connection, soon["apiKey"], "order-0001", 1790, datetime.now(UTC))
    keys = [printed(run("key", "issue", last["accountId"], "--expires-at", end, "--json")) for end in ("9d", "2d")]
    run("key", "revoke", printed(run("key", "issue", last["accountId"], "--expires-at", "1d", "--json"))["keyId"])
    issue_key(connection, last["accountId"], datetime(2000, 1, 1, tzinfo=UTC))

    def ending(*command: str, of: str = "accountId") -> list[str]:
        return [each[of] for each in lines(run(*command, "--json"))]

    both = ("account", "list", "--ends-within", "30d", "--sort", "ends")
    assert ending(*both) == [soon["accountId"], last["accountId"]]
    assert ending("account", "list", "--ends-within", "7d") == [soon["accountId"]]
    soonest = text(run("account", "list", "--sort", "ends", "--status", "active")).splitlines()[1]
    assert soonest.split()[3:6] == ["active", "to", soon["expiresAt"][:10]]
    assert "  1790 89 %  0 0 %  " in soonest
    run("account", "set", soon["accountId"], "--expires-at", "2098-12-31")
    assert "  active to 2098-12-31  " in text(run("account", "list", "--search", soon["accountId"]))
    run("account", "set", soon["accountId"], "--expires-at", "3d")
    next_key, later_key = keys[1]["keyId"], keys[0]["keyId"]
    with_their_accounts = [suspended["keyId"], next_key, soon["keyId"], later_key, last["keyId"]]
    assert ending("key", "list", "--ends-within", "30d", of="keyId") == with_their_accounts
    run("account", "set", last["accountId"], "--name", NAME)
    row = text(run("key", "list", "--ends-within", "9d")).splitlines()[2].split()
    assert row[:8] == [next_key, *NAME.split(), "-", "valid", keys[1]["expiresAt"]]
    assert run("key", "list", last["accountId"], "--ends-within", "0s").stderr == "sepu: nothing was found\n"
    assert ending("key", "list", last["accountId"], "--ends-within", "3d", of="keyId") == [next_key]
    assert_failed(run("key", "list"), "give an ACCOUNT", status=2)


def test_a_leaked_key_is_found_and_never_printed(run: Run) -> None:
    account = created(run, "--name", NAME)
    key, key_id = account["apiKey"], account["keyId"]
    run("key", "revoke", key_id)
    gone = created(run, "--external-id", "cus_1")["apiKey"]
    run("account", "delete", "cus_1")
    leaked = f"{gone} API_KEY={key}\nGET / Bearer {key}; {key[:-1]} {made_up_key(account['accountId'])} 谱\x1b[2J"
    done = run("key", "find", given=leaked)
    assert done.stdout.splitlines()[1].split()[:7] == [key_id, *NAME.split(), "-", "revoked"]
    assert done.stderr == "sepu: keys that are mistyped, or not of this database: 2\n"
    assert key[20:] not in done.stdout + done.stderr
    assert_failed(run("key", "find", given=f"{key[:-1]}\n"), "standard input has no whole API key")
    assert_failed(
        run("key", "find", given=made_up_key(account["accountId"])), "no key belongs to this database; keys of another"
    )
    for words in (f"key find {key}", f"key revoke {key}", f"charges {key}", f"match {key}", f"account show {key[:-1]}"):
        mistaken = run(*words.split())
        assert f"{key[:22]}…" in mistaken.stderr
        assert key[22:30] not in mistaken.stdout + mistaken.stderr
    assert key[-12:] not in safe_message(" " * 1000 + key + " " * 588), "the cut leaves no part of it"
    long = run("key", "find", "--json", given=f"{key}{' ' * 100_000}")
    assert (json.loads(long.stdout)["keyId"], "only the first" in long.stderr) == (key_id, True)


def test_a_terminal_does_not_show_a_leaked_key(run: Run, ledger_url: str) -> None:
    account = created(run)
    master, terminal = pty.openpty()
    command: list[str | Path] = [SEPU, "key", "find", "--database-url", ledger_url]
    with running(command, stdin=terminal, stdout=terminal, stderr=terminal, start_new_session=True) as process:
        shown = b""
        while b"API key: " not in shown:
            assert select.select([master], [], [], 60)[0]
            shown += os.read(master, 1000)
        os.write(master, f"{account['apiKey']}\n".encode())
        assert process.wait(60) == 0
        shown += os.read(master, 10_000)
    for descriptor in (master, terminal):
        os.close(descriptor)
    assert account["keyId"] in shown.decode()
    assert account["apiKey"][20:] not in shown.decode()


@pytest.mark.slow
def test_no_customer_sees_a_name(ledger_url: str, connection: psycopg.Connection, issued: IssuedKey) -> None:
    """Neither in an answer nor in the request log, which customers' requests reach."""
    accounts.change_account(connection, issued.account_id, "Hush Textiles", "cus_secret")
    change_key(connection, issued.key_id, "secret shop", "k-secret")
    bearer = {"Authorization": f"Bearer {issued.api_key}"}
    with serving("uvloop", ledger_url, workers=1) as server:
        answers = [
            server.request("GET", f"/v1/{target}", {**bearer, "Idempotency-Key": f"key-{number:04}"})
            for number, target in enumerate(("usage", "library", "search?q=hong", "search?q="))
        ]
        assert [answer.status for answer in answers] == [200, 200, 200, 422]
        told = "".join(f"{answer.headers}{answer.body!r}" for answer in answers)
        until(lambda: server.log.read_text().count(f'"account":"{issued.account_id}"') == len(answers))
        log = server.log.read_text()
    for name in ("hush", "secret", "shop"):
        assert name not in (told + log).lower()


def test_an_account_is_erased_when_the_operator_says_so(run: Run, connection: psycopg.Connection) -> None:
    account = created(run, "--name", NAME, "--external-id", "cus_1")
    account_id = account["accountId"]
    charge(connection, account["apiKey"], "order-0001", 2000, datetime.now(UTC))
    month = f"{datetime.now(UTC):%Y-%m}"
    run("credit", "add", "cus_1", "color_match", "100", "--month", month, "--reason", "outage")
    done = run("account", "erase", "cus_1", given="n\n")
    assert (done.returncode, "cannot be undone" in done.stderr) == (1, True)
    assert f"sepu: to bill for {month}, external id cus_1: 1900 of color_match, 0 of color_search\n" in done.stderr
    assert lines(run("top", "--json")) != []
    done = run("account", "erase", "cus_1", "--yes", "--json")
    assert "external id cus_1: 1900 of color_match" in done.stderr
    counts = {"keys": 1, "receipts": 0, "results": 1}
    erased = {"accountId": account_id, "externalId": "cus_1", "status": "erased", **counts}
    assert json.loads(done.stdout) == erased
    assert lines(run("top", "--json")) == lines(run("account", "list", "--json")) == []
    assert [each["accountId"] for each in lines(run("account", "list", "--status", "erased", "--json"))] == [account_id]
    bill = [(each["accountId"], each["toBill"]) for each in lines(run("export-usage", month, "--draft", "--json"))]
    assert bill == [(account_id, 1900), (account_id, 0)]
    connection.execute("update sepu.account set created_at = '2026-01-01' where account_id = %s", (account_id,))
    before = f"{datetime.now(UTC).replace(day=1) - timedelta(days=1):%Y-%m}"
    assert lines(run("export-usage", before, "--draft", "--json")) == [], "it used nothing then"
    assert_failed(run("account", "show", "cus_1"), "there is no account 'cus_1'")
    shown = printed(run("account", "show", account_id, "--json"))
    assert (shown["status"], shown["name"]) == ("erased", None)
    assert_failed(run("account", "reactivate", account_id), "or it was erased")
    unused = created(run)["accountId"]
    statements.run(connection, "erase_account", account_id=unused)  # and then it was interrupted
    assert printed(run("account", "erase", unused, "--yes", "--json"))["keys"] == 1
    fields(run("plan", "delete", "standard"))
    bill = [(each["toBill"], each["limit"]) for each in lines(run("export-usage", month, "--draft", "--json"))]
    assert bill == [(1900, 2000), (0, 1000)], "the bill outlives the plan"


def test_an_account_that_was_never_used_can_be_deleted(run: Run, connection: psycopg.Connection) -> None:
    unused, charged, asked = (created(run, "--external-id", name) for name in ("cus_1", "cus_2", "cus_3"))
    charge(connection, charged["apiKey"], "order-0001", 1, datetime.now(UTC))
    assert admitted(connection, asked["apiKey"]) == "ok"
    for used in ("cus_2", "cus_3"):
        why = "was used, so its bills need it; erase it instead", "account erase"
        assert_failed(run("account", "delete", used), *why)
    assert printed(run("account", "delete", "cus_1", "--json")) == {
        "accountId": unused["accountId"], "status": "deleted", "keys": 1
    }  # fmt: skip
    assert admitted(connection, unused["apiKey"]) == "unauthorized"
    assert_failed(run("account", "show", unused["accountId"]), "there is no account")
    assert "cus_1" not in text(run("history", "--json"))
    assert created(run, "--external-id", "cus_1")["accountId"] != unused["accountId"]


@pytest.mark.parametrize(
    ("today", "last"), [(date(2026, 3, 1), "2026-02"), (date(2026, 3, 31), "2026-02"), (date(2026, 1, 31), "2025-12")]
)
def test_the_month_before_any_day(
    connection: psycopg.Connection, issued: IssuedKey, monkeypatch: pytest.MonkeyPatch, today: date, last: str
) -> None:
    connection.execute("update sepu.account set created_at = '2023-01-01'")
    monkeypatch.setattr(accounts, "value", lambda *_: today)
    assert accounts._parameters(connection, {})["last"] == last
    monkeypatch.setattr(erase, "read_today", lambda *_: today)
    billed = [month.period for account in erase.last_bill(connection, issued.account_id) for month in account.usage]
    assert list(dict.fromkeys(billed)) == [last, f"{today:%Y-%m}"]


def test_largest_and_quiet_accounts_and_parts_of_names(run: Run, connection: psycopg.Connection) -> None:
    now, made = datetime.now(UTC), []
    for name, this, last in (("Silk north", 5, 10), ("Silk south", 0, 4), ("Tea", 7, 0)):
        issued = accounts.create_account(connection, "standard", name, f"cus_{this}")
        for at, units in ((now, this), (now.replace(day=1) - timedelta(days=1), last)):
            if units:
                charge(connection, issued.api_key, f"key-of-{at:%Y-%m}", units, at)
        made.append(issued.account_id)

    def found(*choice: str) -> list[int]:
        return [made.index(account["accountId"]) for account in lines(run("account", "list", *choice, "--json"))]

    assert found("--sort", "match", "--desc") == found("--sort", "match-share", "--desc") == [2, 0, 1]
    assert found("--sort", "match-change") == [0, 1, 2]
    assert found("--sort", "name", "--limit", "2") == [0, 1]
    for number, granted in ((1, "5"), (2, "2000")):  # the first makes a counter
        text(run("grant", "add", made[number], "color_match", granted, "--reason", "Trade fair"))
    assert found("--sort", "match-share", "--desc") == [0, 2, 1]
    for column, order in (("created", [0, 1, 2]), ("externalId", [1, 0, 2])):
        assert (found("--sort", column), found("--sort", column, "--desc")) == (order, order[::-1])
    assert found("--quiet") == [1]
    with connection.transaction():
        sums = accounts.sum_accounts(connection, search="silk")
    assert (sums.accounts, sums.committed["color_match"], sums.last_month["color_match"]) == (2, 5, 14)
    assert accounts.sum_accounts(connection, quiet=True).accounts == 1
    made.append(accounts.create_account(connection, "standard").account_id)  # without a name
    assert found("--sort", "name", "--desc", "--limit", "1") == [2]
    assert printed(run("account", "show", "tea", "--json"))["accountId"] == made[2]
    for number in range(4):
        accounts.create_account(connection, "standard", f"Silk {number}")
    assert_failed(run("account", "show", "silk"), "several accounts are like 'silk'", "), …")
    assert_failed(run("account", "show", "nobody"), "there is no account")
