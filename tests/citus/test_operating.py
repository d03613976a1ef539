"""Operators' commands work on a cluster too: names, plans, usage over time, prune, export and erasure."""

import re
from datetime import UTC, datetime, timedelta

import psycopg
import pytest
from psycopg import Connection
from psycopg.conninfo import make_conninfo
from tests.charging import charge
from tests.citus.cluster import CITUS, Citus
from tests.cli.running import invoke
from tests.console.running import console
from tests.keys import holder_of

from sepu.admin import accounts, receipts
from sepu.admin.audit import audit
from sepu.admin.distribute import distribute
from sepu.admin.erase import erase_account
from sepu.admin.export import export_usage
from sepu.admin.grants_and_credits import adjust_usage, credit_range, find_range_credits
from sepu.admin.history import NO_ACCOUNT, list_changes
from sepu.admin.keys import change_key, issue_key, list_keys, revoke_key
from sepu.admin.naming import AccountError, find_account
from sepu.admin.plans import delete_plan, list_plans, set_plan, show_plan
from sepu.admin.prune import prune
from sepu.admin.rotation import rotate_key
from sepu.admin.usage import nearest_limits, usage_by_month, usage_in_month
from sepu.console.app import PAGES
from sepu.database.connection import snapshot
from sepu.database.opening import connect
from sepu.database.roles import make_role, not_of_purpose
from sepu.errors import SepuError
from sepu.metering import key_format

pytestmark = pytest.mark.slow

NOW = datetime.now(UTC)
OLD = NOW - timedelta(days=100)


def test_an_operators_day(connection: Connection) -> None:
    plan_id = key_format.new_account_id()
    set_plan(connection, plan_id, {"color_match": 10, "color_search": 10}, requests_per_minute=600)
    set_plan(connection, plan_id, {"color_match": 11})
    issued = accounts.create_account(connection, "standard", "Silk", f"cus-{plan_id}")
    account_id = find_account(connection, f"cus-{plan_id}")
    accounts.change_account(connection, account_id, f"Silk {plan_id}")
    change_key(connection, issued.key_id, "shop", "k-1")
    accounts.move_account(connection, account_id, plan_id)
    holder = holder_of(issued.api_key)
    for number, at in enumerate((NOW, OLD)):
        charge(connection, issued.api_key, f"key-{number:04}", 9, at)

    (account,) = accounts.list_accounts(connection, search=plan_id, plan_id=plan_id, status="active")
    assert (account.account_id, account.committed) == (account_id, {"color_match": 9})
    assert account.limits["color_match"] == 11
    assert show_plan(connection, plan_id).accounts == 1
    assert list_keys(connection, account_id)[0].last_used_on is not None
    assert account_id in {near.account_id for near in nearest_limits(connection, 80, 10**6)}
    months = usage_by_month(connection, account_id)
    assert [part.units["color_match"] for part in months] == [9, 9]

    def parts() -> list[dict[str | None, int]]:
        of_month = usage_in_month(connection, f"{OLD:%Y-%m}", account_id)
        return [
            {part.name: units for part in found if (units := part.units["color_match"])}
            for found in (of_month.days, of_month.keys)
        ]

    before = parts()
    assert before == [{f"{OLD:%Y-%m-%d}": 9}, {issued.key_id: 9}]
    outage = (OLD - timedelta(hours=1), OLD + timedelta(hours=1))
    (due,) = (found for found in find_range_credits(connection, *outage) if found.account_id == account_id)
    assert [due] == find_range_credits(connection, *outage, account_id)
    assert credit_range(connection, due, "Outage").units == 9
    assert [found.outcome for found in find_range_credits(connection, *outage, account_id)] == ["repeated"]
    assert sum(batch.results for batch in prune(connection, 90)) >= 1
    with pytest.raises(SepuError, match="9 units of these days have no results"):
        find_range_credits(connection, *outage, account_id)
    assert parts() == before
    (exported,) = export_usage(connection, f"{NOW:%Y-%m}", account_id)
    assert [(change.before, change.after) for change in exported.changes] == [("standard", plan_id)]
    private = receipts.new_private_key()
    rotations = [rotate_key(connection, account_id, private, "r-1", timedelta(0)) for _ in range(2)]
    assert [rotation.repeated for rotation in rotations] == [False, True]
    opened = holder_of(receipts.unseal(rotations[1].receipt.encode(), private).api_key)
    ending = issue_key(connection, account_id, NOW + timedelta(days=1))
    rotate_key(connection, account_id, private, "r-1", timedelta(0), replaced=ending.key_id)
    assert ending.key_id not in {key.key_id for key in list_keys(connection, None, ends_within=timedelta(days=2))}
    assert [found.account_id for found in accounts.list_accounts(connection, search=ending.key_id[-7:])] == [account_id]
    revoke_key(connection, issued.key_id)
    first, *others = list_keys(connection, account_id)
    revoke_key(connection, issued.key_id)
    assert list_keys(connection, account_id) == [first, *others]
    assert [key.state for key in (first, *others)] == ["revoked", "valid", "expired", "valid"]
    accounts.set_status(connection, account_id, "suspended")
    admitted = "select outcome from sepu.admit(%s, %s, %s)"
    for key_hash, outcome in ((holder.key_hash, "unauthorized"), (opened.key_hash, "account_unavailable")):
        assert connection.execute(admitted, (account_id, key_hash, datetime.now(UTC))).fetchall() == [(outcome,)]
    assert erase_account(connection, account_id).results == 1
    assert usage_by_month(connection, account_id) == months
    assert account_id not in {difference.account_id for difference in audit(connection).differences}
    set_plan(connection, "brief", {"color_match": 1, "color_search": 1}, requests_per_minute=60)
    delete_plan(connection, "brief")
    assert "brief" not in {plan.plan_id for plan in list_plans(connection)}


