"""Receipts, alone and with another implementation of JOSE; and invalid ones."""

import base64
import json
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from jwcrypto import jwe, jwk
from tests.keys import made_up_key

from sepu.admin import receipts
from sepu.admin.receipts import Contents, ReceiptError
from sepu.metering import key_format

ALGORITHMS = {"alg": "RSA-OAEP-256", "enc": "A256GCM"}


@pytest.fixture(scope="module")
def pair() -> dict[str, Any]:
    """A JWK key pair, made by the other implementation."""
    members: dict[str, Any] = jwk.JWK.generate(kty="RSA", size=3072).export(as_dict=True)
    return members


@pytest.fixture(scope="module")
def public(pair: dict[str, Any]) -> dict[str, Any]:
    return {name: pair[name] for name in ("kty", "n", "e")}


@pytest.fixture(scope="module")
def contents() -> Contents:
    account_id = key_format.new_account_id()
    key = made_up_key(account_id)
    return Contents(account_id, f"{account_id}-abcdefgh", key, datetime(2026, 1, 31, 12, 0, 0, 5, UTC), None)


def text(members: object) -> bytes:
    return json.dumps(members).encode()


def number(value: int, length: int) -> str:
    return base64.urlsafe_b64encode(value.to_bytes(length)).decode().rstrip("=")


def by_the_other(payload: object, pair: dict[str, Any], **header: object) -> bytes:
    token = jwe.JWE(text(payload), json.dumps({**ALGORITHMS, **header}), algs=list(ALGORITHMS.values()))
    token.add_recipient(jwk.JWK(**{name: pair[name] for name in ("kty", "n", "e")}))
    sealed: str = token.serialize(compact=True)
    return sealed.encode()


def payload_of(contents: Contents) -> dict[str, Any]:
    return {
        "accountId": contents.account_id,
        "keyId": contents.key_id,
        "apiKey": contents.api_key,
        "issuedAt": "2026-01-31T12:00:00.000005Z",
        "expiresAt": None,
    }


def refusal(act: Callable[..., object], *arguments: object) -> str:
    """The one-line reason."""
    with pytest.raises(ReceiptError) as caught:
        act(*arguments)
    message = str(caught.value)
    assert "\n" not in message
    assert len(message) < 150
    return message


def test_what_is_sealed_is_opened(pair: dict[str, Any], public: dict[str, Any], contents: Contents) -> None:
    to = receipts.public_key(text(public))
    sealed = receipts.seal(contents, to)
    assert receipts.unseal(sealed.encode(), receipts.private_key(text(pair))) == contents
    assert sealed != receipts.seal(contents, to), "and never twice the same"
    assert contents.api_key not in sealed
    header = json.loads(base64.urlsafe_b64decode(sealed.split(".")[0] + "=="))
    assert header == {**ALGORITHMS, "kid": jwk.JWK(**public).thumbprint()}


def test_another_implementation_opens_ours_with_a_pair_of_ours(contents: Contents) -> None:
    key = receipts.new_private_key()
    private, public = key.as_dict(private=True), key.as_dict()
    assert public == {name: private[name] for name in ("kty", "n", "e", "use", "alg", "kid")}
    other = jwk.JWK(**private)
    assert (other.get_op_key("decrypt").key_size, private["kid"]) == (3072, other.thumbprint())
    token = jwe.JWE(algs=list(ALGORITHMS.values()))
    token.deserialize(receipts.seal(contents, receipts.public_key(text(public))), other)
    assert json.loads(token.payload) == payload_of(contents)


def test_a_receipt_of_another_implementation_opens(pair: dict[str, Any], contents: Contents) -> None:
    headers: tuple[dict[str, object], ...] = ({}, {"kid": "of the customer's choice"}, {"typ": "JOSE", "cty": "json"})
    for header in headers:
        sealed = by_the_other(payload_of(contents), pair, **header)
        assert receipts.unseal(sealed, receipts.private_key(text(pair))) == contents


def test_line_breaks_of_a_mail_do_not_matter(pair: dict[str, Any], public: dict[str, Any], contents: Contents) -> None:
    sealed = receipts.seal(contents, receipts.public_key(text(public)))
    wrapped = "\r\n ".join(sealed[start : start + 76] for start in range(0, len(sealed), 76))
    assert receipts.unseal(f"\n{wrapped}\n".encode(), receipts.private_key(text(pair))) == contents


