"""The order in which a request is checked: of any two faults, the first failing step answers."""

from collections.abc import Collection, Iterator
from contextlib import closing
from itertools import combinations
from typing import Any

import falcon.testing
import psycopg
import pytest

from sepu.admin import accounts
from sepu.admin.keys import revoke_key
from sepu.admin.plans import set_plan
from sepu.admin.usage import show_usage
from sepu.http.app import create_app
from sepu.http.responder import WaitingResponder
from sepu.http.service import Service
from sepu.library.release import load_release
from sepu.metering.batcher_thread import BatcherThread

# Each step's faults in order, with their error.
STEPS = (
    ("no such path", "not_found"),
    ("other method", "method_not_allowed"),
    ("revoked key", "unauthorized"),
    ("suspended", "account_unavailable"),
    ("too many requests", "rate_limited"),
    ("no idempotency key", "idempotency_key_required"),
    ("bad idempotency key", "idempotency_key_invalid"),
    ("plain text", "unsupported_media_type"),
    ("large body", "payload_too_large"),
    ("empty body", "body_required"),
    ("half a body", "invalid_json"),
    ("six colours", "invalid_colors"),
    ("a query", "unknown_parameter"),
    ("key used for something else", "idempotency_conflict"),
    ("quota spent", "quota_exceeded"),
)
GOOD = '{"colors":[{"r":200,"g":60,"b":35}]}'
SIX = '{"colors":[' + ",".join(['{"r":200,"g":60,"b":35}'] * 6) + "]}"


@pytest.fixture(scope="module")
def client(service_url: str) -> Iterator[falcon.testing.TestClient]:
    with closing(BatcherThread(service_url)) as ledger:
        ledger.start()
        yield falcon.testing.TestClient(create_app(Service.of(load_release()), WaitingResponder(ledger)))


def ask(client: falcon.testing.TestClient, api_key: str, faults: Collection[str]) -> Any:
    headers = {"Authorization": f"Bearer {api_key}"}
    headers["Content-Type"] = "text/plain" if "plain text" in faults else "application/json"
    if "no idempotency key" not in faults:
        headers["Idempotency-Key"] = "short" if "bad idempotency key" in faults else "decision-1"
    body = SIX if "six colours" in faults else GOOD
    for fault, spoilt in (
        ("another colour", body.replace("200", "201")),
        ("half a body", body[:-1]),
        ("empty body", ""),
        ("large body", body.ljust(16 * 1024 + 1)),
    ):
        body = spoilt if fault in faults else body
    method = "PUT" if "other method" in faults else "POST"
    path = "/v1/mismatch" if "no such path" in faults else "/v1/match"
    path += "?top=3" if "a query" in faults else ""
    return client.simulate_request(method, path, headers=headers, body=body)


FAULTS = [fault for fault, _ in STEPS]


@pytest.mark.parametrize("faults", [some for number in range(3) for some in combinations(FAULTS, number)], ids=str)
def test_the_first_failing_step_answers(
    client: falcon.testing.TestClient, connection: psycopg.Connection, faults: tuple[str, ...]
) -> None:
    issued = accounts.create_account(connection, "standard")
    if "key used for something else" in faults:
        assert ask(client, issued.api_key, {"another colour"}).status_code == 200
    limits, requests_per_minute = {"color_match": 2000, "color_search": 1000}, 120
    if "quota spent" in faults:
        limits["color_match"] = 0
    if "too many requests" in faults:
        requests_per_minute = 1
        connection.execute("select sepu.count_request(%s, 120, now())", [issued.account_id])
    set_plan(connection, issued.account_id, limits, requests_per_minute=requests_per_minute)
    connection.execute("update sepu.account set plan_id = account_id where account_id = %s", [issued.account_id])
    if "suspended" in faults:
        accounts.set_status(connection, issued.account_id, "suspended")
    if "revoked key" in faults:
        revoke_key(connection, issued.key_id)

    before = show_usage(connection, issued.account_id).usage[0].committed
    response = ask(client, issued.api_key, faults)

    expected = next((code for fault, code in STEPS if fault in faults), None)
    assert (response.json.get("error"), response.status_code == 200) == (expected, expected is None)
    charged = show_usage(connection, issued.account_id).usage[0].committed - before
    assert charged == (1 if expected is None else 0)
