import hashlib
import re
import string

from hypothesis import given
from hypothesis import strategies as st

from sepu.metering import key_format

ACCOUNT = "abcdefghij234567"
CHARACTERS = string.ascii_letters + string.digits + "_- \n."


def test_form() -> None:
    account_id = key_format.new_account_id()
    assert re.fullmatch(r"[a-z2-7]{16}", account_id)
    assert re.fullmatch(rf"sepu_{account_id}_[a-z2-7]{{52}}_[a-z2-7]{{7}}", key_format.new_key(account_id))


def test_no_two_alike() -> None:
    assert len({key_format.new_key(ACCOUNT) for _ in range(1000)}) == 1000
    assert len({key_format.new_account_id() for _ in range(1000)}) == 1000


def test_the_credential_names_the_account_and_hashes_the_whole_key() -> None:
    key = key_format.new_key(key_format.new_account_id())
    assert key_format.credential(key) == key_format.Credential(key[5:21], hashlib.sha256(key.encode()).digest())


def test_every_substitution_and_transposition_of_one_key_is_caught() -> None:
    key = key_format.new_key(ACCOUNT)
    for position, character in enumerate(key):
        for other in CHARACTERS:
            if other != character:
                assert key_format.credential(key[:position] + other + key[position + 1 :]) is None
    for position in range(len(key) - 1):
        left, right = key[position], key[position + 1]
        if left != right:
            assert key_format.credential(key[:position] + right + left + key[position + 2 :]) is None


def test_malformed() -> None:
    key = key_format.new_key(ACCOUNT)
    for spoilt in (
        key.upper(),
        f"{key}\n",
        f" {key}",
        key[:-1],
        f"{key}a",
        key.replace("_", "-"),
        key.replace("sepu_", "", 1),
        f"{key[:5]}ａ{key[6:]}",
        "",
        "sepu___",
        "\udc80",
    ):
        assert key_format.credential(spoilt) is None


@given(st.text())
def test_any_text_is_judged_without_an_error(text: str) -> None:
    assert key_format.credential(text) is None
    assert key_format.account_of(text) is None


def test_a_credential_shows_no_secret() -> None:
    key = key_format.new_key(ACCOUNT)
    found = key_format.credential(key)
    assert found is not None
    shown = f"{found!r} {found}"
    assert ACCOUNT in shown
    assert repr(found.key_hash) not in shown
    assert found.key_hash.hex() not in shown
    assert key not in shown


def test_a_key_id_names_key_and_account() -> None:
    digest = bytes.fromhex("00443214c7") + bytes(27)  # of base 32 the first eight letters
    assert key_format.Credential(ACCOUNT, digest).key_id == f"{ACCOUNT}-abcdefgh"
    assert key_format.account_of(f"{ACCOUNT}-abcdefgh") == ACCOUNT
    for malformed in (ACCOUNT, f"{ACCOUNT}-ABCDEFGH", f"{ACCOUNT}-abcdefg", f"{ACCOUNT}-abcdefgh\n", "-abcdefgh", ""):
        assert key_format.account_of(malformed) is None
