"""By which address a connection is counted."""

from ipaddress import ip_network

import pytest

from sepu.server.client_address import connection_address

PROXIES = [ip_network("10.1.0.0/16"), ip_network("fd00::/8")]


@pytest.mark.parametrize(
    ("remote", "address"),
    [
        ("203.0.113.7", "203.0.113.7"),
        ("::ffff:203.0.113.7", "203.0.113.7"),
        ("2001:db8:1:2::1", "2001:db8:1:2::/64"),  # one subscriber's network
        ("2001:db8:1:2:ffff::9", "2001:db8:1:2::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("10.2.0.1", "10.2.0.1"),
        ("127.0.0.2", "127.0.0.2"),
        # Proxies.
        ("10.1.2.3", None),
        ("::ffff:10.1.2.3", None),
        ("fd00::1", None),
        ("127.0.0.1", None),
        ("::1", None),
        ("", None),  # a Unix socket
    ],
)
def test_the_address(remote: str, address: str | None) -> None:
    assert connection_address(remote, PROXIES) == address
