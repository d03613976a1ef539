"""Hostile public keys for the operator, and hostile receipts for the customer. `make fuzz WHAT=receipt` plays more."""

import json
import math
import resource
import time
import zlib
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable
from functools import cache
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import padding, rsa
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA1, SHA256
from hypothesis import given, settings
from hypothesis import strategies as st
from joserfc.jwk import RSAKey
from tests.fuzz.cases import EXAMPLES

from sepu.admin import receipts
from sepu.admin.receipts import ReceiptError
from sepu.metering import key_format

pytestmark = pytest.mark.slow

MOST_SECONDS = 5.0  # an honest one takes a hundredth of it
MOST_KIB = 100 << 10
ALGORITHMS = ["RSA-OAEP", "RSA1_5", "RSA-OAEP-512", "dir", "none", "A256KW", "A256GCMKW", "ECDH-ES", "HS256", "", None]
ENCRYPTIONS = ["A128GCM", "A256CBC-HS512", "C20P", "none", "", None]
PRIVATE = ["d", "p", "q", "dp", "dq", "qi", "oth", "k"]
MEMBERS = ["kty", "n", "e", *PRIVATE, "crv", "x", "y", "use", "alg", "key_ops", "kid", "x5c", "x5u", "__proto__"]
PIECES = [b".", b" ", b"\n", b"=", b"\0", b"\xff", "é".encode(), b"A" * 20_000, b"[" * 5000, b'{"a":' * 5000]


@cache
def pair() -> dict[str, str]:
    """A key pair of the run's own."""
    return {name: str(value) for name, value in receipts.new_private_key().as_dict(private=True).items()}


@cache
def private_key() -> RSAKey:
    """Reading it takes long."""
    return receipts.private_key(json.dumps(pair()).encode())


@cache
def payload() -> dict[str, Any]:
    """What an honest receipt for it has in it."""
    account_id = key_format.new_account_id()
    api_key = key_format.new_key(account_id)
    return {
        "accountId": account_id, "keyId": f"{account_id}-abcdefgh", "apiKey": api_key,
        "issuedAt": "2026-01-31T12:00:00Z",
    }  # fmt: skip


def base64(data: bytes) -> str:
    return urlsafe_b64encode(data).decode().rstrip("=")


def modulus() -> int:
    return int.from_bytes(urlsafe_b64decode(pair()["n"] + "=="))


