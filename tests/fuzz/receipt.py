"""Hostile public keys for the operator, and hostile receipts for the customer: `make fuzz WHAT=receipt`.

Each run makes a key pair of its own, so a fault shows its input.
"""

import json
import math
import resource
import time
import zlib
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

from click.testing import CliRunner
from cryptography.hazmat.primitives.asymmetric import padding, rsa
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA1, SHA256
from tests.fuzz.outcome import Played
from tests.fuzz.seeds import mutate

from sepu.admin import receipts
from sepu.admin.receipts import Contents, ReceiptError
from sepu.cli.main import commands
from sepu.errors import SepuError
from sepu.metering import key_format

MOST_SECONDS = 5.0  # an honest one takes a hundredth of it
MOST_KIB = 100 << 10
_MESSAGE_LENGTH = 150
_ALGORITHMS = (
    *("RSA-OAEP-256", "RSA-OAEP", "RSA1_5", "RSA-OAEP-512", "dir", "none", "A256KW", "A256GCMKW", "ECDH-ES"),
    *("ECDH-ES+A256KW", "PBES2-HS256+A128KW", "PBES2-HS512+A256KW", "HS256", "RS256", "", "rsa-oaep-256"),
)
_ENCRYPTIONS = ("A256GCM", "A128GCM", "A256CBC-HS512", "A128CBC-HS256", "C20P", "none", "", "a256gcm")
_WORDS: tuple[Any, ...] = ("RSA", "EC", "oct", "OKP", "sig", "enc", *_ALGORITHMS, ["encrypt"], [1], [[]])
_MEMBERS = (
    *("kty", "n", "e", "d", "p", "q", "dp", "dq", "qi", "oth", "k", "crv", "x", "y"),
    *("use", "alg", "key_ops", "kid", "x5c", "x5u", "ext", "", "__proto__"),
)
_JSON: tuple[Any, ...] = (
    *(None, True, -1, 1e308, "", "\x1b[2J", "A" * 9000, [], {}, [[[]]], {"kty": "RSA"}, "\ud800", "é", 10**300),
    [0.1] * 500,
)
_DEEP = [opening * 5000 for opening in (b"[", b'{"a":')]
_PIECES = [*(bytes([byte]) for byte in b". \n=\0+/\"{'\xff"), "é".encode(), b"A" * 20_000, *_DEEP]


@dataclass(frozen=True)
class Pair:
    """A key pair and a receipt for it, and what no message may repeat."""

    text: bytes
    members: dict[str, str]
    contents: Contents

    @staticmethod
    def new() -> "Pair":
        members = receipts.new_private_key().as_dict(private=True)
        account_id = key_format.new_account_id()
        api_key = key_format.new_key(account_id)
        contents = Contents(account_id, f"{account_id}-abcdefgh", api_key, datetime(2026, 1, 31, tzinfo=UTC))
        numbers = {name: str(value) for name, value in members.items() if name not in {"use", "alg", "kid", "key_ops"}}
        return Pair(json.dumps(members).encode(), numbers, contents)

    @property
    def public(self) -> dict[str, Any]:
        return {name: self.members[name] for name in ("kty", "n", "e")}

    @property
    def modulus(self) -> int:
        return int.from_bytes(urlsafe_b64decode(self.members["n"] + "=="))

    @property
    def payload(self) -> dict[str, Any]:
        """What an honest receipt has in it."""
        parts = self.contents
        issued_at = parts.issued_at.isoformat()
        return {"accountId": parts.account_id, "keyId": parts.key_id, "apiKey": parts.api_key, "issuedAt": issued_at}


def _base64(data: bytes) -> str:
    return urlsafe_b64encode(data).decode().rstrip("=")


def _number(rng: Random, pair: Pair) -> object:
    value = rng.choice(
        [
            *(0, 1, 2, 3, 65535, 65537, 2**31, 2**32 + 1, 3, 3**1938),
            *(pair.modulus + more for more in (-2, -1, 0, 1, 2, pair.modulus)),
            *(rng.getrandbits(bits) for bits in (8, 512, 1536, 2048, 3071, 3072, 3073, 4096, 90_000)),
            *[rng.getrandbits(3072) | 1 | 1 << 3071] * 4,
            *[(rng.getrandbits(1535) | 1 << 1535) ** 2] * 4,
            math.prod([752 + rng.randrange(1 << 20) | 1 for _ in range(140)]),
        ]
    )
    length = rng.choice([0, 0, 1, 400]) + (value.bit_length() + 7) // 8
    return rng.choice(
        [
            *[_base64(value.to_bytes(length))] * 2,
            urlsafe_b64encode(value.to_bytes(length)).decode(),
            value if value < 2**200 else f"{value % 10**300}",
            hex(value),
            *rng.choices(list(pair.members.values())),
        ]
    )


def _jwk(rng: Random, pair: Pair, members: dict[str, Any]) -> bytes:
    members = {**members}
    for _ in range(rng.choice([0, 0, 1, 1, 2, 4])):
        name = rng.choice(_MEMBERS if rng.random() < 0.5 else list(members) or ["n"])
        if rng.random() < 0.2:
            members.pop(name, None)
        else:
            number = _number(rng, pair)
            members[name] = rng.choice([number, number, rng.choice(_WORDS), rng.choice(_JSON)])
    return json.dumps(rng.choice([*9 * [members], [members], "x", rng.choice(_JSON)])).encode()


