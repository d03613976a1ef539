"""`sepu usage` and `sepu top` for persons and programs."""

import csv
import io
import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from tests.cli.running import Run, failed, printed, process

from sepu.admin import accounts
from sepu.admin.keys import name_key
from sepu.cli.database import connect
from sepu.metering import key_format

NOW = datetime.now(UTC)
THIS = f"{NOW:%Y-%m}"
LAST = f"{NOW.replace(day=1) - timedelta(days=1):%Y-%m}"


def lines(text: str) -> list[Any]:
    return [json.loads(line) for line in text.splitlines()]


@pytest.fixture
def run(run: Run, own_url: str) -> Run:
    """On a database of the test's own, where cus_1 used 1900 of 2000 colours today, and 30 a month ago."""
    with connect(own_url) as connection:
        issued = accounts.create_account(connection, "standard", "Silk", "cus_1")
        connection.execute("update sepu.account set created_at = '2020-01-01Z'")
        name_key(connection, issued.key_id, "shop")
        accounts.create_account(connection, "standard")
        holder = key_format.credential(issued.api_key)
        assert holder is not None
        for key, units, at in (("key-0001", 1900, NOW), ("key-0002", 30, NOW.replace(day=1) - timedelta(days=1))):
            connection.execute(
                "select from sepu.meter_request(%s, %s, %s, %s, 'color_match', %s, '{}', %s)",
                (holder.account_id, holder.key_hash, key, bytes(32), units, at),
            )
    return lambda *arguments, **environment: run(*arguments, SEPU_DATABASE_URL=own_url, **environment)


def test_a_month(run: Run) -> None:
    months: list[tuple[list[str], int]] = [([], 1900), (["--month", THIS], 1900), (["--month", LAST], 30)]
    for month, committed in [*months, (["--month", "2020-01"], 0)]:
        shown = printed(run("usage", "cus_1", *month, "--json"))
        assert (shown["name"], shown["planId"]) == ("Silk", "standard")
        assert [used["committed"] for used in shown["usage"]] == [committed, 0]
    table = run("usage", "cus_1").stdout
    assert "95 % ███████████████████" in table
    rows = list(csv.DictReader(io.StringIO(run("usage", "cus_1", "--csv").stdout)))
    assert [(row["name"], row["meter"], row["committed"]) for row in rows] == [
        ("Silk", "color_match", "1900"),
        ("Silk", "color_search", "0"),
    ]
    failed(run("usage", "cus_1", "--month", "9999-12"), "has not begun")
    failed(run("usage", "cus_1", "--month", "2019-12"), "was made after 2019-12")


def test_over_time(run: Run, own_url: str) -> None:
    months = [
        {"period": LAST, "matchUnits": 30, "searchUnits": 0},
        {"period": THIS, "matchUnits": 1900, "searchUnits": 0},
    ]
    for command in (["usage"], ["usage", "cus_1", "--by", "month"]):
        assert lines(run(*command, "--json").stdout) == months
    days = lines(run("usage", "--by", "day", "--json").stdout)
    assert len(days) in {NOW.day, datetime.now(UTC).day}  # midnight may pass
    assert [day["day"] for day in days] == [f"{THIS}-{day:02}" for day in range(1, len(days) + 1)]
    assert days[NOW.day - 1] == {"day": f"{NOW:%Y-%m-%d}", "matchUnits": 1900, "searchUnits": 0}
    (key,) = lines(run("usage", "cus_1", "--by", "key", "--month", LAST, "--json").stdout)
    assert (key["name"], key["matchUnits"]) == ("shop", 30)
    head, _last, this = run("usage").stdout.splitlines()
    assert head.split() == ["period", "matchUnits", "searchUnits"]
    assert this.endswith("█" * 20)
    assert (
        process("usage", "--database-url", own_url, PYTHONIOENCODING="ascii").stdout.splitlines()[2].endswith("#" * 20)
    )


@pytest.mark.parametrize("arguments", [("--by", "key"), ("--by", "month", "--month", THIS), ("cus_1", "--by", "hour")])
def test_what_makes_no_sense(run: Run, arguments: tuple[str, ...]) -> None:
    done = run("usage", *arguments)
    assert (done.returncode, done.stdout) == (2, "")


def test_who_is_near_a_limit(run: Run) -> None:
    (near,) = lines(run("top", "--json").stdout)
    assert (near["externalId"], near["meter"], near["committed"], near["percent"]) == ("cus_1", "color_match", 1900, 95)
    head, row = run("top", COLUMNS="80").stdout.splitlines()
    assert head.split() == ["accountId", "name", "planId", "meter", "committed", "limit", "used"]
    assert row.endswith(" 95 %")
    assert len(row) <= 80
    assert run("top", "--at-least", "96").stdout == ""
