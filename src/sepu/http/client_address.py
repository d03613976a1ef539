"""Finds the client address of a connection, and of a request behind trusted proxies."""

from collections.abc import Sequence
from functools import lru_cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from typing import Protocol

# More proxies than anybody has.
_MAX_HOPS = 16
# An IPv6 address in brackets with a zone and a port is shorter.
_MAX_LENGTH = 100
# The addresses of the clients of some seconds, and not much memory for what somebody makes up.
_KNOWN = 1024

# Where a proxy on this machine connects from.
_OWN = (IPv4Address("127.0.0.1"), IPv6Address("::1"))

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

    Anybody may have written the addresses to the left of it in X-Forwarded-For.
    """
    hops = (peer.header("X-Forwarded-For") or "").rsplit(",", _MAX_HOPS)
    for hop in (peer.remote_addr or "127.0.0.1", *reversed(hops[-_MAX_HOPS:])):
        address = _parsed(hop)
        if address is None:
            return None
        if not (address.is_loopback or any(address in network for network in trusted_proxies)):
            return _subscriber(address)
    return None


def connection_address(remote_addr: str, trusted_proxies: Sequence[Network]) -> str | None:
    """Returns the address that a connection comes from, or None for those of proxies.

    They connect by a Unix socket (empty here), from 127.0.0.1 or ::1, or from a network that is named.
    """
    address = _parsed(remote_addr)
    if address is None or address in _OWN or any(address in network for network in trusted_proxies):
        return None
    return _subscriber(address)


def _subscriber(address: IPv4Address | IPv6Address) -> str:
    """Returns an address, for IPv6 its /64 network, the least that a subscriber has."""
    return str(IPv6Network((address, 64), strict=False) if address.version == 6 else address)


def _parsed(hop: str) -> IPv4Address | IPv6Address | None:
    text = hop.strip(" \t")
    return _parse(text) if len(text) <= _MAX_LENGTH else None


@lru_cache(_KNOWN)
def _parse(text: str) -> IPv4Address | IPv6Address | None:
    """Reads an address, with or without a port; None for anything else. PERF: this takes longer than all the rest."""
    if text.startswith("["):
        text = text[1:].partition("]")[0]
    elif text.count(":") == 1:
        text = text.partition(":")[0]
    try:
        parsed = ip_address(text)
    except ValueError:
        return None
    return getattr(parsed, "ipv4_mapped", None) or parsed
