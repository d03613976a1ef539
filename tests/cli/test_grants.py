"""`sepu grant` and `sepu credit`: what they print, and what a lost connection leaves."""

import re
from datetime import UTC, datetime
from typing import Any

import psycopg
import pytest
from tests.cli.running import Run, failed, lines, printed, rows, text

from sepu.admin import accounts
from sepu.admin import grants as admin
from sepu.admin.keys import IssuedKey

WHY = ("--reason", "Trade fair")


@pytest.fixture
def customer(connection: psycopg.Connection) -> IssuedKey:
    return accounts.create_account(connection, "standard", "Silk & Co.", "cus_1")


@pytest.mark.usefixtures("customer")
def test_what_is_added_is_printed_and_listed(run: Run) -> None:
    month = f"{datetime.now(UTC):%Y-%m}"
    for units, limit in (("500", 2500), ("-100", 2400)):  # a negative number is no option
        added = printed(run("grant", "add", "cus_1", "color_match", units, *WHY, "--json", SEPU_OPERATOR="zhu"))
        after = {"limit": limit, "committed": 0, "granted": limit - 2000, "credited": 0, "toBill": 0}
        given = {"name": "Silk & Co.", "kind": "grant", "meter": "color_match", "units": int(units), "operator": "zhu"}
        assert given.items() | after.items() <= added.items()
    listed = lines(run("grant", "list", "cus_1", "--json"))
    assert [(line["units"], line["period"], line["reason"]) for line in listed] == [
        (500, month, "Trade fair"),
        (-100, month, "Trade fair"),
    ]
    assert [row["units"] for row in rows(run("grant", "list", "--month", month, "--csv"))] == ["500", "-100"]
    head, first, _ = text(run("grant", "list")).splitlines()
    assert head.split() == ["on", "account", "period", "meter", "units", "operator", "reason"]
    assert "Silk & Co." in first
    assert text(run("credit", "list")) == ""


@pytest.mark.usefixtures("customer")
def test_a_refusal_names_the_bound(run: Run) -> None:
    failed(run("grant", "add", "cus_1", "color_match", "-1", *WHY), "at most 0 units of color_match")
    failed(run("credit", "add", "cus_1", "color_match", "1", "--month", "2026-01", *WHY), "at most 0 units")
    failed(run("grant", "add", "cus_1", "color_match", "1", "--month", "2026-01", *WHY), "the month 2026-01 is over")
    for wrong in (("color_mix", "1", *WHY), ("color_match", "x", *WHY), ("color_match", "1"), ("--oops", "1", *WHY)):
        failed(run("grant", "add", "cus_1", *wrong), status=2)


@pytest.mark.usefixtures("customer")
def test_a_lost_connection_tells_the_id_that_adds_once(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    adjust = admin.adjust_usage

    def lost(*arguments: Any, **given: Any) -> admin.Adjustment:
        adjust(*arguments, **given)
        raise psycopg.OperationalError("server closed the connection unexpectedly")

    command = ("grant", "add", "cus_1", "color_match", "500", *WHY)
    with monkeypatch.context() as patched:
        patched.setattr(admin, "adjust_usage", lost)
        done = run(*command)
    failed(done, "server closed the connection", "It is not known whether the grant was added")
    (own_id,) = re.findall(r"with (--id \S+),", done.stderr)
    assert printed(run(*command, *own_id.split(), "--json"))["granted"] == 500
    assert len(lines(run("grant", "list", "--json"))) == 1
