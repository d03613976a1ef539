"""Keys that a worker has not seen are looked up first: so many a second, and with a turn for each address."""

import psycopg
import pytest
from tests.serving import Response, Server

from sepu.http.known_keys import KnownKeys
from sepu.metering import accounts, keys
from sepu.metering.keys import Credential


def unknown() -> Credential:
    found = keys.credential(keys.new_key(keys.new_account_id()))
    assert found is not None
    return found


def test_what_is_remembered_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sepu.http.known_keys._MOST", 3)
    used, unused, revoked = unknown(), unknown(), unknown()
    known = KnownKeys()
    for key in (used, unused, revoked):
        known.add(key)
    known.discard(revoked)
    known.discard(unknown())
    known.add(unknown())
    known.add(used)
    known.add(unknown())
    assert (used in known, unused in known, revoked in known) == (True, False, False)


def ask(server: Server, api_key: str, address: str = "198.51.100.20") -> Response:
    headers = {"Authorization": f"Bearer {api_key}", "X-Forwarded-For": address}
    return server.request("GET", "/v1/library", headers, keep=True)  # on one connection, so to one worker


def test_a_valid_key_is_let_through_whatever_its_address_did(
    server: Server, issued: accounts.IssuedKey, connection: psycopg.Connection
) -> None:
    for _ in range(50):
        assert ask(server, keys.new_key(issued.account_id)).error == "unauthorized"
    other = accounts.create_account(connection, "standard")
    for key in (issued, other):
        assert ask(server, key.api_key).status == 200
    accounts.revoke_key(connection, other.key_id)
    for _ in range(2):
        assert ask(server, other.api_key).error == "unauthorized"


def test_a_look_up_is_not_counted(server: Server, connection: psycopg.Connection) -> None:
    accounts.set_plan(connection, "once", match_limit=1, search_limit=1, requests_per_minute=1)
    issued = accounts.create_account(connection, "once")
    assert ask(server, keys.new_key(issued.account_id)).error == "unauthorized"
    assert ask(server, issued.api_key).status == 200
    assert ask(server, issued.api_key).error == "rate_limited"
