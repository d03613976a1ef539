"""What lists: accounts, keys, and a month's usage."""

import csv
import io
import json
import os
import pty
import re
import subprocess
from datetime import UTC, datetime
from pathlib import Path

import pytest
from click.testing import CliRunner
from tests.cli.running import Run, failed, fields, lines, printed
from tests.serving import SEPU

from sepu.admin import accounts
from sepu.admin.keys import issue_key
from sepu.admin.plans import set_plan
from sepu.cli.database import connect
from sepu.cli.main import commands
from sepu.metering import key_format
from sepu.metering.meters import METERS

INSTANT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")


def test_an_account(run: Run) -> None:
    account_id = printed(run("account", "create", "--json"))["accountId"]
    shown = printed(run("account", "show", account_id, "--json"))
    assert INSTANT.fullmatch(shown.pop("createdAt"))
    limits = {"matchLimit": 2000, "searchLimit": 1000, "requestsPerMinute": 120}
    used = {"matchCommitted": 0, "searchCommitted": 0}
    names = {"accountId": account_id, "externalId": None, "name": None}
    assert shown == {**names, "status": "active", "planId": "standard", **limits, **used}
    run("account", "suspend", account_id)
    assert fields(run("account", "show", account_id))["status"] == "suspended"
    for nobody in ("a" * 16, "nonsense"):
        failed(run("account", "show", nobody), f"there is no account '{nobody}'")
        failed(run("key", "list", nobody), f"there is no account '{nobody}'")


