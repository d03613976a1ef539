"""Recognises API keys by their tags, and remembers which keys the ledger has just refused."""

from collections.abc import Callable

import msgspec

from sepu import limits
from sepu.metering.commands import RATE_LIMITED, UNAUTHORIZED
from sepu.metering.failure import LedgerUnavailable
from sepu.metering.key_format import Credential, KeyTags, account_named_in

# The refusals to remember, and how many later requests still reach the ledger. A rate limit may end at any moment;
# a revocation is final.
REMEMBERED = {RATE_LIMITED: limits.batches.LIMITED_CALLS, UNAUTHORIZED: 0}


class _Refusal(msgspec.Struct):
    code: str
    until: float
    asked: int = 0


class Callers:
    """Recognises keys without I/O. Other threads may use this while one thread records the ledger's answers."""

    def __init__(self, time: Callable[[], float], is_connected: Callable[[], bool]) -> None:
        self._time = time
        self._is_connected = is_connected
        self._secret: bytes | None = None
        self._tags: KeyTags | None = None
        self._refusals: dict[bytes, _Refusal] = {}
        self._next_purge = float("-inf")

    def learn_secret(self, secret: bytes) -> bool:
        """Keeps the database's secret. Returns whether it replaces another database's.

        If it does, forgets all refusals, because this database may have issued those keys.
        """
        known, self._secret = self._secret, secret
        if known == secret:
            return False
        self._tags = KeyTags(secret)
        self._refusals = {}
        return known is not None

    def recognise(self, key: str) -> Credential | None:
        """Returns the credential of a key that this deployment may have issued; None for any other.

        Raises:
            LedgerUnavailable: the key is well-formed but not recognised, and there is no session. A database that has
                just taken over may have issued it.
        """
        credential = None if self._tags is None else self._tags.credential(key)
        if credential is None and not self._is_connected() and account_named_in(key):
            raise LedgerUnavailable
        return credential

    def remember(self, key_hash: bytes, code: str) -> None:
        """Remembers for a second why the ledger refused a key. The code is one of `REMEMBERED`."""
        now = self._time()
        if now >= self._next_purge:
            self._next_purge = now + limits.batches.REFUSED_SECONDS
            self._refusals = {each: known for each, known in self._refusals.items() if known.until > now}
        if (known := self._refusals.get(key_hash)) is None or known.until <= now or known.code != code:
            self._refusals[key_hash] = _Refusal(code, now + limits.batches.REFUSED_SECONDS)

    def refusal(self, credential: Credential) -> str | None:
        """Returns the code with which to refuse a key without asking the ledger; None if the ledger must be asked."""
        known = self._refusals.get(credential.key_hash)
        if known is None or known.until <= self._time():
            return None
        known.asked += 1
        return known.code if known.asked > REMEMBERED[known.code] else None
