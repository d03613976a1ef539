"""Remembers the keys that the ledger has accepted.

A malformed key never reaches the database: it carries a checksum. A well-formed one may be anybody's invention, and
name any account. So until the ledger has accepted it, its requests take the turns of their sender, not of that account.
"""

import mmap

from sepu.metering.key_format import Credential

# 8 bytes each: at most 8 MiB, which the workers of a server share.
_PLACES = 1 << 20
_BYTES = 8


class KnownKeys:
    """Remembers keys by the first 64 bits of their hashes, in memory that threads and forked workers share.

    Each has one place, which the next key of that place takes over. The ledger authenticates each request all the same.
    """

    def __init__(self) -> None:
        self._places = memoryview(mmap.mmap(-1, _PLACES * _BYTES)).cast("Q")

    def __contains__(self, holder: Credential) -> bool:
        """Returns whether the key was accepted when it was last used."""
        start = _start(holder)
        return self._places[start % _PLACES] == start

    def add(self, holder: Credential) -> None:
        """Remembers a key."""
        start = _start(holder)
        self._places[start % _PLACES] = start

    def discard(self, holder: Credential) -> None:
        """Forgets a key that is no longer accepted."""
        if holder in self:
            self._places[_start(holder) % _PLACES] = 0


def _start(holder: Credential) -> int:
    return int.from_bytes(holder.key_hash[:_BYTES], "big")
