"""Keys that a worker does not know: the valid ones are let through, however many others are refused."""

from multiprocessing import get_context

import psycopg
import pytest
from falcon.testing import create_environ
from tests.serving import Response, Server

from sepu import limits
from sepu.admin import accounts
from sepu.admin.keys import IssuedKey, revoke_key
from sepu.http.app import TimedRequest
from sepu.http.known_keys import KnownKeys
from sepu.http.request_checks import Callers, LibraryEndpoint, Pending
from sepu.metering import key_format
from sepu.metering.key_format import Credential
from sepu.metering.refused_keys import RefusedKeys


def test_a_key_has_one_place(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sepu.http.known_keys._PLACES", 256)
    known = KnownKeys()
    used, next_to_it, instead = (Credential("a" * 16, bytes([0] * 7 + [n, 9])) for n in (1, 2, 1))
    instead = Credential("a" * 16, b"x" + used.key_hash[1:])
    for key in (used, next_to_it):
        known.add(key)
    assert (used in known, next_to_it in known, instead in known) == (True, True, False)
    known.add(instead)
    known.discard(used)  # whose place another has
    assert (used in known, next_to_it in known, instead in known) == (False, True, True)
    known.discard(instead)
    assert instead not in known


def test_a_key_is_known_while_it_is_accepted() -> None:
    endpoint = LibraryEndpoint(Callers(KnownKeys(), ()), b"{}")
    api_key = key_format.new_key(key_format.new_account_id())
    request = TimedRequest(create_environ(headers={"Authorization": f"Bearer {api_key}"}))
    known = []
    for outcome in ("unauthorized", "rate_limited", "unauthorized", "ok"):
        pending = endpoint.judge(request)
        assert isinstance(pending, Pending)
        pending.conclude(outcome)
        known.append(pending.command.sender is None)
    assert known == [False, False, True, False]


def test_workers_share_what_they_know() -> None:
    known, key = KnownKeys(), Credential("a" * 16, bytes(32))
    child = get_context("fork").Process(target=known.add, args=(key,))
    child.start()
    child.join()
    assert key in known


def test_refused_keys_are_many_for_a_while() -> None:
    refused = RefusedKeys()
    for _ in range(limits.REFUSED_KEYS_PER_SECOND):
        refused.count(1000.0)
    assert not refused.are_many(1000.0)
    refused.count(1000.0)
    assert refused.are_many(1000.0)
    assert not refused.are_many(1000.1)
    for _ in range(100 * limits.REFUSED_KEYS_PER_SECOND):
        refused.count(2000.0)
    assert refused.are_many(2000.0 + limits.SUSPICION_SECONDS - 1.1)
    assert not refused.are_many(2000.0 + limits.SUSPICION_SECONDS)


def ask(server: Server, api_key: str, address: str = "198.51.100.20") -> Response:
    headers = {"Authorization": f"Bearer {api_key}", "X-Forwarded-For": address}
    return server.request("GET", "/v1/library", headers, keep=True)  # on one connection, so to one worker


def test_a_valid_key_is_let_through_whatever_its_address_did(
    server: Server, issued: IssuedKey, connection: psycopg.Connection
) -> None:
    for _ in range(limits.REFUSED_KEYS_PER_SECOND + 50):  # so the rest is looked up first
        assert ask(server, key_format.new_key(issued.account_id)).error == "unauthorized"
    other = accounts.create_account(connection, "standard")
    for key in (issued, other):
        assert ask(server, key.api_key).status == 200
    revoke_key(connection, other.key_id)
    for _ in range(2):
        assert ask(server, other.api_key).error == "unauthorized"