NUMBERS = st.deferred(
    lambda: (
        st.sampled_from([0, 3, 65537, 2**3071 + 1, 3**1938, math.prod(range(1001, 1600, 2)) | 1])
        | st.sampled_from([modulus() - 1, modulus() + 2])
        | st.integers(2**3071, 2**3072 - 1)
        | st.integers(2**1535, 2**1536 - 1).map(lambda root: root**2)
        | st.integers(0, 2**90_000)
    ).map(lambda value: base64(value.to_bytes((value.bit_length() + 7) // 8 + 1)))
)
ODD = st.sampled_from([10**300, "A" * 9000, "\x1b[2J", "\ud800", [0.1] * 500, ["encrypt"], "RSA", "EC", "enc", [[]]])
JSON = ODD | st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
HEADERS: dict[str, list[Any]] = {
    "alg": [*ALGORITHMS, "PBES2-HS256+A128KW", "PBES2-HS512+A256KW"], "enc": ENCRYPTIONS, "zip": ["DEF", "GZ"],
    "p2c": [1, 2**31 - 1, 2**63, -1, "9"], "p2s": ["AAAAAAAAAAA"], "crit": [["zip"], [], "x"],
    "kid": ["", "x" * 5000], "jku": ["http://127.0.0.1:9/"], "epk": [{"kty": "EC", "crv": "P-256", "x": "A", "y": "A"}],
}  # fmt: skip
HEADER = st.one_of(*(st.tuples(st.just(name), st.sampled_from(odd) | JSON) for name, odd in HEADERS.items()))


def damaged(text: bytes) -> st.SearchStrategy[bytes]:
    """The text, mostly as it is, or with something else in a place."""
    places, pieces = st.integers(0, len(text)), st.sampled_from(PIECES) | st.binary(max_size=4)
    other = st.builds(lambda at, piece, most: text[:at] + piece + text[at + most :], places, pieces, st.integers(0, 99))
    return st.just(text) | st.just(text) | other


@st.composite
def jwks(draw: st.DrawFn, names: list[str]) -> bytes:
    changes = draw(st.dictionaries(st.sampled_from(MEMBERS), NUMBERS | JSON | st.just("-"), max_size=3))
    members = {**{name: pair()[name] for name in names}, **changes}
    return draw(damaged(json.dumps({name: value for name, value in members.items() if value != "-"}).encode()))


@st.composite
def sealed(draw: st.DrawFn) -> tuple[bool, bytes]:
    """A receipt, and whether it is honest."""
    odd = dict(draw(st.lists(HEADER, max_size=2)))
    if str(odd.get("alg")).startswith("PBES2"):
        odd |= {"p2c": 2**31 - 1, "p2s": "AAAAAAAAAAA"}
    header = {"alg": "RSA-OAEP-256", "enc": "A256GCM", **odd}
    changes = draw(st.dictionaries(st.sampled_from([*payload(), "expiresAt"]), JSON, max_size=1))
    plain = json.dumps({**payload(), **changes}).encode()
    if header.get("zip") == "DEF":
        plain = zlib.compress(draw(st.sampled_from([plain, bytes(8 << 20)])), 9, -15)
    key, iv = bytes(draw(st.sampled_from([32, 32, 32, 16, 0]))), bytes(12)
    hashes = SHA256() if draw(st.integers(0, 9)) else SHA1()
    oaep = padding.OAEP(padding.MGF1(hashes), hashes, None)
    encrypted = rsa.RSAPublicNumbers(65537, modulus()).public_key().encrypt(key, oaep)
    aad = base64(json.dumps(header).encode())
    body = AESGCM(key or bytes(32)).encrypt(iv, plain, aad.encode())
    whole = ".".join([aad, *map(base64, (encrypted, iv, body[:-16], body[-16:]))]).encode()
    text = draw(damaged(whole))
    return not odd and not changes and len(key) == 32 and isinstance(hashes, SHA256) and text == whole, text


def taken(take: Callable[[bytes], object], text: bytes) -> object:
    """What becomes of it; None if it is refused, in one short line without a secret, and soon."""
    began, before = time.monotonic(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    try:
        found = take(text)
    except ReceiptError as error:
        found, message = None, str(error)
        secrets = [payload()["apiKey"], *(pair()[name] for name in ("d", "p", "q", "dp", "dq", "qi"))]
        pieces = [secret[at : at + 12] for secret in secrets for at in range(0, len(secret) - 12, 12)]
        assert "\n" not in message
        assert len(message) <= 150
        assert not [piece for piece in pieces if piece in message]
    assert time.monotonic() - began < MOST_SECONDS
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < MOST_KIB
    return found


@settings(max_examples=EXAMPLES)
@given(st.sampled_from([["kty", "n", "e"], ["kty", "n", "e", "d"]]).flatmap(jwks))
def test_a_public_key(text: bytes) -> None:
    key: Any = taken(receipts.public_key, text)
    assert key is None or not key.is_private


@settings(max_examples=EXAMPLES)
@given(jwks(["kty", "n", "e", "d", "p", "q", "dp", "dq", "qi"]))
def test_a_private_key(text: bytes) -> None:
    taken(receipts.private_key, text)


@settings(max_examples=EXAMPLES)
@given(sealed())
def test_a_receipt(given_: tuple[bool, bytes]) -> None:
    honest, text = given_
    contents: Any = taken(lambda receipt: receipts.unseal(receipt, private_key()), text)
    assert contents or not honest
    assert not contents or contents.api_key == payload()["apiKey"]