def _receipt(rng: Random, pair: Pair) -> bytes:
    odd: dict[str, list[Any]] = {
        "alg": [*_ALGORITHMS],
        "enc": [*_ENCRYPTIONS],
        "zip": ["DEF", "DEF", "GZ", ""],
        "p2c": [1, 2**31 - 1, 2**63, -1, 10**300, "9"],
        "p2s": [_base64(rng.randbytes(8))],
        "crit": [["zip"], ["b64"], [], "x"],
        "kid": ["", "x" * 5000, pair.members["n"][:43]],
        "jwk": [pair.public],
        "jku": ["http://127.0.0.1:9/"],
        "epk": [{"kty": "EC", "crv": "P-256", "x": "AA", "y": "AA"}, pair.public],
        "typ": [],
    }
    header: dict[str, Any] = {"alg": "RSA-OAEP-256", "enc": "A256GCM"}
    for name in rng.choices(list(odd), k=rng.choice([0, 0, 0, 1, 1, 2, 4])):
        header[name] = rng.choice([*odd[name], rng.choice(_JSON)])
    if str(header["alg"]).startswith("PBES2") and rng.random() < 0.9:
        header |= {"p2c": 2**31 - 1, "p2s": _base64(bytes(8))}
    payload = pair.payload
    if rng.random() < 0.5:
        name = rng.choice([*payload, "expiresAt", "more"])
        payload[name] = rng.choice([rng.choice(_JSON), "sepu_" + "a" * 60, str(rng.getrandbits(64))])
    plain = rng.choice([*4 * [json.dumps(payload).encode()], json.dumps(rng.choice(_JSON)).encode(), rng.randbytes(50)])
    if header.get("zip") == "DEF" or rng.random() < 0.05:
        plain = zlib.compress(rng.choice([plain, bytes(8 << 20)]), 9, -15)
    to = rsa.RSAPublicNumbers(65537, pair.modulus).public_key()
    key = rng.randbytes(rng.choice([*9 * [32], 16, 64, 0]))
    scheme = rng.choice(
        [
            *9 * [padding.OAEP(padding.MGF1(SHA256()), SHA256(), None)],
            padding.OAEP(padding.MGF1(SHA1()), SHA1(), None),
            padding.PKCS1v15(),
        ]
    )
    encrypted = rng.choice([*9 * [to.encrypt(key, scheme)], b"", rng.randbytes(rng.choice([1, 384, 385, 3000]))])
    aad, iv = _base64(json.dumps(header).encode()), rng.randbytes(rng.choice([*9 * [12], 8, 16]))
    sealed = AESGCM(key if len(key) in {16, 32} else bytes(32)).encrypt(iv, plain, aad.encode())
    tag = sealed[-16 : rng.choice([*27 * [None], -1, -4, -12])]
    return ".".join([aad, *(_base64(part) for part in (encrypted, iv, sealed[:-16], tag))]).encode()


class _Sides:
    """The operator, who takes a public key, and the customer, who opens a receipt."""

    def __init__(self, directory: Path, pair: Pair) -> None:
        self._pair = pair
        self._private_file, self._receipt_file = directory / "private.jwk", directory / "receipt"
        self._private_file.write_bytes(pair.text)
        self._private = receipts.private_key(pair.text)

    def seal(self, text: bytes) -> None:
        key = receipts.public_key(text)
        assert not key.is_private
        receipts.seal(self._pair.contents, key)

    def open(self, text: bytes) -> None:
        contents = receipts.unseal(text, self._private)
        assert contents.api_key == self._pair.contents.api_key, contents

    def open_by_command(self, text: bytes) -> None:
        """It reads the private key each time, and that takes long."""
        self._receipt_file.write_bytes(text)
        done = CliRunner().invoke(commands, ["receipt", "open", str(self._private_file), str(self._receipt_file)])
        if done.exception is not None:
            assert not (isinstance(done.exception, SepuError) and done.output)
            raise done.exception
        assert done.output == f"{self._pair.contents.api_key}\n"


def play(numbers: Iterator[int]) -> Iterator[Played]:
    pair = Pair.new()
    told = [pair.contents.api_key, *(pair.members[name] for name in ("d", "p", "q", "dp", "dq", "qi"))]
    secrets = [secret[at : at + 12] for secret in told for at in range(0, len(secret) - 12, 12)]
    with TemporaryDirectory(prefix="sepu-fuzz-") as directory:
        sides = _Sides(Path(directory), pair)
        for number in numbers:
            rng = Random(number)
            kind = rng.choice(["public", "private", "receipt", "receipt"])
            members = pair.members if kind == "private" or rng.random() < 0.1 else pair.public
            text = _receipt(rng, pair) if kind == "receipt" else _jwk(rng, pair, members)
            if rng.random() < 0.2:
                text = mutate(rng, text, _PIECES, _PIECES)
            opening = sides.open if number % 16 else sides.open_by_command
            sides_of: dict[str, Callable[[bytes], object]] = {"public": sides.seal, "private": receipts.private_key}
            outcome, fault = _given(sides_of.get(kind, opening), text, secrets)
            yield number, f"{kind}, {outcome}", fault and f"{fault} with {text[:400]!r}"


def _given(take: Callable[[bytes], object], text: bytes, secrets: list[str]) -> tuple[str, str | None]:
    """Whether it is taken or refused, and what is wrong with that."""
    began, before = time.monotonic(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    outcome, message = "taken", ""
    try:
        take(text)
    except ReceiptError as error:
        outcome, message = "refused", str(error)
    except Exception as error:  # whatever it is, it is a fault
        return "failed", f"{type(error).__name__}: {error}"[:300]
    if "\n" in message or len(message) > _MESSAGE_LENGTH or any(secret in message for secret in secrets):
        return outcome, f"the message is {message!r}"
    seconds, kib = time.monotonic() - began, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    return outcome, None if seconds < MOST_SECONDS and kib < MOST_KIB else f"it took {seconds:.1f} s and {kib} KiB"
