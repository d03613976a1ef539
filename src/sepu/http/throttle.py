"""Throttles unknown keys, so that they do not reach the database.

A malformed key never reaches it, because keys have a checksum. A well-formed key costs a look-up, and anybody can
invent one. So each address may send a few unknown keys a minute to each process. Keys that were accepted before are
never throttled.
"""

import time
from collections import OrderedDict
from collections.abc import Callable, Iterable
from threading import Lock

from sepu.http.client_address import Network, Peer, client_address
from sepu.metering.keys import Credential

FAILURES_PER_MINUTE = 20
_WINDOW_SECONDS = 60
# The most entries; the least recently used is removed first.
_ADDRESSES = 10_000
_ACCEPTED = 10_000


class UnknownKeyThrottle:
    """Counts, for each address, the keys that the database did not know."""

    def __init__(self, trusted_proxies: Iterable[Network] = (), clock: Callable[[], float] = time.monotonic) -> None:
        self._trusted_proxies = tuple(trusted_proxies)
        self._clock = clock
        self._accepted: OrderedDict[Credential, None] = OrderedDict()
        self._failures: OrderedDict[str, tuple[float, int]] = OrderedDict()  # by address: start of the minute, number
        self._lock = Lock()

    def refuses(self, holder: Credential, peer: Peer) -> bool:
        """Returns whether the key is unknown and its address has reached the limit of this minute."""
        if holder in self._accepted or (address := client_address(peer, self._trusted_proxies)) is None:
            return False
        since, failures = self._failures.get(address, (0.0, 0))
        return failures >= FAILURES_PER_MINUTE and self._clock() - since < _WINDOW_SECONDS

    def key_accepted(self, holder: Credential) -> None:
        """Remembers a key that the database knows."""
        with self._lock:
            self._accepted[holder] = None
            self._accepted.move_to_end(holder)
            if len(self._accepted) > _ACCEPTED:
                self._accepted.popitem(last=False)

    def key_refused(self, holder: Credential, peer: Peer) -> None:
        """Counts a key that the database does not know, or no longer."""
        address = client_address(peer, self._trusted_proxies)
        now = self._clock()
        with self._lock:
            self._accepted.pop(holder, None)
            if address is None:
                return
            since, failures = self._failures.pop(address, (now, 0))
            self._failures[address] = (since, failures + 1) if now - since < _WINDOW_SECONDS else (now, 1)
            if len(self._failures) > _ADDRESSES:
                self._failures.popitem(last=False)
