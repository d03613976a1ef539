"""The table of the contract through nginx, on every kind of worker: what a customer sees."""

from dataclasses import replace

import psycopg
import pytest
from tests.deploy.proxy import Proxied
from tests.http.contract import Case, World, check_case, every_case
from tests.http.raw import check_requests_in_a_row

from sepu.admin.keys import IssuedKey

pytestmark = pytest.mark.slow


@every_case
def test_contract(
    case: Case, server: Proxied, database_url: str, connection: psycopg.Connection, issued: IssuedKey
) -> None:
    if case.error == "idempotency_key_invalid" and case.idempotency_key == "":
        case = replace(case, error="idempotency_key_required")  # nginx passes no empty header on
    check_case(case, server, World(database_url, connection, issued))


def test_requests_in_a_row_are_answered_in_order(server: Proxied, issued: IssuedKey) -> None:
    check_requests_in_a_row(server, issued)
