"""Keys that nobody knows are limited per address; known ones are not, whoever else shares their address."""

from dataclasses import dataclass, field
from ipaddress import ip_network

import psycopg
import pytest
from tests.serving import Response, Server

from sepu.http.strangers import FAILURES_PER_MINUTE, Strangers
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
def strangers(clock: Clock) -> Strangers:
    return Strangers([ip_network("10.1.0.0/16"), ip_network("fd00::/8")], clock)


def exhaust(strangers: Strangers, peer: Peer) -> None:
    for _ in range(FAILURES_PER_MINUTE):
        assert not strangers.held_back(unknown(), peer)
        strangers.refuse(unknown(), peer)


def test_an_address_may_fail_so_often_a_minute(strangers: Strangers, clock: Clock) -> None:
    peer = Peer("203.0.113.7")
    exhaust(strangers, peer)
    assert strangers.held_back(unknown(), peer)
    assert not strangers.held_back(unknown(), Peer("203.0.113.8"))
    clock.now += 59
    assert strangers.held_back(unknown(), peer)
    clock.now += 1
    exhaust(strangers, peer)
    assert strangers.held_back(unknown(), peer)


def test_an_accepted_key_is_never_held_back(strangers: Strangers) -> None:
    peer, known = Peer("203.0.113.7"), unknown()
    strangers.accept(known)
    exhaust(strangers, peer)
    assert not strangers.held_back(known, peer)
    strangers.refuse(known, peer)  # revoked
    assert strangers.held_back(known, peer)


@pytest.mark.parametrize(
    ("one", "same"),
    [
        (Peer("2001:db8:1:2::1"), Peer("2001:db8:1:2:ffff::9")),  # one subscriber's network
        (Peer("203.0.113.7"), Peer("::ffff:203.0.113.7")),
        (Peer("203.0.113.7"), behind("203.0.113.7", "198.51.100.1")),  # a stranger's word
        (Peer("203.0.113.7"), behind("127.0.0.1", "198.51.100.1, 203.0.113.7")),
        (Peer("203.0.113.7"), behind("", "198.51.100.1, 203.0.113.7")),  # a Unix socket
        (Peer("203.0.113.7"), behind("10.1.2.3", "198.51.100.1, 203.0.113.7")),
        (Peer("203.0.113.7"), behind("fd00::1", "198.51.100.1,203.0.113.7, 10.1.9.9, ::1")),
    ],
)
def test_same_address(strangers: Strangers, one: Peer, same: Peer) -> None:
    exhaust(strangers, one)
    assert strangers.held_back(unknown(), same)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (Peer("2001:db8:1:2::1"), Peer("2001:db8:1:3::1")),
        (behind("127.0.0.1", "198.51.100.1"), behind("127.0.0.1", "198.51.100.2")),
        (Peer("203.0.113.7"), behind("10.2.0.1", "203.0.113.7")),  # no proxy of ours
    ],
)
def test_other_address(strangers: Strangers, one: Peer, other: Peer) -> None:
    exhaust(strangers, one)
    assert not strangers.held_back(unknown(), other)


@pytest.mark.parametrize("peer", [Peer("127.0.0.1"), Peer(""), Peer("10.1.2.3"), behind("::1", "unknown")])
def test_whom_a_proxy_does_not_name_is_not_limited(strangers: Strangers, peer: Peer) -> None:
    exhaust(strangers, peer)
    assert not strangers.held_back(unknown(), peer)


def test_what_is_remembered_is_bounded(strangers: Strangers, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sepu.http.strangers._ADDRESSES", 3)
    monkeypatch.setattr("sepu.http.strangers._ACCEPTED", 3)
    first, peer = unknown(), Peer("203.0.113.7")
    strangers.accept(first)
    exhaust(strangers, peer)
    for number in range(3):
        strangers.accept(unknown())
        strangers.refuse(unknown(), Peer(f"198.51.100.{number}"))
    assert not strangers.held_back(unknown(), peer)  # forgotten
    exhaust(strangers, peer)
    assert strangers.held_back(first, peer)


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
