"""Charges at an instant that the test chooses."""

from datetime import UTC, datetime, timedelta
from typing import LiteralString

from psycopg import Connection
from tests.keys import holder_of


def called_at(service: LiteralString, inner: LiteralString, at: datetime) -> LiteralString:
    """The function of the service, or the one behind it at an instant that the service's refuses."""
    return service if abs(at - datetime.now(UTC)) < timedelta(hours=23) else inner


def charge(
    connection: Connection,
    api_key: str,
    key: str,
    units: int,
    at: datetime,
    meter: str = "color_match",
    fingerprint: bytes = bytes(32),
    body: bytes = b"{}",
) -> None:
    """Calls the SQL function directly."""
    holder = holder_of(api_key)
    function = called_at("meter_request", "meter_one", at)
    ((outcome,),) = connection.execute(
        f"select outcome from sepu.{function}(%s, %s, %s, %s, %s, %s, %s, gen_random_uuid(), %s)",
        (holder.account_id, holder.key_hash, key, fingerprint, meter, units, body, at),
    ).fetchall()
    assert outcome == "charged"
