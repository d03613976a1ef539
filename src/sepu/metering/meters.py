"""The meters: what is charged. Everything with a part for each meter derives it from `METERS`.

A new meter needs a line here, and a migration that gives each plan a limit for it (`sepu.plan_limit`).
"""

import re
from collections.abc import Iterable
from typing import Any

import msgspec


class Meter(msgspec.Struct, frozen=True):
    """One kind of usage. Each plan has a limit for it, each account a counter a month."""

    name: str
    """In the interface, the database and the metrics."""
    operation: str
    """One word, for the names of the limit: `--match-limit` and `matchLimit`."""
    unit: str
    """What is counted, in the plural."""


METERS = {
    meter.name: meter
    for meter in (
        Meter("color_match", "match", "colours"),
        Meter("color_search", "search", "searches"),
    )
}


class Usage(msgspec.Struct, frozen=True):
    """One meter of one account in one period."""

    period: str
    meter: str
    limit: int
    committed: int
    reserved: int

    @property
    def remaining(self) -> int:
        """Returns the units left; never negative, even after the plan shrank."""
        return max(0, self.limit - self.committed - self.reserved)

    def as_dict(self) -> dict[str, str | int]:
        """Returns the interface's UsageSnapshot."""
        # PERF: msgspec's `asdict` takes longer, and each charge comes here.
        return {
            "period": self.period,
            "meter": self.meter,
            "limit": self.limit,
            "committed": self.committed,
            "reserved": self.reserved,
            "remaining": self.remaining,
        }


def is_month(text: str) -> bool:
    """Returns whether a text has the form of a period: a UTC month such as 2027-01, from the year 1000 to 9989.

    Python has no time after the year 9999.
    """
    return re.fullmatch(r"(?!999)[1-9][0-9]{3}-(0[1-9]|1[0-2])", text) is not None


def usages(period: str, rows: Iterable[tuple[Any, ...]]) -> tuple[Usage, ...]:
    """Reads rows of meter, limit, committed and reserved: one usage for each meter, in the order of `METERS`.

    A meter that only a later release knows is left out.

    Raises:
        KeyError: the plan has no limit for a meter.
    """
    found = {meter: Usage(period, meter, *rest) for meter, *rest in rows}
    return tuple([found[meter] for meter in METERS])
