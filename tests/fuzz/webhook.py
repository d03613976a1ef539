"""Hostile answers of an endpoint to the real deliverer of events: `make fuzz WHAT=webhook`.

A fault names its case as `SEED:NUMBER`, and `Hostile.of(SEED, NUMBER)` is what the endpoint did then.
"""

import re
import sys
import tempfile
import time
from base64 import b64encode
from collections import Counter
from pathlib import Path

import psycopg
from tests.fuzz.hostile_endpoint import Hostile, hostile_endpoint
from tests.fuzz.outcome import Outcome
from tests.processes import completed

from sepu.admin.events import list_events
from sepu.cli.database import connect, database

ROUND = 1000
SECRET = b64encode(b"a secret for the fuzz of webhooks").decode()
# The command itself, with less patience; what failed is not due again while it runs.
_DELIVER = """
import atexit, re
# Its own memory: getrusage(2) counts that of the process that started it, too.
peak = lambda: print(*re.findall(r"VmHWM:\\s+([0-9]+)", open("/proc/self/status").read()))
atexit.register(peak)
from sepu import limits
limits.WEBHOOK_SECONDS, limits.FIRST_RETRY_SECONDS = 8.0, 40000
from sepu.cli.main import main
main()
"""
_ERRORS = "HTTP [0-9]{3}|no answer in time|not reached: [A-Za-z]+"
_MOST_KIB = 200 << 10
_LETTERS = "abcdefghijklmnopqrstuvwxyz234567"


def round_(connection: psycopg.Connection, url: str, seed: int, cases: range) -> Outcome:
    """Lets the command deliver an event for each of these cases, every fourth of which is taken."""
    outcome = Outcome()
    by_account = {_account_id(case): case for case in cases}
    with hostile_endpoint(lambda event_id: _hostile(seed, by_account[event_id.partition(":")[0]])) as endpoint:
        _make_events(connection, list(by_account))
        with tempfile.NamedTemporaryFile(prefix="sepu-fuzz-") as secret_file:
            Path(secret_file.name).write_text(f"whsec_{SECRET}")
            done = completed(
                [
                    *(sys.executable, "-c", _DELIVER, "events", "deliver", "--once", "--url", endpoint.url),
                    *("--secret-file", secret_file.name, "--database-url", url),
                ],
                timeout=300,
            )
    if done.returncode != 0:
        outcome.faults.append(f"it ended with {done.returncode}: {done.stderr[-600:]}")
    line = re.compile(rf"sepu: ([a-z2-7]{{16}}):\S+: attempt 1: ({_ERRORS}); (again in \d+ s|it is dead; .*)")
    outcome.faults += [f"it says {said!r}" for said in done.stderr.splitlines() if not line.fullmatch(said)][:5]
    outcome.faults += [f"a secret in {done.stderr!r}"] * (SECRET in done.stderr)
    outcome.faults += [f"a redirect was followed: {request}" for request in endpoint.strange]
    for event in list_events(connection):
        case = by_account[event.account_id]
        times = endpoint.received[event.event_id]
        told = f"case {seed}:{case}: sent {times} times, {event.attempts} attempts, {event.state}: {event.last_error}"
        if _hostile(seed, case) is None:
            outcome.tried["good"] += 1
            if (times, event.attempts, event.state) != (1, 1, "delivered"):
                outcome.faults.append(f"a neighbour, {told}")
            continue
        outcome.tried["hostile"] += 1
        outcome.tried[f"hostile, {re.sub(' [0-9]+$|: .*', '', event.last_error or 'taken')}"] += 1
        recorded = event.state == "delivered" or re.fullmatch(_ERRORS, event.last_error or "")
        if (times, event.attempts) != (1, 1) or not recorded:
            outcome.faults.append(told)
    if not 0 < int(done.stdout) <= _MOST_KIB:
        outcome.faults.append(f"it took {done.stdout.strip()} KiB")
    return outcome


def fuzz(seconds: float, seed: int) -> Outcome:
    tried: Counter[str] = Counter()
    with (
        tempfile.TemporaryDirectory(prefix="sepu-fuzz-") as directory,
        database(None, Path(directory), create=True) as url,
        connect(url) as connection,
    ):
        end, first = time.monotonic() + seconds, 0
        while time.monotonic() < end:
            outcome = round_(connection, url, seed, range(first, first + ROUND))
            tried += outcome.tried
            if outcome.faults:
                return Outcome(tried, outcome.faults)
            first += ROUND
    return Outcome(tried)


def _hostile(seed: int, case: int) -> Hostile | None:
    return None if case % 4 == 0 else Hostile.of(seed, case)


def _account_id(case: int) -> str:
    return "".join(_LETTERS[case >> 5 * digit & 31] for digit in reversed(range(16)))


def _make_events(connection: psycopg.Connection, account_ids: list[str]) -> None:
    """An event of each account, and no others."""
    connection.execute("delete from sepu.quota_event")
    connection.execute(
        "insert into sepu.account (account_id, plan_id) select unnest(%s::text[]), 'standard'", (account_ids,)
    )
    connection.execute(
        "insert into sepu.quota_event (account_id, period, meter, threshold, unit_limit, committed, crossed_at) "
        "select unnest(%s::text[]), '2026-11', 'color_match', 80, 10, 8, now()",
        (account_ids,),
    )
    connection.execute(
        "insert into sepu.event_delivery (account_id, period, meter, threshold, unit_limit, due_at) "
        "select account_id, period, meter, threshold, unit_limit, now() from sepu.quota_event"
    )