def test_nothing_shows_the_key(contents: Contents) -> None:
    assert contents.api_key not in f"{contents!r} {contents!s} {[contents]}"
    key = receipts.new_private_key()
    assert str(key.as_dict(private=True)["d"])[:20] not in f"{key!r} {key}"


def test_forms_of_a_public_key(public: dict[str, Any]) -> None:
    plain = receipts.public_key(text(public))
    modulus = int.from_bytes(base64.urlsafe_b64decode(public["n"]))
    for more in (
        {"use": "enc", "alg": "RSA-OAEP-256", "kid": "mine", "x-other": [1, {}]},
        {"ext": True, "key_ops": ["encrypt"], "alg": "RSA-OAEP-256"},  # as WebCrypto of browsers and Node exports it
        {"key_ops": ["wrapKey", "encrypt"]},
        {"n": number(modulus, 385), "e": number(65537, 4)},  # some write leading zeros
    ):
        found = receipts.public_key(text({**public, **more}))
        assert (found.as_dict(), found.thumbprint()) == (plain.as_dict(), plain.thumbprint())
    assert plain.thumbprint() == jwk.JWK(**public).thumbprint()


WRONG_USES: list[object] = [["encrypt", "verify"], ["decrypt"], [], "encrypt", [{}]]
OTHER_PUBLIC_KEYS: dict[str, list[dict[str, object]]] = {
    "not an RSA key": [{"kty": "EC"}, {"kty": None}, {"kty": ["RSA"]}],
    '"use" is not "enc"': [{"use": "sig"}, {"use": None}],
    '"alg" is not "RSA-OAEP-256"': [{"alg": "RSA-OAEP"}, {"alg": "RS256"}],
    '"key_ops"': [{"key_ops": wrong} for wrong in WRONG_USES],
    "unusual exponent": [{"e": number(3, 1)}, {"e": number(1, 1)}, {"e": number(65537 * 2, 3)}],
    '"e" is not a number': [{"e": ""}, {"e": 65537}, {"e": "AQAB="}],
    '"n" is not a number': [{"n": "A"}, {"n": "+/+/"}, {"n": "é"}, {"n": None}],
    "has 1 bits": [{"n": "AQ"}],
    "has 0 bits": [{"n": number(0, 384)}],
    "has 2048 bits; it must have 3072": [{"n": number(2**2047 + 1, 256)}],
    "has 3071 bits": [{"n": number(2**3070 + 1, 384)}],
    "has 3073 bits": [{"n": number(2**3072 + 1, 385)}],
    "two large primes": [  # the last one is a prime
        {"n": number(wrong, 384)} for wrong in (2**3071, 2**3072 - 1, 3 * (2**3071 // 3 | 1), 2**3072 - 47)
    ],
}


@pytest.mark.parametrize("reason", OTHER_PUBLIC_KEYS)
def test_other_public_keys_are_refused(public: dict[str, Any], reason: str) -> None:
    for change in OTHER_PUBLIC_KEYS[reason]:
        assert reason in refusal(receipts.public_key, text({**public, **change}))


def test_the_square_of_a_prime_is_refused(pair: dict[str, Any], public: dict[str, Any]) -> None:
    prime = int.from_bytes(base64.urlsafe_b64decode(pair["p"] + "=="))
    assert "two large primes" in refusal(receipts.public_key, text({**public, "n": number(prime**2, 384)}))


@pytest.mark.parametrize("member", ["d", "p", "q", "dp", "dq", "qi", "oth", "k"])
def test_a_private_part_is_refused_before_all_else(pair: dict[str, Any], public: dict[str, Any], member: str) -> None:
    secret = pair.get(member, "c2VjcmV0LXNlY3JldC1zZWNyZXQ")
    for around in (public, {}, {"kty": "EC"}, {"kty": "oct"}):
        message = refusal(receipts.public_key, text({**around, member: secret}))
        assert "holds a private key" in message
        assert secret[:8] not in message


def test_what_is_no_jwk_is_refused(public: dict[str, Any]) -> None:
    others = [b"", b"\xff\xfe", b"-----BEGIN PUBLIC KEY-----", b"[]", b"null", b'{"kty":"RSA"', b'{"kty":"\xff"}']
    for given in (*others, b"[" * 16000, b'{"a":' * 3000, b" " * 16385):
        assert "this is not a JWK" in refusal(receipts.public_key, given)
        assert "this is not a JWK" in refusal(receipts.private_key, given)
    assert "not an RSA key" in refusal(receipts.public_key, text({"keys": [public]}))  # a set


def test_a_private_key_may_lack_what_follows_from_the_rest(
    pair: dict[str, Any], public: dict[str, Any], contents: Contents
) -> None:
    short = receipts.private_key(text({**public, "d": pair["d"]}))
    assert receipts.unseal(by_the_other(payload_of(contents), pair), short) == contents


def test_other_private_keys_are_refused(pair: dict[str, Any], public: dict[str, Any]) -> None:
    assert "no private part" in refusal(receipts.private_key, text(public))
    small = jwk.JWK.generate(kty="RSA", size=2048).export(as_dict=True)
    assert "2048 bits" in refusal(receipts.private_key, text(small))
    assert "not an RSA key" in refusal(receipts.private_key, jwk.JWK.generate(kty="EC").export().encode())
    changes: list[dict[str, Any]] = [{"d": "AQ"}, {"d": pair["dp"]}, {"d": 5}, {"p": pair["q"]}, {"q": None}]
    changes += [{"qi": "?"}, {"oth": [{}]}]
    for change in changes:
        message = refusal(receipts.private_key, text({**pair, **change}))
        assert "damaged" in message
        assert pair["d"][:8] not in message
    del (lacking := dict(pair))["dq"]
    assert "damaged" in refusal(receipts.private_key, text(lacking))


def test_a_receipt_for_another_pair(pair: dict[str, Any], contents: Contents) -> None:
    mine = receipts.private_key(text(pair))
    theirs = receipts.new_private_key()
    assert refusal(receipts.unseal, receipts.seal(contents, theirs).encode(), mine) == (
        "this receipt is for another key pair"
    )
    unnamed = by_the_other(payload_of(contents), theirs.as_dict())
    assert "or for another key pair" in refusal(receipts.unseal, unnamed, mine)


def test_every_damage_is_noticed(pair: dict[str, Any], contents: Contents) -> None:
    mine = receipts.private_key(text(pair))
    sealed = receipts.seal(contents, mine)
    for place in range(0, len(sealed), 29):
        for damage in {"", "A", "B", "!", "é", "=", "."} - {sealed[place]}:
            message = refusal(receipts.unseal, (sealed[:place] + damage + sealed[place + 1 :]).encode(), mine)
            assert contents.api_key[:30] not in message
        refusal(receipts.unseal, sealed[:place].encode(), mine)
        refusal(receipts.unseal, sealed[place + 1 :].encode(), mine)


def test_other_algorithms_are_refused_though_they_would_open(pair: dict[str, Any], contents: Contents) -> None:
    mine = receipts.private_key(text(pair))
    for algorithms in ({"alg": "RSA-OAEP"}, {"enc": "A128GCM"}, {"enc": "A256CBC-HS512"}, {"zip": "DEF"}):
        header = {**ALGORITHMS, **algorithms}
        token = jwe.JWE(text(payload_of(contents)), json.dumps(header), algs=list(header.values()))
        token.add_recipient(jwk.JWK(**pair))
        assert "does not open" in refusal(receipts.unseal, token.serialize(compact=True).encode(), mine)


def test_a_receipt_of_something_else(pair: dict[str, Any], contents: Contents) -> None:
    mine = receipts.private_key(text(pair))
    good = payload_of(contents)
    wrong: list[dict[str, object]] = [{"apiKey": key} for key in ("hunter2", good["apiKey"][:-1] + "9", None)]
    wrong += [{"accountId": key_format.new_account_id()}, {"issuedAt": "yesterday"}]
    for payload in ({}, [], *(good | each for each in wrong)):
        message = refusal(receipts.unseal, by_the_other(payload, pair), mine)
        assert "no API key of sepu" in message
        assert "hunter2" not in message
