"""How many keys the ledger has refused of late."""

from sepu import limits


class RefusedKeys:
    """Counts refused keys: a bucket that leaks so many a second. Threads may share it; a race loses one of them."""

    def __init__(self) -> None:
        self._empty_at = float("-inf")

    def count(self, now: float) -> None:
        """Takes note of a refused key, at a monotonic time in seconds."""
        later = max(self._empty_at, now) + 1 / limits.REFUSED_KEYS_PER_SECOND
        self._empty_at = min(later, now + limits.SUSPICION_SECONDS)

    def are_many(self, now: float) -> bool:
        """Returns whether there are more than those of a second."""
        return self._empty_at > now + 1.0
