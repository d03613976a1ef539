"""`sepu usage`, `sepu top` and `sepu export-usage` for people and programs."""

import os
import pty
import re
import subprocess
from datetime import UTC, datetime, timedelta
from pathlib import Path

import psycopg
import pytest
from tests.charging import charge
from tests.cli.running import Run, assert_failed, lines, printed, process, rows, text
from tests.harness.serving import SEPU

from sepu.admin import accounts
from sepu.admin.keys import IssuedKey, change_key
from sepu.admin.plans import set_plan
from sepu.metering.meters import METERS

NOW = datetime.now(UTC)
THIS = f"{NOW:%Y-%m}"
A_MONTH_AGO = NOW.replace(day=1) - timedelta(days=1)
LAST = f"{A_MONTH_AGO:%Y-%m}"


def cell(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


@pytest.fixture
def customer(connection: psycopg.Connection) -> IssuedKey:
    """A customer that used 1900 of 2000 colours today and 30 a month ago. Another one used nothing."""
    issued = accounts.create_account(connection, "standard", "Silk", "cus_1")
    connection.execute("update sepu.account set created_at = '2020-01-01Z'")
    change_key(connection, issued.key_id, "shop")
    accounts.create_account(connection, "standard", external_id="cus_2")
    charge(connection, issued.api_key, "key-0001", 1900, NOW)
    charge(connection, issued.api_key, "key-0002", 30, A_MONTH_AGO)
    return issued


@pytest.mark.usefixtures("customer")
def test_a_month(run: Run) -> None:
    for month, committed in {None: 1900, THIS: 1900, LAST: 30, "2020-01": 0}.items():
        options = ("--month", month) if month else ()
        shown = printed(run("usage", "cus_1", *options, "--json"))
        assert (shown["name"], shown["planId"]) == ("Silk", "standard")
        assert [used["committed"] for used in shown["usage"]] == [committed, 0]
        assert {used["period"] for used in shown["usage"]} == {month or THIS}
    assert "95 % ███████████████████" in text(run("usage", "cus_1"))
    assert [(row["name"], row["meter"], row["committed"]) for row in rows(run("usage", "cus_1", "--csv"))] == [
        ("Silk", "color_match", "1900"),
        ("Silk", "color_search", "0"),
    ]
    assert_failed(run("usage", "cus_1", "--month", "9989-12"), "has not begun")
    assert_failed(run("usage", "cus_1", "--month", "2019-12"), "was made after 2019-12")
    text(run("plan", "set", "standard", "--match-limit", "0"))
    assert "100 %" in text(run("usage", "cus_1"))


@pytest.mark.usefixtures("customer")
def test_over_time(run: Run, ledger_url: str) -> None:
    months = [
        {"period": LAST, "matchUnits": 30, "searchUnits": 0},
        {"period": THIS, "matchUnits": 1900, "searchUnits": 0},
    ]
    for command in (["usage"], ["usage", "cus_1", "--by", "month"]):
        assert lines(run(*command, "--json")) == months
    days = lines(run("usage", "--by", "day", "--json"))
    assert len(days) in {NOW.day, datetime.now(UTC).day}  # midnight may pass
    assert [day["day"] for day in days] == [f"{THIS}-{day:02}" for day in range(1, len(days) + 1)]
    assert days[NOW.day - 1] == {"day": f"{NOW:%Y-%m-%d}", "matchUnits": 1900, "searchUnits": 0}
    for by in ("month", "day", "key"):
        assert {each["matchUnits"] for each in lines(run("usage", "cus_2", "--by", by, "--json"))} <= {0}, by
    (key,) = lines(run("usage", "cus_1", "--by", "key", "--month", LAST, "--json"))
    assert (key["name"], key["matchUnits"]) == ("shop", 30)
    of_day = ("usage", "cus_1", "--by", "key", "--json", "--day")
    (key,) = lines(run(*of_day, f"{NOW:%Y-%m-%d}"))
    assert (key["name"], key["matchUnits"]) == ("shop", 1900)
    assert lines(run(*of_day, f"{A_MONTH_AGO - timedelta(days=1):%Y-%m-%d}")) == []
    assert_failed(run(*of_day, f"{NOW:%Y-%m-%d}", "--month", LAST), "--day needs --by key, and no --month", status=2)
    assert_failed(run("usage", "cus_1", "--day", f"{NOW:%Y-%m-%d}"), "--day needs --by key", status=2)
    head, _last, this = text(run("usage")).splitlines()
    assert head.split() == ["period", "matchUnits", "searchUnits"]
    assert this.endswith("█" * 20)
    plain = text(process("usage", "--database-url", ledger_url, PYTHONIOENCODING="ascii"))
    assert plain.splitlines()[2].endswith("#" * 20)


@pytest.mark.usefixtures("customer")
def test_accounts_near_a_limit(run: Run) -> None:
    (near,) = lines(run("top", "--json"))
    assert (near["externalId"], near["meter"], near["committed"], near["percent"]) == ("cus_1", "color_match", 1900, 95)
    head, row = text(run("top", COLUMNS="80")).splitlines()
    assert head.split() == ["accountId", "name", "planId", "meter", "committed", "limit", "used"]
    assert row.endswith(" 95 %")
    assert len(row) <= 80
    assert lines(run("top", "--at-least", "96", "--json")) == []


def test_an_export_of_a_month(run: Run, connection: psycopg.Connection, customer: IssuedKey) -> None:
    accounts.set_status(connection, customer.account_id, "suspended")
    set_plan(connection, "standard", {"color_match": 2100})
    set_plan(connection, "standard", requests_per_minute=150)
    for added in (("grant", "500"), ("credit", "100", "--month", THIS)):
        done = printed(run(added[0], "add", "cus_1", "color_match", *added[1:], "--reason", "fair", "--json"))
        assert (done["kind"], done["units"], done["reason"]) == (added[0], int(added[1]), "fair")
    assert printed(run("account", "show", "cus_1", "--json"))["matchLimit"] == 2600
    exported = lines(run("export-usage", "--draft", THIS, "--json"))
    found = {line["meter"]: [(each["what"], each["from"], each["to"]) for each in line["changes"]] for line in exported}
    assert found == {
        "color_match": [("limit", 2000, 2100), ("requestsPerMinute", 120, 150)],
        "color_search": [("requestsPerMinute", 120, 150)],
    }
    told = text(run("export-usage", "--draft", THIS))
    assert told.count("Z requestsPerMinute 120 to 150,false,") == 4
    assert "\r" not in told
    ours: dict[str, object] = {"accountId": customer.account_id, "planId": "standard", "status": "suspended"}
    ours |= {"period": THIS, "externalId": "cus_1", "name": "Silk", "reserved": 0, "monthOver": False}
    assert [line["accountId"] for line in exported] == sorted(line["accountId"] for line in exported)
    meters = [line for line in exported if line["accountId"] == customer.account_id]
    assert all(line.pop("readAt").startswith(THIS) for line in exported)
    assert [{name: value for name, value in line.items() if name != "changes"} for line in meters] == [
        {**ours, "meter": meter, "limit": limit, "committed": committed, **billed}
        for meter, limit, committed, billed in (
            ("color_match", 2600, 1900, {"granted": 500, "credited": 100, "toBill": 1800}),
            ("color_search", 1000, 0, {"granted": 0, "credited": 0, "toBill": 0}),
        )
    ]
    for row, line in zip(rows(run("export-usage", "--draft", THIS)), exported, strict=True):
        assert row.pop("readAt").startswith(THIS)
        assert list(row) == list(line)
        row.pop("changes")
        assert row == {name: "" if line[name] is None else cell(line[name]) for name in row}


def test_an_export_has_the_changes_of_the_plan_of_each_time(run: Run, connection: psycopg.Connection) -> None:
    def limit(units: int) -> None:
        for number, plan in enumerate(("gold", "silver")):
            set_plan(connection, plan, {"color_match": units + number, "color_search": 9}, requests_per_minute=9)

    limit(10)
    account = accounts.create_account(connection, "gold").account_id
    limit(20)
    text(run("account", "move", account, "--plan", "silver"))
    limit(30)
    (line,) = (
        line
        for line in lines(run("export-usage", "--draft", THIS, "--json"))
        if (line["accountId"], line["meter"]) == (account, "color_match")
    )
    assert [(each["what"], each["from"], each["to"]) for each in line["changes"]] == [
        ("limit", 10, 20), ("planId", "gold", "silver"), ("limit", 21, 31)
    ]  # fmt: skip


def test_a_month_that_is_not_over_is_exported_as_a_draft_only(run: Run, customer: IssuedKey) -> None:
    for form in ((), ("--json",)):
        done = run("export-usage", THIS, *form)
        assert_failed(done, f"the month {THIS} is not over; --draft exports it as it is now")
        for month, options, over in ((THIS, ["--draft"], False), (LAST, [], True), (LAST, ["--draft"], True)):
            done = run("export-usage", month, *options, *form)
            found = lines(done) if form else rows(done)
            assert {line["monthOver"] for line in found} == {over if form else cell(over)}
            assert customer.account_id in {line["accountId"] for line in found}


@pytest.mark.parametrize("form", [[], ["--json"]])
def test_an_export_says_what_changed_since_an_earlier_one(
    run: Run, connection: psycopg.Connection, customer: IssuedKey, tmp_path: Path, form: list[str]
) -> None:
    since = ("export-usage", LAST, "--since-export", str(tmp_path / "earlier"))
    for encoding in ("utf-8-sig", "utf-8"):  # spreadsheets save the former
        (tmp_path / "earlier").write_text(run("export-usage", LAST, *form).stdout, encoding)
        assert lines(run(*since, "--json")) == []
    (tmp_path / "renamed").write_text(run("export-usage", LAST, *form).stdout.replace("standard", "gold"))
    moved = lines(run(*since[:-1], str(tmp_path / "renamed"), "--json"))
    assert moved[0]["sinceExport"] == [{"what": "planId", "from": "gold", "to": "standard"}]
    run("credit", "add", "cus_1", "color_match", "12", "--month", LAST, "--reason", "outage")
    set_plan(connection, "standard", {"color_search": 1200})  # this month
    (line,) = lines(run(*since, "--json"))
    assert (line["accountId"], line["meter"], line["toBill"]) == (customer.account_id, "color_match", 18)
    assert line["sinceExport"] == [
        {"what": "credited", "from": 0, "to": 12}, {"what": "toBill", "from": 30, "to": 18}
    ]  # fmt: skip
    (row,) = rows(run(*since))
    assert row["sinceExport"] == "credited 0 to 12; toBill 30 to 18"
    with (tmp_path / "earlier").open("r+") as file:  # as if it had been made before an account was
        kept = [each for each in file if "color_search" not in each]
        file.seek(0)
        file.truncate()
        file.writelines(kept)
    added = [line for line in lines(run(*since, "--json")) if line["meter"] == "color_search"]
    assert {change["from"] for line in added for change in line["sinceExport"]} == {None}
    assert "planId - to standard; " in text(run(*since))
    left_out = run(*since, "--exclude-plan", "standard")
    assert left_out.stderr.startswith("sepu: accounts of the earlier export that this one leaves out: ")
    assert customer.account_id in left_out.stderr


def test_an_earlier_export_is_read_with_care(run: Run, customer: IssuedKey, tmp_path: Path) -> None:
    assert customer
    good = run("export-usage", LAST).stdout
    header = good.partition("\n")[0]
    for content, message in (
        (b"", "has no row of sepu export-usage"),
        (header.encode(), "has no row"),
        (b"\xff\xfe", ": it is not UTF-8"),
        (good.encode() + b"a,b,c\n", "row 3 is not one of sepu export-usage"),
        (b"{" * 100_000, "row 1 is not one"),
        (b"{}\n", "row 1 is not one"),
        (good.replace(LAST, "2020-01").encode(), f"is an export of 2020-01, not of {LAST}"),
        (f'{header}\n"{"x" * 200_000}'.encode(), "row 1 is not one"),
    ):
        (tmp_path / "earlier").write_bytes(content)
        done = run("export-usage", LAST, "--since-export", str(tmp_path / "earlier"))
        assert_failed(done, message, status=2)
    assert_failed(run("export-usage", LAST, "--since-export", "no/file"), "No such file", status=2)


def test_a_plan_is_left_out_of_a_month(run: Run, connection: psycopg.Connection) -> None:
    for plan_id in ("test", "trial", "gold"):
        set_plan(connection, plan_id, {"color_match": 1, "color_search": 1}, requests_per_minute=1)
        accounts.create_account(connection, plan_id, "a,test,b")
    command = ("export-usage", "--draft", THIS, "--exclude-plan", "test", "--exclude-plan", "trial")
    for told in (rows(run(*command)), lines(run(*command, "--json"))):
        assert [line["planId"] for line in told] == ["gold"] * len(METERS)
    assert_failed(run("export-usage", "--draft", THIS, "--exclude-plan", "tset"), "there is no plan 'tset'")


def test_no_text_is_a_formula_in_a_csv(run: Run, connection: psycopg.Connection) -> None:
    formulas = ["=1+1", "+1", "-1", "@SUM(A1)", "＝1", "= ,\"'"]
    for name in (*formulas, "Silk = Co."):
        accounts.create_account(connection, "standard", name)
    for command in (("account", "list", "--csv"), ("export-usage", "--draft", THIS)):
        found = {line["name"] for line in rows(run(*command))}
        assert found == {"Silk = Co.", *(f"'{name}" for name in formulas)}, command
    assert {line["name"] for line in lines(run("account", "list", "--json"))} == {"Silk = Co.", *formulas}


@pytest.mark.usefixtures("customer")
@pytest.mark.parametrize("form", [[], ["--json"]])
def test_a_bar_on_the_terminal_takes_nothing_from_the_file(run: Run, ledger_url: str, form: list[str]) -> None:
    command = ("export-usage", "--draft", THIS, *form)
    environment = {**os.environ, "SEPU_DATABASE_URL": ledger_url, "TERM": "xterm"}
    ours, theirs = pty.openpty()
    with os.fdopen(ours, "rb"), os.fdopen(theirs, "rb"):
        told = subprocess.check_output([SEPU, *command], env=environment, stderr=theirs, text=True, timeout=60)
        shown = os.read(ours, 65536).decode()
    later, then = (re.sub(r"[0-9-]{10}T[0-9:]{8}Z", "TIME", each) for each in (text(run(*command)), told))
    assert later == then
    assert len(told.splitlines()) >= 2
    assert "accounts" in shown
    assert "standard" not in shown


@pytest.mark.slow
def test_a_reader_that_goes_away(ledger_url: str, connection: psycopg.Connection) -> None:
    connection.execute(
        "insert into sepu.account (account_id, plan_id) "
        "select translate(lpad(to_hex(n), 16, '0'), '0189', 'wxyz'), 'standard' from generate_series(1, 9000) n"
    )
    issued = accounts.create_account(connection, "standard")
    connection.execute(
        "insert into sepu.stored_result select %s, n::text, sha256('1'), 'color_match', 1, '2031-01', '{}', now(), %s,"
        " gen_random_uuid() from generate_series(1, 9000) n",
        (issued.account_id, issued.key_id),
    )
    charges = f"charges {issued.account_id}"
    for words in ("account list", f"export-usage --draft {THIS}", f"{charges} --limit 0", f"{charges} --duplicates"):
        reading = [str(SEPU), *words.split(), "--database-url", ledger_url]
        with subprocess.Popen(reading, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as writing:
            assert writing.stdout is not None
            assert writing.stderr is not None
            assert writing.stdout.readline()
            writing.stdout.close()
            assert writing.stderr.read() == b""


@pytest.mark.usefixtures("customer")
def test_a_command_whose_reader_went_away_fails_without_a_word(ledger_url: str) -> None:
    read, write = os.pipe()
    os.close(read)
    with os.fdopen(write, "w") as broken:
        for words in (("account", "list", "--database-url", ledger_url), ("--version",)):
            done = subprocess.run([SEPU, *words], stdout=broken, stderr=subprocess.PIPE, check=False, timeout=60)
            assert (done.returncode, done.stderr) == (1, b""), words
