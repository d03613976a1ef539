"""Makes new requests, for the benchmarks that have a database."""

import itertools

from sepu.metering.commands import Charge, Command, Metered, meter_request
from sepu.metering.keys import Credential

BODY = b'{"datasetVersion":"1.0.0","results":[' + b"x" * 300 + b"]}"
_NUMBERS = itertools.count()


def new_key() -> str:
    """Returns an idempotency key that nobody has used."""
    return f"bench-{next(_NUMBERS):09}"


def charge(holder: Credential, key: str | None = None) -> Command[Metered]:
    return meter_request(holder, key or new_key(), Charge("color_match", 1, bytes(32), BODY))
