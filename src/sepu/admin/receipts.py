"""Makes and opens receipts: new API keys, encrypted to their owner's public key. Knows no database.

A receipt is a compact JWE (RFC 7516) by RSA-OAEP-256 and A256GCM; keys are JWK (RFC 7517), RSA of exactly 3072 bits.
Public keys and receipts come from others. A bad one raises a one-line ReceiptError that quotes nothing.
"""

import math
import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from datetime import datetime

import msgspec
from joserfc import jwe
from joserfc.errors import JoseError
from joserfc.jwk import RSAKey

from sepu.errors import SepuError
from sepu.metering import key_format

# A JWK or a receipt.
_RECEIPT_BYTES = 16 * 1024

_BITS = 3072
_EXPONENT = 65537
# The product of the primes below 752 (NIST SP 800-89, 5.3.3).
_SMALL_PRIMES = math.prod(n for n in range(2, 752) if all(n % divisor for divisor in range(2, n)))
_ALGORITHM = "RSA-OAEP-256"
_ENCRYPTION = "A256GCM"
_BASE64 = re.compile(r"[A-Za-z0-9_-]+", re.ASCII)
_PRIVATE = {"d", "p", "q", "dp", "dq", "qi", "oth", "k"}
_OPERATIONS = ("encrypt", "wrapKey")  # those of a public key


class ReceiptError(SepuError):
    """The key or receipt is not accepted; the message says why."""


class Contents(msgspec.Struct, frozen=True, rename="camel"):
    """What a receipt holds."""

    account_id: str
    key_id: str
    api_key: str
    issued_at: datetime
    expires_at: datetime | None = None

    def __repr__(self) -> str:
        """Omits the key."""
        return f"Contents({self.key_id})"


PublicKey = RSAKey
"""What `public_key` returns."""


def new_private_key() -> RSAKey:
    """Makes a key pair, named by its thumbprint."""
    return RSAKey.generate_key(_BITS, {"use": "enc", "alg": _ALGORITHM}, auto_kid=True)


def private_key(text: bytes) -> RSAKey:
    """Reads the key pair of a JWK with its private part.

    Raises:
        ReceiptError: it is anything else.
    """
    members = _members(text)
    numbers = _public_numbers(members)
    if "d" not in members:
        raise ReceiptError("this JWK has no private part; the private key of the pair is needed")
    try:
        return RSAKey.import_key(
            {**{name: str(value) for name, value in members.items() if name in _PRIVATE}, **numbers}
        )
    except (JoseError, ValueError) as error:
        raise ReceiptError("this private JWK is damaged: its numbers do not fit together") from error


def public_key(text: bytes) -> RSAKey:
    """Reads the public key of a JWK, in its canonical form.

    Raises:
        ReceiptError: it is anything else, above all a private key.
    """
    members = _members(text)
    if members.keys() & _PRIVATE:
        raise ReceiptError(
            "this JWK holds a private key, which is no longer secret: "
            "its owner must create a new pair and send only the public part"
        )
    numbers = _public_numbers(members)
    operations = members.get("key_ops", list(_OPERATIONS))
    if not (isinstance(operations, list) and operations and all(each in _OPERATIONS for each in operations)):
        raise ReceiptError('this JWK is not for encryption: "key_ops" has something other than "encrypt" and "wrapKey"')
    return RSAKey.import_key(numbers)


def seal(contents: Contents, to: RSAKey) -> str:
    """Makes a receipt that only the private part of `to` opens; its header names that key by its thumbprint."""
    header = {"alg": _ALGORITHM, "enc": _ENCRYPTION, "kid": to.thumbprint()}
    return jwe.encrypt_compact(header, msgspec.json.encode(contents), to, algorithms=[_ALGORITHM, _ENCRYPTION])


def unseal(receipt: bytes, key: RSAKey) -> Contents:
    """Opens a receipt, ignoring whitespace in it.

    Raises:
        ReceiptError: it is damaged, was made for another key, or has no API key.
    """
    text = b"".join(receipt.split())
    if len(receipt) > _RECEIPT_BYTES or text.count(b".") != 4 or not text.startswith(b"eyJ"):
        raise ReceiptError("this is not a receipt: a receipt has five parts, separated by dots, and begins with eyJ")

    try:
        plain = jwe.decrypt_compact(text, key, algorithms=[_ALGORITHM, _ENCRYPTION]).plaintext
    except (JoseError, ValueError, TypeError) as error:  # the header may be any JSON
        if _names_another(text, key):
            raise ReceiptError("this receipt is for another key pair") from error
        raise ReceiptError("this receipt does not open: it is damaged, or for another key pair") from error
    try:
        contents = msgspec.json.decode(plain or b"", type=Contents)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ReceiptError("this receipt has no API key of sepu") from error
    if key_format.account_named_in(contents.api_key) != contents.account_id:
        raise ReceiptError("this receipt has no API key of sepu")
    return contents


def _members(text: bytes) -> dict[str, object]:
    if len(text) > _RECEIPT_BYTES:
        raise ReceiptError(f"this is not a JWK: it has more than {_RECEIPT_BYTES} bytes")
    try:
        return msgspec.json.decode(text, type=dict[str, object])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ReceiptError("this is not a JWK: it is not a JSON object") from error


def _public_numbers(members: dict[str, object]) -> dict[str, str | list[str]]:
    """Returns modulus and exponent in their canonical form: some programs write a zero before the modulus."""
    if members.get("kty") != "RSA":
        raise ReceiptError('this JWK is not an RSA key: "kty" is not "RSA"')
    if members.get("use", "enc") != "enc":
        raise ReceiptError('this JWK is not for encryption: "use" is not "enc"')
    if members.get("alg", _ALGORITHM) != _ALGORITHM:
        raise ReceiptError(f'this JWK is for another algorithm: "alg" is not "{_ALGORITHM}"')
    modulus, exponent = _integer(members, "n"), _integer(members, "e")
    if modulus.bit_length() != _BITS:
        raise ReceiptError(f"this RSA key has {modulus.bit_length()} bits; it must have {_BITS}")
    # The second gcd is 1 for a product of two large primes. The prime of a prime power divides both terms.
    if math.gcd(modulus, _SMALL_PRIMES) != 1 or math.gcd(pow(2, modulus, modulus) - 2, modulus) != 1:
        raise ReceiptError("this RSA key is damaged: its modulus is not the product of two large primes")
    if exponent != _EXPONENT:
        raise ReceiptError(f'this RSA key has an unusual exponent; "e" must be {_EXPONENT} (AQAB)')
    return {"kty": "RSA", "n": _base64(modulus), "e": _base64(exponent)}


def _integer(members: dict[str, object], name: str) -> int:
    value = members.get(name)
    try:
        if isinstance(value, str) and _BASE64.fullmatch(value):
            return int.from_bytes(urlsafe_b64decode(value + "=" * (-len(value) % 4)))
    except ValueError:
        pass
    raise ReceiptError(f'this JWK is damaged: "{name}" is not a number in base64url')


def _base64(number: int) -> str:
    return urlsafe_b64encode(number.to_bytes((number.bit_length() + 7) // 8)).decode().rstrip("=")


def _names_another(receipt: bytes, key: RSAKey) -> bool:
    """Returns whether the header names another key. For the message only: anyone may name keys freely."""
    try:
        header = msgspec.json.decode(urlsafe_b64decode(receipt.partition(b".")[0] + b"=="), type=dict[str, object])
    except (msgspec.DecodeError, ValueError, RecursionError):
        return False
    return header.get("kid", key.thumbprint()) != key.thumbprint()
