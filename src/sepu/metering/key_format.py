"""API keys: `sepu_<account>_<secret>_<checksum>`, lower-case base 32 (RFC 4648).

By the account's id, a distributed store can route by the key. By the checksum, a mistyped key is refused without asking
the store. Only the SHA-256 of the whole key, with its 256-bit secret, is stored.
"""

import hashlib
import re
import secrets
import zlib
from base64 import b32encode
from dataclasses import dataclass, field
from functools import lru_cache

# PERF: read by `int`, a checksum takes a fraction of the instructions that writing one by `b32encode` takes.
_TO_INT = str.maketrans("abcdefghijklmnopqrstuvwxyz234567", "0123456789abcdefghijklmnopqrstuv")

_FORM = re.compile(r"sepu_([a-z2-7]{16})_[a-z2-7]{52}_([a-z2-7]{7})", re.ASCII)
_ACCOUNT_ID = re.compile(r"[a-z2-7]{16}", re.ASCII)
_KEY_ID = re.compile(r"([a-z2-7]{16})-[a-z2-7]{8}", re.ASCII)


@dataclass(frozen=True, slots=True)
class Credential:
    """What the ledger needs to recognise a key. It does not hold the key."""

    account_id: str
    key_hash: bytes = field(repr=False)

    @property
    def key_id(self) -> str:
        """Returns what names the key without revealing it, and its account: so it can be found by itself."""
        return f"{self.account_id}-{_key_name(self.key_hash[:5])}"


def _base32(data: bytes) -> str:
    return b32encode(data).decode().rstrip("=").lower()


@lru_cache(10_000)
def _key_name(start: bytes) -> str:
    return _base32(start)


def _checksum(payload: str) -> str:
    return _base32(zlib.crc32(payload.encode()).to_bytes(4, "big"))


def new_account_id() -> str:
    """Makes 80 random bits: 16 characters."""
    return _base32(secrets.token_bytes(10))


def new_key(account_id: str) -> str:
    """Makes a new secret key of the account."""
    payload = f"sepu_{account_id}_{_base32(secrets.token_bytes(32))}"
    return f"{payload}_{_checksum(payload)}"


def credential(key: str) -> Credential | None:
    """Returns the credential of a well-formed key; None if it is malformed or mistyped."""
    form = _FORM.fullmatch(key)
    if form is None:
        return None
    account_id, checksum = form.groups()
    if int(checksum.translate(_TO_INT), 32) != zlib.crc32(key.rpartition("_")[0].encode()) << 3:  # of 35 bits
        return None
    return Credential(account_id, hashlib.sha256(key.encode()).digest())


def is_account_id(text: str) -> bool:
    """Returns whether a text has the form of an account's id."""
    return _ACCOUNT_ID.fullmatch(text) is not None


def account_of(key_id: str) -> str | None:
    """Returns the account that a key id names; None if the id is malformed."""
    form = _KEY_ID.fullmatch(key_id)
    return form and form[1]


def idempotency_key_hash(account_id: str, idempotency_key: str) -> str:
    """Returns what the request log has of an Idempotency-Key: 48 bits of a SHA-256, of each account another one."""
    text = f"{account_id}:{idempotency_key}"
    return hashlib.sha256(text.encode(errors="backslashreplace")).hexdigest()[:12]
