"""Finds the client address of a request behind trusted proxies."""

from collections.abc import Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from typing import Protocol

Network = IPv4Network | IPv6Network


class Peer(Protocol):
    """Describes where a request comes from; Falcon's requests have this form."""

    @property
    def remote_addr(self) -> str:
        """Returns the address of the connection; empty or loopback for a Unix socket."""

    def header(self, name: str) -> str | None:
        """Returns the value of a header; several of one name are joined by commas."""


def client_address(peer: Peer, trusted_proxies: Sequence[Network]) -> str | None:
    """Returns the last address on the way that is not a trusted proxy; None if a proxy names no client.

    For IPv6 this is the /64 network, the least that a subscriber has.
    """
    forwarded = peer.header("X-Forwarded-For") or ""
    for hop in (peer.remote_addr, *reversed(forwarded.split(","))):
        address = _parsed(hop)
        if address is None or address.is_loopback or any(address in network for network in trusted_proxies):
            continue
        return str(IPv6Network((address, 64), strict=False) if address.version == 6 else address)
    return None


def _parsed(address: str) -> IPv4Address | IPv6Address | None:
    """Reads an address; None for a Unix socket or an invalid address."""
    try:
        parsed = ip_address(address.strip())
    except ValueError:
        return None
    return getattr(parsed, "ipv4_mapped", None) or parsed
