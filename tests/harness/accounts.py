"""Many accounts, found by number: each program with the seed derives the same keys."""

import secrets
from base64 import b32encode
from collections.abc import Iterable
from functools import cache
from hashlib import md5, sha256
from pathlib import Path

import psycopg

from sepu.admin.plans import set_plan
from sepu.metering.key_format import Credential, KeyTags

AMPLE = "load-ample"
MUCH = 2_000_000_000
# Separate from the ample ones, which count from 1.
SPENT_NUMBER, HELD_NUMBER, LIMITED_NUMBER = -1, -2, -3
PLANS = {
    SPENT_NUMBER: ("load-spent", 1, MUCH),  # its monthly quota is used up
    HELD_NUMBER: ("load-held", MUCH, 1),  # one request a minute
    LIMITED_NUMBER: ("load-limited", MUCH, 120),  # two a second
}

_DIGITS = str.maketrans("0189", "ghij")


def account_id(number: int) -> str:
    """64 bits of a hash, so that neighbours are as far apart as real accounts."""
    return md5(str(number).encode()).hexdigest()[:16].translate(_DIGITS)


def id_in_sql(number: str) -> str:
    """The same in SQL, for an expression."""
    return f"translate(substr(md5(cast({number} as text)), 1, 16), '0189', 'ghij')"


def hash_in_sql(number: str) -> str:
    """A second hash for each account, because pgbench cannot derive keys."""
    return f"sha256(convert_to({id_in_sql(number)}, 'UTF8'))"


def key_secret(seed: str) -> bytes:
    """The secret of the key tags in a load database."""
    return sha256(seed.encode()).digest()


@cache
def _tags(seed: str) -> KeyTags:
    return KeyTags(key_secret(seed))


@cache
def api_key(seed: str, number: int) -> str:
    """Anybody with the seed can derive all keys, so each state directory has its own."""
    secret = b32encode(sha256(f"{seed}/{number}".encode()).digest()).decode().rstrip("=").lower()
    return _tags(seed).tagged(f"sepu_{account_id(number)}_{secret}")


def holder(seed: str, number: int) -> Credential:
    """Returns the credential of an account's key."""
    found = _tags(seed).credential(api_key.__wrapped__(seed, number))
    assert found is not None
    return found


def seed_of(state_dir: Path) -> str:
    """The seed, created with the directory's first use."""
    path = state_dir / "load-seed"
    if not path.exists():
        path.touch(0o600)
        path.write_text(secrets.token_hex(16))
    return path.read_text()


def open_accounts(connection: psycopg.Connection, seed: str, number: int) -> None:
    """Adds ample accounts up to `number`, and those that are refused; the seed is the secret of the keys' tags."""
    connection.execute("update sepu.key_secret set secret = %s", [key_secret(seed)])
    for plan, units, requests in ((AMPLE, MUCH, MUCH), *PLANS.values()):
        set_plan(connection, plan, {"color_match": units, "color_search": units}, requests_per_minute=requests)
    ((there,),) = connection.execute("select count(*) from sepu.account where plan_id = %s", [AMPLE]).fetchall()
    with connection.transaction():
        if not there:
            for account, (plan, *_) in PLANS.items():
                copy_accounts(connection, seed, plan, [account])
            connection.execute(
                "insert into sepu.usage (account_id, period, meter, committed)"
                " select %s, to_char(now() at time zone 'UTC', 'YYYY-MM'), meter, 1"
                " from unnest(array['color_match', 'color_search']) meter",
                [account_id(SPENT_NUMBER)],
            )
        copy_accounts(connection, seed, AMPLE, range(there + 1, number + 1))


def copy_accounts(connection: psycopg.Connection, seed: str, plan: str, numbers: Iterable[int]) -> None:
    """Adds accounts of a plan, with two keys each."""
    cursor = connection.cursor()
    with cursor.copy("copy sepu.account (account_id, plan_id) from stdin") as copy:
        for number in numbers:
            copy.write_row((account_id(number), plan))
    with cursor.copy("copy sepu.api_key (account_id, key_hash, key_id) from stdin") as copy:
        for number in numbers:
            found = holder(seed, number)
            ident = found.account_id
            copy.write_row((ident, found.key_hash, f"{ident}-aaaaaaaa"))
            copy.write_row((ident, sha256(ident.encode()).digest(), f"{ident}-bbbbbbbb"))
