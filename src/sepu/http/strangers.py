"""Keeps keys that nobody knows away from the database.

A malformed key never gets there: it carries a checksum. A well-formed one costs a look-up, and anybody can make such
keys up, so each address may try a few a minute in each process. Keys that were accepted before are never held back,
whatever else comes from their address.
"""

import time
from collections import OrderedDict
from collections.abc import Callable, Iterable
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from threading import Lock
from typing import Protocol

from sepu.metering.keys import Credential

Network = IPv4Network | IPv6Network

FAILURES_PER_MINUTE = 20
_WINDOW_SECONDS = 60
# What is remembered at most; the oldest goes first.
_ADDRESSES = 10_000
_ACCEPTED = 10_000


class Peer(Protocol):
    """Where a request comes from; Falcon's requests are such."""

    @property
    def remote_addr(self) -> str:
        """The address of the connection; empty or loopback for a Unix socket."""

    def header(self, name: str) -> str | None:
        """The value; several of one name are joined by commas."""


class Strangers:
    """Counts, for each address, the keys that turned out to be nobody's."""

    def __init__(self, trusted_proxies: Iterable[Network] = (), clock: Callable[[], float] = time.monotonic) -> None:
        self._trusted_proxies = tuple(trusted_proxies)
        self._clock = clock
        self._accepted: OrderedDict[Credential, None] = OrderedDict()
        self._failures: OrderedDict[str, tuple[float, int]] = OrderedDict()  # by address: since when, how many
        self._lock = Lock()

    def held_back(self, holder: Credential, peer: Peer) -> bool:
        """Whether the key is a stranger's, whose address has used up its minute."""
        if holder in self._accepted or (address := self._address(peer)) is None:
            return False
        since, failures = self._failures.get(address, (0.0, 0))
        return failures >= FAILURES_PER_MINUTE and self._clock() - since < _WINDOW_SECONDS

    def accept(self, holder: Credential) -> None:
        """The database knows the key."""
        if holder not in self._accepted:
            with self._lock:
                self._accepted[holder] = None
                if len(self._accepted) > _ACCEPTED:
                    self._accepted.popitem(last=False)

    def refuse(self, holder: Credential, peer: Peer) -> None:
        """The database does not know the key, or no longer."""
        address = self._address(peer)
        now = self._clock()
        with self._lock:
            self._accepted.pop(holder, None)
            if address is None:
                return
            since, failures = self._failures.pop(address, (now, 0))
            self._failures[address] = (since, failures + 1) if now - since < _WINDOW_SECONDS else (now, 1)
            if len(self._failures) > _ADDRESSES:
                self._failures.popitem(last=False)

    def _address(self, peer: Peer) -> str | None:
        """The last address on the way that is no proxy of ours; None if a proxy does not say whom it serves.

        Of IPv6 it is the /64 network: a subscriber has at least that.
        """
        forwarded = peer.header("X-Forwarded-For") or ""
        for hop in (peer.remote_addr, *reversed(forwarded.split(","))):
            address = _parsed(hop)
            if address is None or address.is_loopback or any(address in network for network in self._trusted_proxies):
                continue
            return str(IPv6Network((address, 64), strict=False) if address.version == 6 else address)
        return None


def _parsed(address: str) -> IPv4Address | IPv6Address | None:
    """None stands for a Unix socket, or for what is no address."""
    try:
        parsed = ip_address(address.strip())
    except ValueError:
        return None
    return getattr(parsed, "ipv4_mapped", None) or parsed
