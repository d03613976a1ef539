"""Test keys: their holders, and made-up ones."""

from hashlib import sha256

import psycopg

from sepu.metering.key_format import Credential, KeyTags


def holder_of(api_key: str) -> Credential:
    """The holder, without a check of the key's tag."""
    return Credential(api_key.split("_")[1], sha256(api_key.encode()).digest())


def made_up_key(account_id: str) -> str:
    """A key of the right form, with the tag of another deployment."""
    return KeyTags(bytes(32)).new_key(account_id)


def admitted(connection: psycopg.Connection, api_key: str) -> str:
    holder = holder_of(api_key)
    admit = "select outcome from sepu.admit(%s, %s)"
    ((outcome,),) = connection.execute(admit, (holder.account_id, holder.key_hash)).fetchall()
    return str(outcome)
