"""Whose request it is, behind proxies that are trusted and others."""

from dataclasses import dataclass
from ipaddress import ip_network

import pytest

from sepu.http.client_address import client_address

PROXIES = [ip_network("10.1.0.0/16"), ip_network("fd00::/8")]
ONE, OTHER = "203.0.113.7", "198.51.100.1"


@dataclass
class Peer:
    remote_addr: str
    forwarded: str | None = None

    def header(self, name: str) -> str | None:
        return {"X-Forwarded-For": self.forwarded}[name]


@pytest.mark.parametrize(
    ("peer", "address"),
    [
        (Peer(ONE), ONE),
        (Peer(f"::ffff:{ONE}"), ONE),
        (Peer("2001:db8:1:2::1"), "2001:db8:1:2::/64"),  # one subscriber's network
        (Peer("2001:db8:1:2:ffff::9"), "2001:db8:1:2::/64"),
        (Peer(ONE, OTHER), ONE),  # no proxy of ours: its word is anybody's
        (Peer("10.2.0.1", ONE), "10.2.0.1"),
        (Peer("127.0.0.1", f"{OTHER}, {ONE}"), ONE),
        (Peer("", f"{OTHER}, {ONE}"), ONE),  # a Unix socket
        (Peer("10.1.2.3", f"{OTHER}, {ONE}"), ONE),
        (Peer("fd00::1", f"{OTHER},{ONE}, 10.1.9.9, ::1"), ONE),
        (Peer("10.1.2.3", f"{OTHER}, {ONE}:4711"), ONE),  # as some proxies write it
        (Peer("10.1.2.3", f"{OTHER}, [2001:db8:1:2::1]:443"), "2001:db8:1:2::/64"),
        (Peer("10.1.2.3", "[2001:db8:1:2::1]"), "2001:db8:1:2::/64"),
        # What a proxy does not name is nobody, and not whoever stands to the left of it.
        (Peer("10.1.2.3", f"{OTHER}, unknown"), None),
        (Peer("10.1.2.3", f"{OTHER}, _hidden"), None),
        (Peer("10.1.2.3", f"{OTHER},"), None),
        (Peer("10.1.2.3", f"{OTHER}, 10.1.2.3.4"), None),
        (Peer("10.1.2.3", f"{OTHER}, {ONE}:4711:1"), None),
        (Peer("10.1.2.3"), None),
        (Peer("127.0.0.1"), None),
        (Peer("", ""), None),
        (Peer("10.1.2.3", OTHER + ", 10.1.2.3" * 100), None),  # more than anybody has
    ],
)
def test_the_client(peer: Peer, address: str | None) -> None:
    assert client_address(peer, PROXIES) == address
