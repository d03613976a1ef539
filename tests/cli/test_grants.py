"""`sepu grant` and `sepu credit`: their output, and the effect of a lost connection."""

import json
import re
import time
from contextlib import nullcontext
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from typing import Any

import psycopg
import pytest
from tests.charging import charge
from tests.cli.running import Run, assert_failed, lines, printed, rows, text

from sepu.admin import accounts
from sepu.admin import grants_and_credits as admin
from sepu.admin.grants_and_credits import adjust_usage
from sepu.admin.keys import IssuedKey
from sepu.admin.prune import prune
from sepu.database import statements
from sepu.errors import SepuError

WHY = ("--reason", "Trade fair")


def lost(*arguments: Any, **given: Any) -> admin.Adjustment:
    """Adjusts the usage, and loses the connection before the answer."""
    adjust_usage(*arguments, **given)
    raise psycopg.OperationalError("server closed the connection unexpectedly")


@pytest.fixture
def customer(connection: psycopg.Connection) -> IssuedKey:
    return accounts.create_account(connection, "standard", "Silk & Co.", "cus_1")


@pytest.mark.usefixtures("customer")
def test_what_is_added_is_printed_and_listed(run: Run) -> None:
    month = f"{datetime.now(UTC):%Y-%m}"
    for units, limit in (("500", 2500), ("-100", 2400)):  # a negative number is not taken for an option
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
    assert lines(run("grant", "list", "--month", "2026-01", "--json")) == []
    head, first, _ = text(run("grant", "list")).splitlines()
    assert head.split() == ["on", "account", "period", "meter", "units", "operator", "reason"]
    assert "Silk & Co." in first
    assert lines(run("credit", "list", "--json")) == []


@pytest.mark.usefixtures("customer")
def test_a_refusal_names_the_bound(run: Run) -> None:
    assert_failed(run("grant", "add", "cus_1", "color_match", "-1", *WHY), "at most 0 units of color_match")
    assert_failed(run("credit", "add", "cus_1", "color_match", "1", "--month", "2026-01", *WHY), "at most 0 units")
    over = run("grant", "add", "cus_1", "color_match", "1", "--month", "2026-01", *WHY)
    assert_failed(over, "the month 2026-01 is over, and a grant would change nothing; see: sepu credit add")
    for wrong in (("color_mix", "1", *WHY), ("color_match", "x", *WHY), ("color_match", "1"), ("--oops", "1", *WHY)):
        assert_failed(run("grant", "add", "cus_1", *wrong), status=2)


