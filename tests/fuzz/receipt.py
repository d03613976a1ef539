"""Hostile public keys for the operator, and hostile receipts for the customer: `make fuzz WHAT=receipt`.

A fault names its case as `SEED:NUMBER`, and `Case.of(PAIR, SEED, NUMBER)` is the same input for the same key pair; it
is shown too, because each run makes a key pair of its own.
"""

import json
import math
import resource
import time
import zlib
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any, TypeVar

from click.testing import CliRunner
from cryptography.hazmat.primitives.asymmetric import padding, rsa
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA1, SHA256
from tests.fuzz.outcome import Outcome

from sepu.admin import receipts
from sepu.admin.receipts import Contents, ReceiptError
from sepu.cli.main import commands
from sepu.errors import SepuError
from sepu.metering import key_format

Made = TypeVar("Made")

MOST_SECONDS = 5.0  # an honest one takes a hundredth of it
MOST_KIB = 100 << 10
_MESSAGE_LENGTH = 150
_ALGORITHMS = (
    *("RSA-OAEP-256", "RSA-OAEP", "RSA1_5", "RSA-OAEP-512", "dir", "none", "A256KW", "A256GCMKW", "ECDH-ES"),
    *("ECDH-ES+A256KW", "PBES2-HS256+A128KW", "PBES2-HS512+A256KW", "HS256", "RS256", "", "rsa-oaep-256"),
)
_ENCRYPTIONS = ("A256GCM", "A128GCM", "A256CBC-HS512", "A128CBC-HS256", "C20P", "none", "", "a256gcm")
_MEMBERS = (
    *("kty", "n", "e", "d", "p", "q", "dp", "dq", "qi", "oth", "k", "crv", "x", "y"),
    *("use", "alg", "key_ops", "kid", "x5c", "x5u", "ext", "", "__proto__"),
)


@dataclass(frozen=True)
class Pair:
    """A key pair and a receipt for it, and what no message may repeat."""

    private: bytes
    members: dict[str, str]
    contents: Contents

    @staticmethod
    def new() -> "Pair":
        """Makes one."""
        members = receipts.new_private_key().as_dict(private=True)
        account_id = key_format.new_account_id()
        contents = Contents(
            account_id,
            key_format.new_key_id(account_id),
            key_format.new_key(account_id),
            datetime(2026, 1, 31, tzinfo=UTC),
        )
        numbers = {name: str(value) for name, value in members.items() if name not in {"use", "alg", "kid", "key_ops"}}
        return Pair(json.dumps(members).encode(), numbers, contents)

    @property
    def public(self) -> dict[str, Any]:
        """Its public part."""
        return {name: self.members[name] for name in ("kty", "n", "e")}

    @property
    def payload(self) -> dict[str, Any]:
        """What an honest receipt has in it."""
        parts = self.contents
        issued_at = parts.issued_at.isoformat()
        return {"accountId": parts.account_id, "keyId": parts.key_id, "apiKey": parts.api_key, "issuedAt": issued_at}


@dataclass(frozen=True)
class Case:
    """What is given to which side."""

    kind: str
    text: bytes

    @staticmethod
    def of(pair: Pair, seed: int, number: int) -> "Case":
        """The same for the same pair, seed and number."""
        rng = Random(f"{seed}:{number}")
        kind = rng.choice(["public", "private", "receipt", "receipt"])
        text = _receipt(rng, pair) if kind == "receipt" else _jwk(rng, pair, private=kind == "private")
        return Case(kind, _damaged(rng, text) if rng.random() < 0.2 else text)


def _one(rng: Random, *choices: Callable[[], Made]) -> Made:
    return rng.choice(choices)()


def _encoded(document: object) -> bytes:
    return json.dumps(document).encode()


def _base64(data: bytes) -> str:
    return urlsafe_b64encode(data).decode().rstrip("=")


