"""The contract's table on every kind of worker."""

import psycopg
from tests.harness.serving import Server
from tests.http.contract import CASES, Case, World, check_case, every_case

from sepu.admin.keys import IssuedKey
from sepu.http.errors import ERRORS


@every_case
def test_contract(
    case: Case, server: Server, database_url: str, connection: psycopg.Connection, issued: IssuedKey
) -> None:
    check_case(case, server, World(database_url, connection, issued))


def test_every_error_code_is_reached() -> None:
    elsewhere = {"internal_error", "usage_commit_failed", "not_ready"}  # tests/faults
    elsewhere |= {"bad_request", "uri_too_long", "headers_too_large", "expectation_failed"}  # test_raw.py
    elsewhere |= {"request_timeout", "overloaded"}  # test_deadlines.py
    assert {case.error for case in CASES} - {None} | elsewhere == set(ERRORS)
