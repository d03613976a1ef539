"""An idempotency key locks only within its account, and operators' locks never meet it."""

import json

import pytest
from psycopg import Connection
from psycopg.errors import UniqueViolation
from tests.harness.serving import serving
from tests.metering.conftest import Customer, HeldUp, MakeCustomer

from sepu.admin import accounts
from sepu.admin.keys import issue_key
from sepu.database import statements
from sepu.database.opening import service_url

# Two accounts, each with a key: without a seed, both keys have the same number. Finding the second took a second.
VICTIM, ATTACKER = ("ojxiclnsnxkotm46", "order-2026-000123"), ("jw6gpbmjaxwcih6r", "x00----BvJw-bl6x5I")
# How meter_one computes a lock's number, and how it did before: from account and key, without a secret.
KEY, OLD_KEY = "_lock(v_key)", "_lock(hashtextextended(p_account_id || ':' || p_idempotency_key, 0))"
INPUT = "hashtextextended(encode(p_fingerprint, 'hex'), v_key)"
OLD_INPUT = "hashtextextended(p_account_id || ':' || p_idempotency_key || encode(p_fingerprint, 'hex'), 1)"


@pytest.mark.usefixtures("own_ledger")
def test_nobody_can_aim_at_another_accounts_lock(
    a: Connection, connection: Connection, ledger_url: str, make_customer: MakeCustomer, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = "select count(distinct hashtextextended(pair, 0)) from unnest(%s::text[]) pair"
    assert connection.execute(old, ([":".join(VICTIM), ":".join(ATTACKER)],)).fetchall() == [(1,)]
    made = []
    for account_id, _ in (VICTIM, ATTACKER):
        monkeypatch.setattr(accounts, "new_account_id", lambda found=account_id: found)
        made.append(make_customer())
    victim, attacker = made
    api_key = issue_key(connection, victim.account_id).api_key
    headers = {"Authorization": f"Bearer {api_key}", "Content-Type": "application/json"}
    body = json.dumps({"colors": [{"r": 1, "g": 2, "b": 3}]}).encode()

    assert attacker.meter(a, ATTACKER[1]).outcome == "charged"
    with serving("uvloop", service_url(ledger_url), workers=1) as server:
        answer = server.request("POST", "/v1/match", {**headers, "Idempotency-Key": VICTIM[1]}, body)
    assert answer.status == 200, answer.body
    assert victim.meter(connection, VICTIM[1]).outcome == "idempotency_conflict", "it is stored"


def test_a_locks_number_depends_on_the_accounts_seed(a: Connection, make_customer: MakeCustomer) -> None:
    """Each account has its own; the locks of a key and of a key with its input have nothing in common."""
    found: list[int] = []
    for customer in (same := make_customer(), same, make_customer()):
        customer.meter(a)
        rows = a.execute(
            "select classid::bigint << 32 | objid::bigint from pg_locks "
            "where locktype = 'advisory' and objsubid = 1 and pid = pg_backend_pid()"
        ).fetchall()
        a.execute("rollback and chain")
        found += [number for (number,) in rows]
        a.execute("update sepu.account set lock_seed = lock_seed + 1 where account_id = %s", (customer.account_id,))
        a.execute("commit and chain")
    assert len(set(found)) == 3 * 2
    ((seeds, accounts_with_one),) = a.execute("select count(distinct lock_seed), count(*) from sepu.account").fetchall()
    assert seeds == accounts_with_one


@pytest.mark.usefixtures("own_ledger")
@pytest.mark.parametrize("what", ["red", "blue"])
def test_a_call_that_runs_the_function_of_before_an_upgrade(
    a: Connection, b: Connection, connection: Connection, customer: Customer, held_up: HeldUp, what: str
) -> None:
    """Their locks differ, so the second waits for the first's counters, and then meets the primary key."""
    new = statements.functions().text
    old = new.replace(KEY, OLD_KEY).replace(INPUT, OLD_INPUT)
    assert (old.count(OLD_KEY), old.count(OLD_INPUT)) == (1, 1)
    connection.execute(old.encode())
    assert customer.meter(a, what="red").outcome == "charged"
    connection.execute(new.encode())

    def second() -> str:
        with pytest.raises(UniqueViolation):  # the service answers request_in_progress
            customer.meter(b, what=what)
        return customer.meter(b, what=what).outcome

    assert held_up(second) == ("replayed" if what == "red" else "idempotency_conflict")
    assert customer.committed(connection) == customer.stored(connection) == {("2031-03", "color_match"): 1}
