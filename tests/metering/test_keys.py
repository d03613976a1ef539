import hashlib
import hmac
import re
import secrets
import string
from base64 import b32decode

from hypothesis import given
from hypothesis import strategies as st
from tests.keys import made_up_key

from sepu.metering import key_format

ACCOUNT = "abcdefghij234567"
TAGS = key_format.KeyTags(bytes(range(32)))
CHARACTERS = string.ascii_letters + string.digits + "_- \n."


def test_all_have_their_form_and_no_two_are_alike() -> None:
    accounts, keys = {key_format.new_account_id() for _ in range(1000)}, {TAGS.new_key(ACCOUNT) for _ in range(1000)}
    assert (len(accounts), len(keys)) == (1000, 1000)
    assert all(re.fullmatch(r"[a-z2-7]{16}", account) for account in accounts)
    assert all(re.fullmatch(rf"sepu_{ACCOUNT}_[a-z2-7]{{52}}_[a-z2-7]{{8}}", key) for key in keys)


def test_every_substitution_and_transposition_of_one_key_is_caught() -> None:
    key = TAGS.new_key(ACCOUNT)
    for position, character in enumerate(key):
        for other in CHARACTERS:
            if other != character:
                assert TAGS.credential(key[:position] + other + key[position + 1 :]) is None
    for position in range(len(key) - 1):
        left, right = key[position], key[position + 1]
        if left != right:
            assert TAGS.credential(key[:position] + right + left + key[position + 2 :]) is None


def test_the_tag_is_an_hmac_of_what_stands_before_it() -> None:
    secret = secrets.token_bytes(32)
    payload, _, tag = key_format.KeyTags(secret).new_key(ACCOUNT).rpartition("_")
    assert b32decode(tag.upper()) == hmac.digest(secret, payload.encode(), "sha256")[:5]


def test_a_malformed_key_or_one_of_another_deployment_is_refused() -> None:
    key = TAGS.new_key(ACCOUNT)
    spoilt = [key.upper(), f"{key}\n", f" {key}", key[:-1], f"{key}a", key.replace("_", "-"), f"{key[:5]}ａ{key[6:]}"]
    spoilt += [key.replace("sepu_", "", 1), "", "sepu___", "\udc80", made_up_key(ACCOUNT)]
    assert [each for each in spoilt if TAGS.credential(each) is not None] == []
    assert key_format.account_named_in(made_up_key(ACCOUNT)) == ACCOUNT


@given(st.text())
def test_any_text_is_judged_without_an_error(text: str) -> None:
    assert TAGS.credential(text) is None
    assert key_format.account_of(text) is None


def test_a_credential_names_the_account_hashes_the_whole_key_and_shows_no_secret() -> None:
    key = TAGS.new_key(ACCOUNT)
    found = TAGS.credential(key)
    assert found == key_format.Credential(ACCOUNT, hashlib.sha256(key.encode()).digest())
    shown = f"{found!r} {found}"
    assert ACCOUNT in shown
    assert repr(found.key_hash) not in shown
    assert found.key_hash.hex() not in shown
    assert key not in shown


def test_a_message_shows_no_part_of_a_secret_however_the_key_is_cut() -> None:
    key = TAGS.new_key("q7c2mzfw4xk3n5ta")
    account, secret, tag = key.rsplit("_", 2)
    for length in range(1, len(secret) + len(tag) + 2):
        for shown in (key[: len(account) + 1 + length], f"{key[: len(account) + 1 + length]}ÄZ9_x"):
            assert key_format.without_keys(f"{shown!r} is no option") == f"'{account}_…' is no option"


def test_a_key_id_names_key_and_account() -> None:
    digest = bytes.fromhex("00443214c7") + bytes(27)  # its first eight letters in base 32
    assert key_format.Credential(ACCOUNT, digest).key_id == f"{ACCOUNT}-abcdefgh"
    assert key_format.account_of(f"{ACCOUNT}-abcdefgh") == ACCOUNT
    for malformed in (ACCOUNT, f"{ACCOUNT}-ABCDEFGH", f"{ACCOUNT}-abcdefg", f"{ACCOUNT}-abcdefgh\n", "-abcdefgh", ""):
        assert key_format.account_of(malformed) is None
