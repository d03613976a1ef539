"""The meters: what we charge for. Code that handles every meter loops over `METERS`.

A new meter needs a line here, and a migration that gives each plan a limit for it (`sepu.plan_limit`).
"""

import re
from collections.abc import Iterable
from typing import Any

import msgspec


class Meter(msgspec.Struct, frozen=True):
    """One kind of usage. Each plan has a limit for it, and each account has one counter a month."""

    name: str
    """The name in the API, the database and the metrics."""
    operation: str
    """One word, used in the limit's names: `--match-limit` and `matchLimit`."""
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
        """Returns the units left; never negative, even if the limit was lowered."""
        return max(0, self.limit - self.committed - self.reserved)

    def as_dict(self) -> dict[str, str | int]:
        """Returns the API's UsageSnapshot."""
        # PERF: msgspec's `asdict` is slower, and every charge calls this.
        return {
            "period": self.period,
            "meter": self.meter,
            "limit": self.limit,
            "committed": self.committed,
            "reserved": self.reserved,
            "remaining": self.remaining,
        }


def is_month(text: str) -> bool:
    """Returns whether a string is a period: a UTC month such as 2027-01, from the year 1000 to 9989.

    Arithmetic on later months could pass 9999, the last year of Python's dates.
    """
    return re.fullmatch(r"(?!999)[1-9][0-9]{3}-(0[1-9]|1[0-2])", text) is not None


def usages(period: str, rows: Iterable[tuple[Any, ...]]) -> tuple[Usage, ...]:
    """Reads rows of meter, limit, committed and reserved: one usage for each meter, in the order of `METERS`.

    Leaves out meters that only a later release knows.

    Raises:
        KeyError: the plan has no limit for a meter.
    """
    found = {meter: Usage(period, meter, *rest) for meter, *rest in rows}
    return tuple([found[meter] for meter in METERS])