def test_a_lost_worker_stops_no_command_for_an_account_elsewhere(spoilt: Connection, other: Citus) -> None:
    distribute(spoilt)
    lost = other.worker_of(NO_ACCOUNT)  # has the history of plans
    (kept,) = {*other.workers} - {lost}
    while (
        other.worker_of((issued := accounts.create_account(spoilt, "standard", external_id="cus-1")).account_id) != kept
    ):
        spoilt.execute("update sepu.account set external_id = null")
    account_id = issued.account_id
    charge(spoilt, issued.api_key, "key-0001", 5, NOW)

    def failing(*commands: str) -> list[str]:
        return [each for each in commands if invoke(*each.split(), SEPU_DATABASE_URL=other.url).returncode != 0]

    of_one = (
        f"account show {account_id}", f"account set {account_id} --name Silk",
        f"account move {account_id} --plan standard", f"account suspend {account_id}",
        f"account reactivate {account_id}", f"account show {issued.key_id}", f"key list {account_id}",
        f"key issue {account_id}", f"key set {issued.key_id} --name shop",
        f"usage {account_id}", f"usage {account_id} --month {NOW:%Y-%m}", f"usage {account_id} --by key",
        f"charges {account_id}", f"grant add {account_id} color_match 5 --reason trial", f"grant list {account_id}",
        f"credit add {account_id} color_match 5 --month {NOW:%Y-%m} --reason late", f"credit list {account_id}",
        f"credit range {account_id} --since 2026-01-01 --until 2026-01-02 --reason late",
        f"key list {account_id} --ends-within 9d",
        f"events list {account_id}", "plan list", "plan show standard",
        f"key revoke {issued.key_id}", f"account erase {account_id} --yes",
    )  # fmt: skip
    # These need accounts on all workers, a table that each of them has, or the history of the account's plans.
    of_all = (
        "account list", "account show cus-1", "usage", "top", "audit", "plan set standard --match-limit 3000",
        f"history {account_id}",
    )  # fmt: skip
    with console(other.url) as pages:
        lost.stop("immediate")
        try:
            assert failing(*of_one) == []
            assert failing(*of_all) == [*of_all]
            assert "unknown accounts of standard" in pages.request("GET", "/plans").body.decode()
        finally:
            lost.start("127.0.0.1")
    assert failing(*of_all) == ["account show cus-1"]  # it was erased


def test_no_copy_is_left_on_the_coordinator(spoilt: Connection) -> None:
    accounts.create_account(spoilt, "standard", "Silk")
    distribute(spoilt)
    kept = """
        select relname from pg_class
         where relnamespace = 'sepu'::regnamespace and relkind = 'r' and pg_relation_size(oid) > 0
           and relname <> 'probe'
    """
    assert ("change",) in spoilt.execute(kept).fetchall()
    (statement,) = re.findall(r"select count\(truncate_local_data[^\"]*", CITUS)
    spoilt.execute(statement.encode())
    assert spoilt.execute(kept).fetchall() == []
    assert [account.name for account in accounts.list_accounts(spoilt)] == ["Silk"]


def test_the_log_of_a_worker_tells_no_key(spoilt: Connection, other: Citus) -> None:
    distribute(spoilt)
    issued = accounts.create_account(spoilt, "standard")
    spoilt.execute("alter table sepu.stored_result add constraint nothing_more check (units < 0) not valid")
    with pytest.raises(psycopg.errors.CheckViolation):
        charge(spoilt, issued.api_key, "key-of-the-log", 5, NOW)
    log = other.worker_of(issued.account_id).log()
    assert "nothing_more" in log
    assert "key-of-the-log" not in log
    assert holder_of(issued.api_key).key_hash.hex() not in log


def test_the_console_reads(connection: Connection, cluster: Citus) -> None:
    make_role(connection, "sepu_console", "read-only")
    with connect(make_conninfo(cluster.url, user="sepu_console")) as console:
        with snapshot(console, 4):
            for route, (_, page) in PAGES.items():
                path = {"account_id": accounts.oldest_account(connection)} if "{account_id}" in route else {}
                assert page(console, lambda _: None, **path)
        for hidden in ("key_hash from sepu.api_key", "body from sepu.stored_result", "receipt from sepu.receipt"):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                console.execute(f"select {hidden}".encode())


def test_a_role_of_people_changes_accounts_and_its_changes_name_it(connection: Connection, cluster: Citus) -> None:
    make_role(connection, "sepu_accounts", "accounts")
    with connect(make_conninfo(cluster.url, user="sepu_accounts")) as session:
        set_plan(session, "shared", {"color_match": 5, "color_search": 5}, requests_per_minute=60)
        issued = accounts.create_account(session, "standard", "Silk", "cus_shared")
        with pytest.raises(AccountError, match=f"that of account {issued.account_id}"):
            accounts.create_account(session, "standard", external_id="cus_shared")
        accounts.move_account(session, issued.account_id, "shared")
        adjust_usage(session, "grant", issued.account_id, "color_match", 5, reason="fair")
        revoke_key(session, issued.key_id)
        for statement in ("delete from sepu.change", "update sepu.usage set granted = 0"):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                session.execute(statement.encode())
    found = list_changes(connection, account_id=issued.account_id)
    of_account = [change.action for change in found if change.account_id == issued.account_id]
    assert of_account == ["key.revoke", "grant.add", "account.move", "key.issue", "account.create"]
    assert {change.role for change in found} == {"sepu_accounts"}
    assert not_of_purpose(connection) == []
