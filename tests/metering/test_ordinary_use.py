"""Every mutant of the ledger (tests/mutants) still answers. Other tests check whether the answer is right."""

from contextlib import closing
from datetime import timedelta
from typing import Any

import pytest
from psycopg import Connection
from tests.metering.conftest import Customer

from sepu.admin import accounts, receipts
from sepu.admin.audit import audit
from sepu.admin.export import export_usage
from sepu.admin.grants_and_credits import adjust_usage
from sepu.admin.keys import list_keys, revoke_key
from sepu.admin.prune import prune
from sepu.admin.rotation import rotate_key
from sepu.admin.usage import show_usage
from sepu.metering.batcher_thread import BatcherThread
from sepu.metering.commands import Command, admit, read_usage

pytestmark = pytest.mark.usefixtures("own_ledger")  # an audit and a prune look at all accounts


def questions(customer: Customer, first: str) -> tuple[Command[Any], ...]:
    match = customer.request(f"{first}-match")
    search = customer.request(f"{first}-search", meter="color_search")
    other = customer.request(f"{first}-match", what="blue")
    holder = customer.credential
    return match, match, search, other, read_usage(holder), admit(holder)


ANSWERS = ["charged", "replayed", "charged", "idempotency_conflict", "ok", "ok"]


def test_a_request_is_answered(own_url: str, customer: Customer) -> None:
    def outcome(answer: Any) -> Any:
        return getattr(answer, "outcome", answer)

    with closing(BatcherThread(own_url)) as ledger:
        ledger.start()
        assert [outcome(ledger.run(command)) for command in questions(customer, "ordinary")] == ANSWERS


def test_an_operator_is_answered(connection: Connection, customer: Customer) -> None:
    customer.meter(connection)
    adjust_usage(connection, "grant", customer.account_id, "color_match", 5, reason="Fair", period="2031-03")
    list(prune(connection, 90))
    list(export_usage(connection, "2031-03"))
    audit(connection)
    show_usage(connection, customer.account_id)
    private = receipts.new_private_key()
    made = rotate_key(connection, customer.account_id, private, "ordinary", timedelta(days=1))
    assert receipts.unseal(made.receipt.encode(), private).key_id == made.key_id
    accounts.set_status(connection, customer.account_id, "suspended")
    revoke_key(connection, made.key_id)
    assert len(list_keys(connection, customer.account_id)) == 2
