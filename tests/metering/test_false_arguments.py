"""What a taken-over service may pass: instants far from the database's clock, and nulls."""

from collections.abc import Sequence
from typing import Any, LiteralString

import pytest
from psycopg import Connection
from psycopg.errors import InvalidParameterValue, NotNullViolation
from tests.metering.conftest import Customer, MakeCustomer

# Each function that the service calls with an instant, and its batch form.
CALLS: dict[str, LiteralString] = {
    "admit": "select outcome from sepu.admit(%s, %s, {})",
    "admit_batch": "select outcome from sepu.admit_batch(array[%s], array[%s::bytea], {})",
    "read_usage": "select outcome from sepu.read_usage(%s, %s, {})",
    "read_usage_batch": "select outcome from sepu.read_usage_batch(array[%s], array[%s::bytea], {})",
    "meter_request": "select outcome from sepu.meter_request("
    "%s, %s, 'key-0001', sha256(''), 'color_match', 1, '{{}}', gen_random_uuid(), {})",
    "meter_request_batch": "select outcome from sepu.meter_request_batch("
    "array[%s], array[%s::bytea], array['key-0001'], array[sha256('')], array['color_match'], array[1], "
    "array['{{}}'::bytea], array[gen_random_uuid()], {})",
}
DAY = "interval '86401 seconds'"
FALSE = (f"now() + {DAY}", f"now() - {DAY}", "'infinity'", "'-infinity'", "'20000-01-01'", "'0044-03-15 BC'", "null")
NEAR = ("now() + interval '23 hours'", "now() - interval '23 hours'")


def call(session: Connection, name: str, customer: Customer, at: str) -> list[Any]:
    parameters = (customer.account_id, customer.credential.key_hash)
    return session.execute(CALLS[name].format(at).encode(), parameters).fetchall()


def test_every_function_with_an_instant_is_tried(connection: Connection) -> None:
    rows = connection.execute(
        "select proname from pg_proc where pronamespace = 'sepu'::regnamespace and prosecdef "
        "and provolatile = 'v' and 'timestamptz'::regtype = any (proargtypes)"  # others write nothing
    ).fetchall()
    assert {name for (name,) in rows} == {*CALLS}


@pytest.mark.parametrize("name", CALLS)
def test_an_instant_is_within_a_day_of_the_databases_clock(
    connection: Connection, customer: Customer, name: str
) -> None:
    for at in FALSE:
        with pytest.raises(InvalidParameterValue, match="more than a day from the database's clock"):
            call(connection, name, customer, at)
    unused = "select count(used_until) from sepu.api_key where account_id = %s"
    assert connection.execute(unused, (customer.account_id,)).fetchall() == [(0,)]
    answers = {outcome for at in NEAR for (outcome,) in call(connection, name, customer, at)}
    assert answers <= {"ok", "charged", "replayed"}


# A charge's parameters after the account and the key's hash.
CHARGE = ("key-0001", bytes(32), "color_match", 1, b"{}", "6f1c0d2e-8a4b-4c1d-9e5f-000000000001")
PARAMETERS = ("account_id", "key_hash", "idempotency_key", "fingerprint", "meter", "units", "body", "request_id")
TYPES = ("text", "bytea", "text", "bytea", "text", "integer", "bytea", "uuid")
ONE = f"select outcome, body from sepu.meter_request({', '.join(f'%s::{kind}' for kind in TYPES)})".encode()
EACH = (
    f"select outcome, body from sepu.meter_request_batch({', '.join(f'array[%s::{kind}]' for kind in TYPES)})".encode()
)


@pytest.mark.parametrize("statement", [ONE, EACH], ids=["one", "each"])
@pytest.mark.parametrize("place", range(len(PARAMETERS)), ids=PARAMETERS)
def test_a_null_charges_and_returns_nothing(
    connection: Connection, make_customer: MakeCustomer, statement: bytes, place: int
) -> None:
    """Whether the key is new or has a result. It must also end, which null units did not."""
    customer = make_customer()
    charge: Sequence[Any] = (customer.account_id, customer.credential.key_hash, *CHARGE)
    connection.execute("set statement_timeout = '5s'")
    for known in (False, True):
        if known:
            assert connection.execute(statement, charge).fetchall() == [("charged", b"{}")]
        try:
            found = connection.execute(statement, (*charge[:place], None, *charge[place + 1 :])).fetchall()
        except (InvalidParameterValue, NotNullViolation):
            found = []
        # A replay does not look at what a new charge would store.
        replays = known and PARAMETERS[place] in {"units", "body", "request_id"}
        assert [body for _, body in found if body] == ([b"{}"] if replays else [])
        assert customer.committed(connection) == customer.stored(connection) or known
        assert sum(customer.stored(connection).values()) == known
