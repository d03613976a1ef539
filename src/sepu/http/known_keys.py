"""The keys that this worker has seen the database accept.

A malformed key never reaches the database: it carries a checksum. A well-formed one may be anybody's invention, so the
first request with a key looks it up before anything is computed, in a queue of its own with a turn for each address.
"""

from collections import OrderedDict
from threading import Lock

from sepu.metering.keys import Credential

_MOST = 10_000


class KnownKeys:
    """Remembers the hashes of a bounded number of keys; the least recently used goes first. Threads may share it."""

    def __init__(self) -> None:
        self._keys: OrderedDict[bytes, None] = OrderedDict()
        self._lock = Lock()

    def __contains__(self, holder: Credential) -> bool:
        """Tells whether the key was accepted when it was last used."""
        return holder.key_hash in self._keys

    def add(self, holder: Credential) -> None:
        """Remembers a key, as the one used last."""
        with self._lock:
            self._keys[holder.key_hash] = None
            self._keys.move_to_end(holder.key_hash)
            if len(self._keys) > _MOST:
                self._keys.popitem(last=False)

    def discard(self, holder: Credential) -> None:
        """Forgets a key that is no longer accepted."""
        with self._lock:
            self._keys.pop(holder.key_hash, None)
