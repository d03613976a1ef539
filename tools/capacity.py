"""Computes the table of docs/capacity.md from measured figures and assumptions: `python -m tools.capacity`."""

from math import ceil

import click

# Measured: docs/develop/performance.md (100k-accounts on 32 connections) and docs/scaling.md.
SERVICE_SECONDS, POSTGRES_SECONDS = 84e-6, 152e-6  # of a core, per charge
UNBATCHED = 251 / 122  # of the service's time, without batches: match-1 on 1 connection, and on 32
# The same on Citus, where calls go one by one: tests/citus/cost.py prints both.
WORKER_SECONDS, COORDINATOR_SECONDS = 1200e-6, 260e-6
RESULT_BYTES, ACCOUNT_BYTES, COUNTER_BYTES, DAY_BYTES = 578, 768 + 563, 343, 233  # an account with its history
# A charge whose pages are cold; what the first use of its key on a day adds, and the account's first charge of a month.
WAL_BYTES = {"": (10_000, 8400, 11_300), "with `wal_compression = lz4`": (6900, 6100, 6200)}
# Assumed: docs/capacity.md says the same in words.
PEAK, BUSY, ROOM = 10, 0.5, 2
KEPT_DAYS, MONTH_DAYS = 90, 30
WARM_SECONDS, ACCOUNT_PAGES = 1800, 5
ONE_CORES, ONE_BYTES = 32, 16e12
CUSTOMERS = ((10_000, 3_000), (1_000_000, 10), (10_000_000, 10), (1_000_000, 3_000), (10_000_000, 3_000))


def capacity() -> str:
    """Returns the table, with a column for each of CUSTOMERS: accounts, and charges a month of each account."""
    columns = [_column(accounts, charges) for accounts, charges in CUSTOMERS]
    heads = ["accounts", *(f"{accounts:,}" for accounts, _ in CUSTOMERS)]
    rows = [[what, *(column[what] for column in columns)] for what in columns[0]]
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join(f"| {' | '.join(line)} |" if line[0] != "---" else f"|{'---|' * len(line)}" for line in lines)


def _wal(charges: int, charge: int, day: int, month: int) -> float:
    """Returns the bytes a day for one account."""
    return (charges * charge + min(charges, MONTH_DAYS) * day + month) / MONTH_DAYS


def _column(accounts: int, charges: int) -> dict[str, str]:
    average = accounts * charges / MONTH_DAYS / 86_400
    peak = PEAK * average
    stored = average * 86_400 * KEPT_DAYS
    size = stored * RESULT_BYTES + accounts * (ACCOUNT_BYTES + COUNTER_BYTES * KEPT_DAYS // MONTH_DAYS)
    postgres = ceil(peak * POSTGRES_SECONDS / BUSY)
    one_server = postgres <= ONE_CORES and size <= ONE_BYTES
    service = ceil(peak * SERVICE_SECONDS * (1 if one_server else UNBATCHED) / BUSY)
    workers, coordinator = (ceil(peak * seconds / BUSY) for seconds in (WORKER_SECONDS, COORDINATOR_SECONDS))
    clusters = "Citus" if coordinator <= ONE_CORES else "several Citus clusters"
    memory = min(accounts, peak * WARM_SECONDS) * ACCOUNT_PAGES * 8192
    return {
        "charges a month per account": f"{charges:,}",
        "charges a second, average": _rounded(average),
        "charges a second, busiest minute": _rounded(peak),
        "cores for the service": str(service),
        "cores for Postgres": str(postgres) if one_server else f"{workers}, plus {coordinator} for the coordinator",
        "memory for warm pages": _bytes(memory),
        "the database": _bytes(size),
        "disk, with headroom": _bytes(ROOM * size),
        "growth a day until the first prune": _bytes(average * 86_400 * RESULT_BYTES),
        "growth a year, from then on": _bytes(accounts * 12 * (COUNTER_BYTES + min(charges, MONTH_DAYS) * DAY_BYTES)),
        **{f"WAL a day {how}".strip(): _bytes(accounts * _wal(charges, *each)) for how, each in WAL_BYTES.items()},
        "database servers": "one Postgres" if one_server else clusters,
    }


def _rounded(number: float) -> str:
    """Rounds to two digits."""
    return f"{float(f'{number:.2g}'):,.0f}" if number >= 10 else f"{number:.2g}"


def _bytes(number: float) -> str:
    for unit, name in ((1e12, "TB"), (1e9, "GB")):
        if number >= unit:
            return f"{_rounded(number / unit)} {name}"
    return f"{_rounded(number / 1e6)} MB"


if __name__ == "__main__":
    click.echo(capacity())