def _number(rng: Random, pair: Pair) -> object:
    n = int.from_bytes(urlsafe_b64decode(pair.members["n"] + "=="))
    value = _one(
        rng,
        lambda: rng.choice([0, 1, 2, 3, 65535, 65537, 2**31, 2**32 + 1]),
        lambda: n + rng.choice([-2, -1, 0, 1, 2, n]),
        lambda: rng.getrandbits(rng.choice([8, 512, 1536, 2048, 3071, 3072, 3073, 4096, 90_000])),
        lambda: rng.getrandbits(3072) | 1 | 1 << 3071,
        lambda: math.prod([752 + rng.randrange(1 << 20) | 1 for _ in range(140)]),
        lambda: 3 ** rng.choice([1, 1938]),
        lambda: (rng.getrandbits(1535) | 1 << 1535) ** 2,
    )
    return _one(
        rng,
        lambda: _base64(value.to_bytes(rng.choice([0, 0, 1, 400]) + (value.bit_length() + 7) // 8)),
        lambda: urlsafe_b64encode(value.to_bytes((value.bit_length() + 7) // 8)).decode(),
        lambda: value if value < 2**200 else f"{value % 10**300}",
        lambda: hex(value),
        lambda: pair.members[rng.choice(list(pair.members))],
        lambda: _json(rng),
    )


def _json(rng: Random) -> object:
    """Any JSON; `_damaged` nests it as deeply as a parser may be asked to go."""
    return rng.choice(
        [
            *(None, True, -1, 1e308, "", "\x1b[2J", "A" * 9000, [], {}, [[[]]], {"kty": "RSA"}, "\ud800", "é", 10**300),
            [rng.random() for _ in range(500)],
        ]
    )


def _jwk(rng: Random, pair: Pair, *, private: bool) -> bytes:
    members: dict[str, Any] = dict(pair.members) if private or rng.random() < 0.1 else dict(pair.public)
    for _ in range(rng.choice([0, 1, 1, 2, 4])):
        name = rng.choice(_MEMBERS if rng.random() < 0.5 else list(members) or ["n"])
        match rng.randrange(5):
            case 0:
                members.pop(name, None)
            case 1 | 2:
                members[name] = _number(rng, pair)
            case 3:
                members[name] = rng.choice(
                    ["RSA", "EC", "oct", "OKP", "sig", "enc", *_ALGORITHMS, ["encrypt"], [1], [[]]]
                )
            case _:
                members[name] = _json(rng)
    return _encoded(rng.choice([members] * 9 + [[members], "x", _json(rng)]))


def _receipt(rng: Random, pair: Pair) -> bytes:
    header: dict[str, Any] = {"alg": "RSA-OAEP-256", "enc": "A256GCM"}
    for _ in range(rng.choice([0, 0, 0, 1, 1, 2, 4])):
        more: dict[str, Any] = {
            "alg": rng.choice([*_ALGORITHMS, _json(rng)]),
            "enc": rng.choice([*_ENCRYPTIONS, _json(rng)]),
            "zip": rng.choice(["DEF", "GZ", "", _json(rng)]),
            "p2c": rng.choice([1, 2**31 - 1, 2**63, -1, 10**300, "9"]),
            "p2s": _base64(rng.randbytes(8)),
            "crit": rng.choice([["zip"], ["b64"], [], "x", _json(rng)]),
            "kid": rng.choice(["", "x" * 5000, pair.members["n"][:43], _json(rng)]),
            "jwk": rng.choice([pair.public, _json(rng)]),
            "jku": "http://127.0.0.1:9/",
            "epk": rng.choice([{"kty": "EC", "crv": "P-256", "x": "AA", "y": "AA"}, pair.public, _json(rng)]),
            "typ": _json(rng),
        }
        name = rng.choice(list(more))
        header[name] = more[name]
    if str(header["alg"]).startswith("PBES2") and rng.random() < 0.9:
        header |= {"p2c": 2**31 - 1, "p2s": _base64(bytes(8))}
    payload = {**pair.payload}
    if rng.random() < 0.5:
        name = rng.choice([*payload, "expiresAt", "more"])
        payload[name] = rng.choice([_json(rng), "sepu_" + "a" * 60, str(rng.getrandbits(64))])
    plain = _one(rng, *[lambda: _encoded(payload)] * 4, lambda: _encoded(_json(rng)), lambda: rng.randbytes(50))
    if header.get("zip") == "DEF" or rng.random() < 0.05:
        deflating = zlib.compressobj(9, zlib.DEFLATED, -15)
        plain = deflating.compress(rng.choice([plain, bytes(8 << 20)])) + deflating.flush()
    n = int.from_bytes(urlsafe_b64decode(pair.members["n"] + "=="))
    to = rsa.RSAPublicNumbers(65537, n).public_key()
    key = rng.randbytes(rng.choice([32] * 9 + [16, 64, 0]))
    schemes: list[Callable[[], bytes]] = [
        lambda: to.encrypt(key, padding.OAEP(padding.MGF1(SHA256()), SHA256(), None)),
        lambda: to.encrypt(key, padding.OAEP(padding.MGF1(SHA256()), SHA256(), None)),
        lambda: to.encrypt(key, padding.OAEP(padding.MGF1(SHA1()), SHA1(), None)),
        lambda: to.encrypt(key, padding.PKCS1v15()),
        lambda: b"",
        lambda: rng.randbytes(rng.choice([1, 384, 385, 3000])),
    ]
    aad = _base64(_encoded(header))
    iv = rng.randbytes(rng.choice([12] * 9 + [8, 16]))
    sealed = AESGCM(key if len(key) in {16, 32} else bytes(32)).encrypt(iv, plain, aad.encode())
    tag = sealed[-16 : -rng.choice([1, 4, 12])] if rng.random() < 0.1 else sealed[-16:]
    encrypted = rng.choices(schemes, [9, 9, 1, 1, 1, 1])[0]()
    return ".".join([aad, *(_base64(part) for part in (encrypted, iv, sealed[:-16], tag))]).encode()


def _damaged(rng: Random, text: bytes) -> bytes:
    at = rng.randrange(len(text) + 1)
    deep = [opening * 5000 for opening in ("[", '{"a":')]
    pieces = (*[piece.encode() for piece in (*'. \n=\0+/"{é', "A" * 20_000, *deep)], b"\xff", rng.randbytes(9))
    damaged: bytes = _one(
        rng,
        lambda: text[:at],
        lambda: text[:at] + rng.choice(pieces) + text[at:],
        lambda: text[:at] + text[at + rng.choice([1, 1, 30]) :],
        lambda: text[:at] + bytes([rng.randrange(256)]) + text[at + 1 :],
        lambda: text * 2,
        lambda: text.replace(rng.choice([b".", b"A", b"e"]), rng.choice(pieces), 1),
    )
    return damaged


class Harness:
    """Gives cases to both sides, and judges what they say."""

    def __init__(self, directory: Path, seed: int) -> None:
        self.outcome = Outcome()
        self._seed = seed
        self._pair = Pair.new()
        self._private_file = directory / "private.jwk"
        self._private_file.write_bytes(self._pair.private)
        self._private = receipts.private_key(self._pair.private)
        self._receipt_file = directory / "receipt"
        secrets = [
            self._pair.contents.api_key,
            *(self._pair.members[name] for name in ("d", "p", "q", "dp", "dq", "qi")),
        ]
        self._secrets = [secret[at : at + 12] for secret in secrets for at in range(0, len(secret) - 12, 12)]
        self._kibibytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

    def run(self, number: int) -> None:
        """Tries one case."""
        case = Case.of(self._pair, self._seed, number)
        give = {"public": self._seal, "private": receipts.private_key, "receipt": self._open}[case.kind]
        if case.kind == "receipt" and number % 16 == 0:
            give = self._command
        started = time.monotonic()
        try:
            took = give(case.text)
        except ReceiptError as error:
            took, message = None, str(error)
            if "\n" in message or len(message) > _MESSAGE_LENGTH:
                self._fault(number, case, f"the message is {message!r}")
            if any(secret in message for secret in self._secrets):
                self._fault(number, case, "the message has a secret")
        except Exception as error:  # whatever it is, it is a fault
            self._fault(number, case, f"{type(error).__name__}: {error}"[:300])
            return
        seconds = time.monotonic() - started
        if seconds > MOST_SECONDS:
            self._fault(number, case, f"it took {seconds:.1f} s")
        kibibytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        if kibibytes > self._kibibytes + MOST_KIB:
            self._fault(number, case, f"it took {kibibytes - self._kibibytes} KiB")
            self._kibibytes = kibibytes
        self.outcome.tried[f"{case.kind}, {'refused' if took is None else 'taken'}"] += 1

    def _fault(self, number: int, case: Case, what: str) -> None:
        self.outcome.faults.append(f"case {self._seed}:{number}, {case.kind}: {what} with {case.text[:400]!r}")

    def _seal(self, text: bytes) -> object:
        key = receipts.public_key(text)
        if key.is_private:
            raise AssertionError("a private key was taken")
        return receipts.seal(self._pair.contents, key)

    def _open(self, text: bytes) -> object:
        contents = receipts.unseal(text, self._private)
        if contents.api_key != self._pair.contents.api_key:
            raise AssertionError(f"another key: {contents}")
        return contents

    def _command(self, text: bytes) -> object:
        """By the command, which reads the private key each time, and that takes long."""
        self._receipt_file.write_bytes(text)
        arguments = ["receipt", "open", str(self._private_file), str(self._receipt_file)]
        done = CliRunner().invoke(commands, arguments)
        if done.exception is not None:
            if isinstance(done.exception, SepuError) and done.output:
                raise AssertionError(f"it printed {done.output!r} and failed")
            raise done.exception
        if done.output != f"{self._pair.contents.api_key}\n":
            raise AssertionError(f"it printed {done.output!r}")
        return done.output


def fuzz(seconds: float, seed: int, cases: int | None = None) -> Outcome:
    end = time.monotonic() + seconds
    with TemporaryDirectory(prefix="sepu-fuzz-") as directory:
        harness = Harness(Path(directory), seed)
        for number in count() if cases is None else range(cases):
            if time.monotonic() > end:
                break
            harness.run(number)
    return harness.outcome