def test_all_accounts(run: Run, own_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert lines(run("account", "list", "--json", SEPU_DATABASE_URL=own_url)) == []
    assert run("account", "list", SEPU_DATABASE_URL=own_url).stdout == ""
    monkeypatch.setattr(accounts, "_PAGE", 3)
    with connect(own_url) as connection:
        made = sorted(accounts.create_account(connection, "standard").account_id for _ in range(7))
        assert [account.account_id for account in accounts.list_accounts(connection)] == made
        accounts.set_status(connection, made[0], "suspended")
    listed = lines(run("account", "list", "--json", SEPU_DATABASE_URL=own_url))
    assert [account["accountId"] for account in listed] == made
    assert listed[0] == printed(run("account", "show", made[0], "--json", SEPU_DATABASE_URL=own_url))
    head, *shown = run("account", "list", SEPU_DATABASE_URL=own_url).stdout.splitlines()
    assert head.split() == ["accountId", "externalId", "name", "status", "planId", "match", "search"]
    assert [line.split()[0] for line in shown] == made
    assert shown[0].split()[1:] == ["-", "-", "suspended", "standard", "0", "%", "0", "%"]
    assert INSTANT.fullmatch(listed[0]["createdAt"])


def test_an_accounts_keys(run: Run, database_url: str) -> None:
    account = printed(run("account", "create", "--json"))
    account_id = account["accountId"]
    issued = [
        printed(run("key", "issue", account_id, *expiry, "--json"))
        for expiry in ([], ["--expires-at", "2999-01-31T12:00:00+08:00"])
    ]
    with connect(database_url) as connection:
        past = issue_key(connection, account_id, datetime(2000, 1, 1, tzinfo=UTC))
    run("key", "revoke", account["keyId"])

    listed = lines(run("key", "list", account_id, "--json"))
    assert [each["keyId"] for each in listed] == [account["keyId"], *(each["keyId"] for each in issued), past.key_id]
    columns = ["keyId", "externalId", "name", "state", "createdAt", "expiresAt", "revokedAt", "lastUsedOn"]
    assert all(list(each) == columns for each in listed)
    assert [each["state"] for each in listed] == ["revoked", "valid", "valid", "expired"]
    assert [each["expiresAt"] for each in listed] == [None, None, "2999-01-31T04:00:00Z", "2000-01-01T00:00:00Z"]
    assert [each["revokedAt"] is not None for each in listed] == [True, False, False, False]

    shown = run("key", "list", account_id, COLUMNS="40")
    head, *rows = shown.stdout.splitlines()
    assert head.split() == ["keyId", "name", "state", "ends", "lastUsedOn"]
    for each, line in zip(listed, rows, strict=True):
        ends = each["revokedAt"] or each["expiresAt"] or "-"
        assert line.split() == [each["keyId"], "-", each["state"], ends, "-"]
    for api_key in (account["apiKey"], *(each["apiKey"] for each in issued)):
        found = key_format.credential(api_key)
        assert found is not None
        for secret in (api_key, api_key.split("_")[2], found.key_hash.hex()):
            assert secret not in shown.stdout + json.dumps(listed)


def test_a_months_usage(run: Run, own_url: str) -> None:
    month = f"{datetime.now(UTC):%Y-%m}"
    with connect(own_url) as connection:
        made = sorted(
            (accounts.create_account(connection, "standard") for _ in range(2)), key=lambda each: each.account_id
        )
        holder = key_format.credential(made[1].api_key)
        assert holder is not None
        connection.execute(
            "select from sepu.meter_request(%s, %s, 'key-0001', %s, 'color_match', 5, '{}')",
            (holder.account_id, holder.key_hash, bytes(32)),
        )
        accounts.set_status(connection, made[0].account_id, "suspended")
    exported = lines(run("export-usage", month, "--json", SEPU_DATABASE_URL=own_url))
    assert exported == [
        {
            "accountId": issued.account_id,
            "planId": "standard",
            "status": status,
            "period": month,
            "meter": meter,
            "limit": limit,
            "committed": 5 if (issued, meter) == (made[1], "color_match") else 0,
            "reserved": 0,
            "externalId": None,
            "name": None,
            "changes": [],
        }
        for issued, status in ((made[0], "suspended"), (made[1], "active"))
        for meter, limit in (("color_match", 2000), ("color_search", 1000))
    ]
    done = run("export-usage", month, SEPU_DATABASE_URL=own_url)
    assert (done.returncode, done.stderr) == (0, "")
    rows = list(csv.DictReader(io.StringIO(done.stdout)))
    empty: tuple[object, ...] = (None, [])
    assert rows == [{name: "" if value in empty else str(value) for name, value in each.items()} for each in exported]
    assert "\r" not in done.stdout


def test_a_plan_is_left_out_of_a_month(run: Run, own_url: str) -> None:
    month = f"{datetime.now(UTC):%Y-%m}"
    with connect(own_url) as connection:
        for plan_id in ("test", "trial", "gold"):
            set_plan(connection, plan_id, {"color_match": 1, "color_search": 1}, requests_per_minute=1)
            accounts.create_account(connection, plan_id, "a,test,b")
    for form in ([], ["--json"]):
        command = ("export-usage", month, "--exclude-plan", "test", "--exclude-plan", "trial", *form)
        done = run(*command, SEPU_DATABASE_URL=own_url)
        assert (done.returncode, done.stderr) == (0, "")
        told = lines(done) if form else list(csv.DictReader(io.StringIO(done.stdout)))
        assert [line["planId"] for line in told] == ["gold"] * len(METERS)
    failed(run("export-usage", month, "--exclude-plan", "tset", SEPU_DATABASE_URL=own_url), "there is no plan 'tset'")


def test_no_text_is_a_formula_in_a_csv(run: Run, own_url: str) -> None:
    formulas = ["=1+1", "+1", "-1", "@SUM(A1)", "＝1", "= ,\"'"]
    with connect(own_url) as connection:
        for name in (*formulas, "Silk = Co."):
            accounts.create_account(connection, "standard", name)
    month = f"{datetime.now(UTC):%Y-%m}"
    for command in (("account", "list", "--csv"), ("export-usage", month)):
        done = run(*command, SEPU_DATABASE_URL=own_url)
        assert (done.returncode, done.stderr) == (0, "")
        found = {line["name"] for line in csv.DictReader(io.StringIO(done.stdout))}
        assert found == {"Silk = Co.", *(f"'{name}" for name in formulas)}, command
    listed = lines(run("account", "list", "--json", SEPU_DATABASE_URL=own_url))
    assert {line["name"] for line in listed} == {"Silk = Co.", *formulas}


def test_a_months_changes(run: Run, own_url: str) -> None:
    month = f"{datetime.now(UTC):%Y-%m}"
    with connect(own_url) as connection:
        accounts.create_account(connection, "standard")
        set_plan(connection, "standard", {"color_match": 2100})
        set_plan(connection, "standard", requests_per_minute=150)
    exported = lines(run("export-usage", month, "--json", SEPU_DATABASE_URL=own_url))
    found = {line["meter"]: [(each["what"], each["from"], each["to"]) for each in line["changes"]] for line in exported}
    assert found == {
        "color_match": [("limit", 2000, 2100), ("requestsPerMinute", 120, 150)],
        "color_search": [("requestsPerMinute", 120, 150)],
    }
    done = run("export-usage", month, SEPU_DATABASE_URL=own_url)
    assert done.stdout.count("Z requestsPerMinute 120 to 150\n") == 2


@pytest.mark.parametrize("form", [[], ["--json"]])
def test_a_bar_on_the_terminal_takes_nothing_from_the_file(run: Run, own_url: str, form: list[str]) -> None:
    month = f"{datetime.now(UTC):%Y-%m}"
    with connect(own_url) as connection:
        accounts.create_account(connection, "standard")
    command = ("export-usage", month, *form)
    expected = run(*command, SEPU_DATABASE_URL=own_url)
    ours, theirs = pty.openpty()
    try:
        done = subprocess.run(
            [SEPU, *command],
            env={**os.environ, "SEPU_DATABASE_URL": own_url, "TERM": "xterm"},
            stdout=subprocess.PIPE,
            stderr=theirs,
            text=True,
            check=False,
            timeout=60,
        )
        shown = os.read(ours, 65536).decode()
    finally:
        os.close(ours)
        os.close(theirs)
    assert (done.returncode, done.stdout) == (0, expected.stdout)
    assert len(done.stdout.splitlines()) >= 2
    assert "accounts" in shown
    assert "standard" not in shown


def test_months_that_are_none(run: Run) -> None:
    for period in ("2026", "2026-13", "2026-00", "0000-01", "2026-01-01", "٢٠٢٦-01", ""):
        done = CliRunner().invoke(commands, ["export-usage", period])
        assert (done.exit_code, done.stdout) == (2, "")
        assert "is not like 2027-01" in done.stderr
    failed(run("export-usage", "9999-12"), "the month 9999-12 has not begun")


@pytest.mark.slow
def test_a_reader_that_goes_away(own_url: str) -> None:
    with connect(own_url) as connection:
        connection.execute(
            "insert into sepu.account (account_id, plan_id) "
            "select translate(lpad(to_hex(n), 16, '0'), '0189', 'wxyz'), 'standard' from generate_series(1, 9000) n"
        )
    for command in (("account", "list"), ("export-usage", f"{datetime.now(UTC):%Y-%m}")):
        with subprocess.Popen(
            [SEPU, *command],
            env={**os.environ, "SEPU_DATABASE_URL": own_url},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        ) as process:
            assert process.stdout is not None
            assert process.stderr is not None
            assert process.stdout.readline()
            process.stdout.close()
            assert process.stderr.read() == b""


def test_an_instant_that_some_time_zones_do_not_have(run: Run) -> None:
    account_id = printed(run("account", "create", "--json"))["accountId"]
    done = run("key", "issue", account_id, "--expires-at", "9999-12-31T23:59:59Z")
    assert (done.returncode, "too far off" in done.stderr) == (2, True)


def test_what_cannot_be_written_is_told_in_a_line(own_url: str) -> None:
    with connect(own_url) as own:
        accounts.create_account(own, "standard")
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [SEPU, "account", "list", "--database-url", own_url],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
            timeout=60,
        )
    assert (done.returncode, done.stderr) == (1, "sepu: No space left on device\n")
