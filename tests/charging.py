"""Charges at an instant that the test chooses."""

from datetime import datetime

from psycopg import Connection
from tests.keys import holder_of


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
    ((outcome,),) = connection.execute(
        "select outcome from sepu.meter_request(%s, %s, %s, %s, %s, %s, %s, gen_random_uuid(), %s)",
        (holder.account_id, holder.key_hash, key, fingerprint, meter, units, body, at),
    ).fetchall()
    assert outcome == "charged"
