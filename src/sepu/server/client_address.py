"""Finds the address under which a connection is counted."""

from collections.abc import Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address

# The addresses of a proxy on this machine.
_OWN = (IPv4Address("127.0.0.1"), IPv6Address("::1"))

Network = IPv4Network | IPv6Network


def connection_address(remote_addr: str, trusted_proxies: Sequence[Network]) -> str | None:
    """Returns the address that a connection comes from, or None for a connection from a proxy.

    Proxies connect by a Unix socket (an empty `remote_addr`), from 127.0.0.1 or ::1, or from a trusted network. An IPv6
    address counts as its /64 network, the smallest that a subscriber gets.
    """
    if not remote_addr:
        return None
    address = ip_address(remote_addr)
    address = getattr(address, "ipv4_mapped", None) or address
    if address in _OWN or any(address in network for network in trusted_proxies):
        return None
    return str(IPv6Network((address, 64), strict=False) if address.version == 6 else address)