def test_a_range_of_time_is_credited_once_to_all(
    run: Run, connection: psycopg.Connection, customer: IssuedKey, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = accounts.create_account(connection, "standard")
    connection.execute("update sepu.account set created_at = '2026-03-01'")
    noon = datetime(2026, 3, 31, 12, tzinfo=UTC)
    for number, (holder, meter, units, minutes) in enumerate((
        (customer, "color_match", 3, -1), (customer, "color_match", 5, 0), (customer, "color_match", 7, 12 * 60),
        (customer, "color_search", 1, 5), (other, "color_match", 20, 59), (other, "color_match", 40, 12 * 60 + 30),
    )):  # fmt: skip
        charge(connection, holder.api_key, f"order-{number:04}", units, noon + timedelta(minutes=minutes), meter)
    outage = ("credit", "range", "--since", "2026-03-31T12:00Z", "--until", "2026-04-01T02:30:00+02:00", *WHY)
    account, bill = customer.account_id, ("export-usage", "2026-03", "--json")

    def credited(*choice: str) -> tuple[list[tuple[object, ...]], str]:
        done = run(*outage, *choice, "--json")
        assert done.returncode == 0, done.stderr
        shown = ("accountId", "period", "meter", "charged", "units", "outcome")
        return [tuple(json.loads(line)[name] for name in shown) for line in done.stdout.splitlines()], done.stderr

    def expected(outcome: str) -> list[tuple[object, ...]]:
        return sorted(
            (*of, units, units, outcome)
            for of, units in (
                ((account, "2026-03", "color_match"), 5),
                ((account, "2026-03", "color_search"), 1),
                ((account, "2026-04", "color_match"), 7),
                ((other.account_id, "2026-03", "color_match"), 20),
            )
        )

    def billed() -> list[dict[str, object]]:
        return [line | {"readAt": None} for line in lines(run(*bill))]

    unbilled = billed()
    sums = "32 of color_match, 1 of color_search\n"
    assert credited("--dry-run") == (expected("due"), f"sepu: due: {sums}")
    assert billed() == unbilled
    assert credited("cus_1")[0] == [row for row in expected("credited") if row[0] == account]
    table = run(*outage)
    assert table.stderr == "sepu: credited: 20 of color_match; repeated: 12 of color_match, 1 of color_search\n"
    assert table.stdout.splitlines()[0].split() == ["account", "period", "meter", "charged", "units", "outcome"]
    assert credited() == (expected("repeated"), f"sepu: repeated: {sums}")
    outage = ("credit", "range", "--since", "2026-03-31T17:45+05:45", "--until", "2026-04-01T00:30Z", *WHY)
    with monkeypatch.context() as patched:
        patched.setenv("TZ", "Asia/Kathmandu")
        time.tzset()
        assert credited() == (expected("repeated"), f"sepu: repeated: {sums}"), "the same instants"
    # The id that each release makes, so that none credits again what another has.
    named = f"{account} 2026-03 color_match 2026-03-31T12:00:00+00:00 2026-04-01T00:30:00+00:00"
    assert sha256(named.encode()).hexdigest()[:32] in text(run("credit", "list", "cus_1", "--json")).replace("-", "")
    assert {(line["accountId"], line["meter"]): line["toBill"] for line in lines(run(*bill))} == {
        (account, "color_match"): 3, (account, "color_search"): 0, (other.account_id, "color_match"): 0,
        (other.account_id, "color_search"): 0,
    }  # fmt: skip
    wider = [outage[0], outage[1], "--since", "2026-03-31", *outage[4:]]
    found = [json.loads(line) for line in run(*wider, "cus_1", "--json").stdout.splitlines()]
    left = {(line["period"], line["meter"]): (line["charged"], line["units"], line["outcome"]) for line in found}
    assert left == {
        ("2026-03", "color_match"): (8, 3, "credited"),
        ("2026-03", "color_search"): (1, 0, "nothing_left"),
        ("2026-04", "color_match"): (7, 0, "nothing_left"),
    }
    assert len(lines(run("history", "cus_1", "--json"))) == 2 + 4
    assert run("audit").returncode == 0


def test_a_range_that_cannot_be_credited_is_refused(
    run: Run, connection: psycopg.Connection, customer: IssuedKey, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = datetime.now(UTC)
    charge(connection, customer.api_key, "order-0001", 5, now - timedelta(days=40))
    charge(connection, customer.api_key, "order-0002", 5, now - timedelta(days=35))

    def outage(since: str, until: str, *reason: str) -> tuple[str, ...]:
        return ("credit", "range", "--since", since, "--until", until, *(reason or WHY))

    soon = f"{now + timedelta(days=1):%Y-%m-%d}"
    assert_failed(run(*outage("2026-03-31", soon)), "must end at least 60 seconds ago")
    ago = outage("36d", "34d")
    due, fixed = run(*ago, "--dry-run").stderr.splitlines()
    assert due == "sepu: due: 5 of color_match"
    days = [f"{now - timedelta(days=days):%Y-%m-%d}" for days in (41, 37, 33)]
    for times in (("36d", "34d"), ("36d", days[2]), (days[1], "34d")):
        assert_failed(run(*outage(*times)), "credit twice; give instants: --since 20", status=2)
    assert run(*outage(*fixed.split()[-3::2]), "--dry-run").stderr.splitlines() == [due]
    assert_failed(run(*outage("2026-03-31", "2026-03-31")), "nothing lies between them", status=2)
    assert_failed(run(*outage("2026-03-30", "2026-03-31", "--reason", "a\nb")), "a reason has 1 to 1000")
    nothing = run(*outage("2026-03-30", "2026-03-31"))
    assert (nothing.stdout, nothing.stderr) == ("", "sepu: nothing that was charged in this range can be credited\n")

    with monkeypatch.context() as patched:
        patched.setattr(admin, "adjust_usage", lost)
        assert_failed(
            run(*outage(days[1], days[2])), "server closed the connection", "run this again, and none is credited twice"
        )
    assert run(*outage(days[1], days[2])).stderr == "sepu: repeated: 5 of color_match\n"

    def after_prune(*arguments: Any, **given: Any) -> Any:
        list(prune(connection, 38))
        return statements.run(*arguments, **given)

    with monkeypatch.context() as patched:
        patched.setattr(admin, "run", after_prune)
        why = (
            "5 units of these days have no results any more",
            "; credit them by hand; see: sepu usage --by day, ",
        )
        assert_failed(run(*outage(days[0], days[2])), *why)
    pruned = f"{now - timedelta(days=40):%Y-%m-%d}"
    for times in ((pruned, days[2]), (f"{pruned}T23:59:59Z", days[2]), (days[0], f"{pruned}T00:00:01Z")):
        assert_failed(run(*outage(*times)), "5 units of these days have no results any more")
    assert "nothing that was charged" in run(*outage(days[0], pruned)).stderr
    other = accounts.create_account(connection, "standard", external_id="cus_2")
    charge(connection, other.api_key, "order-0001", 7, now - timedelta(days=35))
    assert run(*outage(days[0], days[2]), "cus_2").stderr == "sepu: credited: 7 of color_match\n"
    month = f"{now - timedelta(days=35):%Y-%m}"
    assert_failed(run("credit", "add", "cus_2", "color_match", "-8", "--month", month, *WHY), "at most 7 units")
    assert run(*outage(days[1], days[2])).stderr == "sepu: repeated: 5 of color_match\n"


@pytest.mark.parametrize(("tick", "is_over"), [(-1, True), (0, True), (1, False)])
def test_a_range_is_settled_from_an_exact_instant_on(
    connection: psycopg.Connection, monkeypatch: pytest.MonkeyPatch, tick: int, is_over: bool
) -> None:
    now = datetime(2026, 3, 31, tzinfo=UTC)
    monkeypatch.setattr(admin, "read_now", lambda _connection: now)
    until = now - timedelta(minutes=1) + timedelta(microseconds=tick)
    with nullcontext() if is_over else pytest.raises(SepuError, match="must end at least 60 seconds ago"):
        assert admin.find_range_credits(connection, until - timedelta(days=1), until) == []


@pytest.mark.usefixtures("customer")
def test_a_lost_connection_tells_the_id_that_adds_once(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    command = ("grant", "add", "cus_1", "color_match", "500", *WHY)
    with monkeypatch.context() as patched:
        patched.setattr(admin, "adjust_usage", lost)
        done = run(*command)
    assert_failed(done, "server closed the connection", "It is not known whether the grant was added")
    (own_id,) = re.findall(r"with (--id \S+),", done.stderr)
    assert printed(run(*command, *own_id.split(), "--json"))["granted"] == 500
    assert len(lines(run("grant", "list", "--json"))) == 1
