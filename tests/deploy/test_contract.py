"""The table of the contract through nginx, on every kind of worker: what a customer sees."""

from dataclasses import replace

import pytest
from tests.deploy.proxy import Proxied
from tests.http.test_contract import CASES, Case, World, world
from tests.http.test_contract import test_contract as check_case
from tests.http.test_raw import test_requests_in_a_row_are_answered_in_order

__all__ = ["test_requests_in_a_row_are_answered_in_order", "world"]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_contract(case: Case, server: Proxied, world: World) -> None:
    if case.error == "idempotency_key_invalid" and case.idempotency_key == "":
        case = replace(case, error="idempotency_key_required")  # nginx passes no empty header on
    check_case(case, server, world)
