"""Keys that nobody knows are limited per address; known ones are not, whoever else shares their address."""

from dataclasses import dataclass, field
from ipaddress import ip_network

import psycopg
import pytest
from tests.serving import Response, Server

from sepu.http.throttle import FAILURES_PER_MINUTE, UnknownKeyThrottle
from sepu.metering import accounts, keys
from sepu.metering.keys import Credential


@dataclass
class Clock:
    now: float = 1000.0

    def __call__(self) -> float:
        return self.now


@dataclass
class Peer:
    remote_addr: str
    headers: dict[str, str] = field(default_factory=dict)

    def header(self, name: str) -> str | None:
        return self.headers.get(name)


def behind(proxy: str, forwarded: str) -> Peer:
    return Peer(proxy, {"X-Forwarded-For": forwarded})


def unknown() -> Credential:
    found = keys.credential(keys.new_key(keys.new_account_id()))
    assert found is not None
    return found


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def throttle(clock: Clock) -> UnknownKeyThrottle:
    return UnknownKeyThrottle([ip_network("10.1.0.0/16"), ip_network("fd00::/8")], clock)


def exhaust(throttle: UnknownKeyThrottle, peer: Peer) -> None:
    for _ in range(FAILURES_PER_MINUTE):
        assert not throttle.refuses(unknown(), peer)
        throttle.key_refused(unknown(), peer)


def test_an_address_may_fail_so_often_a_minute(throttle: UnknownKeyThrottle, clock: Clock) -> None:
    peer = Peer("203.0.113.7")
    exhaust(throttle, peer)
    assert throttle.refuses(unknown(), peer)
    assert not throttle.refuses(unknown(), Peer("203.0.113.8"))
    clock.now += 59
    assert throttle.refuses(unknown(), peer)
    clock.now += 1
    exhaust(throttle, peer)
    assert throttle.refuses(unknown(), peer)


def test_an_accepted_key_is_never_held_back(throttle: UnknownKeyThrottle) -> None:
    peer, known = Peer("203.0.113.7"), unknown()
    throttle.key_accepted(known)
    exhaust(throttle, peer)
    assert not throttle.refuses(known, peer)
    throttle.key_refused(known, peer)  # revoked
    assert throttle.refuses(known, peer)


@pytest.mark.parametrize("peer", [Peer("127.0.0.1"), Peer(""), Peer("10.1.2.3"), behind("::1", "unknown")])
def test_whom_a_proxy_does_not_name_is_not_limited(throttle: UnknownKeyThrottle, peer: Peer) -> None:
    exhaust(throttle, peer)
    assert not throttle.refuses(unknown(), peer)


def test_what_is_remembered_is_bounded(throttle: UnknownKeyThrottle, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sepu.http.throttle._ADDRESSES", 3)
    monkeypatch.setattr("sepu.http.throttle._ACCEPTED", 3)
    first, peer = unknown(), Peer("203.0.113.7")
    throttle.key_accepted(first)
    exhaust(throttle, peer)
    for number in range(3):
        throttle.key_accepted(unknown())
        throttle.key_refused(unknown(), Peer(f"198.51.100.{number}"))
    assert not throttle.refuses(unknown(), peer)  # forgotten
    exhaust(throttle, peer)
    assert throttle.refuses(first, peer)


def ask(server: Server, api_key: str, address: str) -> Response:
    headers = {"Authorization": f"Bearer {api_key}", "X-Forwarded-For": address}
    return server.request("GET", "/v1/library", headers, keep=True)  # on one connection, so to one worker


def test_over_http(server: Server, issued: accounts.IssuedKey, connection: psycopg.Connection) -> None:
    address, elsewhere = "198.51.100.20", "198.51.100.21"
    other = accounts.create_account(connection, "standard")
    assert ask(server, issued.api_key, address).status == 200
    for _ in range(FAILURES_PER_MINUTE):
        assert ask(server, keys.new_key(issued.account_id), address).error == "unauthorized"
    refused = ask(server, keys.new_key(issued.account_id), address)
    assert (refused.error, refused.headers["retry-after"]) == ("rate_limited", "60")
    assert ask(server, other.api_key, address).error == "rate_limited"
    assert ask(server, issued.api_key, address).status == 200
    assert ask(server, other.api_key, elsewhere).status == 200
    assert ask(server, keys.new_key(issued.account_id), elsewhere).error == "unauthorized"
