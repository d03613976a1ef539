"""Counts what the ledger's statements cost in Postgres: instructions, buffers, and bytes of WAL.

A backend without a server (`postgres --single`) runs them under callgrind, each in a transaction of its own, after it
has kept their plans. Sockets and processes are not in the counts, nor what a checkpoint adds to the WAL.
"""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import count
from pathlib import Path
from typing import Any

import psycopg
from bench.gate.callgrind import command, dumps, environment, total
from bench.gate.disturbance import Disturbance, begin
from bench.load.holders import open_accounts
from bench.load.stage import cluster, migrate, settle
from bench.recorded import MOST, SEED, charge, holder
from psycopg import sql

from sepu.cli.database import connect, service_url
from sepu.metering.commands import Command, admit, find_key, read_usage

# Several commands are a batch.
CALLS: dict[str, Callable[[], list[Command[Any]]]] = {
    "charge": lambda: [charge(holder(1))],
    "replay": lambda: [charge(holder(1), "bench-replayed")],
    "16 charges in a batch": lambda: [charge(holder(number + 1)) for number in range(16)],
    "admission": lambda: [admit(holder(1))],
    "usage": lambda: [read_usage(holder(1))],
    "look-up of a key": lambda: [find_key(holder(1), None)],
}
# The least of the runs counts: once a second one also passes Postgres's statistics on.
WARM_UP, RUNS, EXPLANATIONS = 10, 30, 3
_MARK = "select pg_backend_pid()"  # the function at which callgrind writes a file
# Each request calls the last version of this function; the proof makes it slower.
_SEAM = """select pg_get_functiondef(oid) from pg_proc where proname ~ '^authenticate(_v[0-9]+)?$'
           order by length(proname) desc, proname desc limit 1"""
_TURNS = 100_000
_SETTINGS = ("full_page_writes=off", "checkpoint_timeout=1d", "jit=off")
_EXPLAIN = "explain (analyze, buffers, wal, costs off, timing off, summary off, format json)"
EXPLAINED = {
    "buffers": re.compile(r'"Shared (?:Hit|Read) Blocks": (\d+)'),
    "WAL bytes": re.compile(r'"WAL Bytes": (\d+)'),
}


def _statements(name: str, prepared: str) -> Iterator[str]:
    """Yields the statements for one name: its preparation, and runs after a warm-up, each between two marks."""
    numbers = count(1)

    def execution() -> str:
        calls = CALLS[name]()
        columns = zip(*(call.parameters for call in calls), strict=True)
        values = calls[0].parameters if len(calls) == 1 else [list(column) for column in columns]
        return f"execute {prepared} ({', '.join(sql.Literal(value).as_string() for value in values)})"

    calls = CALLS[name]()
    text = calls[0].statement if len(calls) == 1 else str(calls[0].joined_statement)
    yield f"prepare {prepared} as {re.sub('%s', lambda _: f'${next(numbers)}', text)}"
    yield from (execution() for _ in range(WARM_UP))
    yield _MARK
    for _ in range(RUNS):
        yield execution()
        yield _MARK
    yield from (f"{_EXPLAIN} {execution()}" for _ in range(EXPLANATIONS))


def _run(data: Path, programs: Path, statements: Sequence[str]) -> tuple[list[int], list[str]]:
    """Runs statements; returns the counts before each mark, and the explanations."""
    counts = data.with_name("counts")
    counts.mkdir()
    owner = data.stat()
    shutil.chown(counts, owner.st_uid, owner.st_gid)
    settings = [word for setting in _SETTINGS for word in ("-c", setting)]
    postgres = (str(programs / "postgres"), "--single", "-j", "-D", str(data), *settings, "postgres")
    done = subprocess.run(
        command(f"{counts}/callgrind", "pg_backend_pid", *postgres),
        env=environment(LAYOUT=os.environ["LAYOUT"]),
        user=owner.st_uid,
        group=owner.st_gid,
        extra_groups=[] if os.geteuid() == 0 else None,  # only root may change them
        cwd="/",
        input="".join(f"{statement};\n\n" for statement in statements),
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode or "ERROR" in done.stderr:
        sys.exit(next((line for line in done.stderr.splitlines() if "ERROR" in line), done.stderr))
    found = [total(dump) for dump in dumps(f"{counts}/callgrind")]
    shutil.rmtree(counts)
    if not all(found):
        sys.exit("callgrind has counted no instructions in Postgres")
    # The root of a plan comes first, and has the figures of all below it.
    return found, [re.split('"Plans"|"Planning"', part)[0] for part in done.stdout.split('QUERY PLAN = "')[1:]]


def seam(owner: psycopg.Connection) -> str:
    """Returns the definition of the function that the proof makes slower."""
    [(definition,)] = owner.execute(_SEAM).fetchall()
    return str(definition)


def slower(definition: str, turns: int) -> str:
    """Returns the function, made slower by a loop; without blank lines, at which a statement ends."""
    head, begun, body = definition.partition("\nbegin\n")
    return f"{head}{begun}for i in 1..{turns} loop null; end loop;\n{body}".rstrip().replace("\n\n", "\n")


def measure(state: Path, programs: Path, disturbed: Disturbance, slowed: str) -> dict[str, float]:
    """Returns all figures; with a slowdown, of each statement made slower by that share."""

    def run(data: Path, turns: Mapping[str, int]) -> dict[str, float]:
        statements = [_MARK] * (1 + RUNS)  # what a mark takes by itself
        for number, name in enumerate(CALLS):
            if turns:
                statements.append(slower(slowed, turns[name]))
            statements += _statements(name, f"s{number}")
        counts, plans = _run(data, programs, statements)
        figures: dict[str, float] = {}
        # Before the first mark of each is its preparation.
        mark, *least = (min(counts[first + 1 : first + 1 + RUNS]) for first in range(0, len(counts), 1 + RUNS))
        for number, name in enumerate(CALLS):
            figures[f"SQL: {name}"] = least[number] - mark
            mine = plans[number * EXPLANATIONS : (number + 1) * EXPLANATIONS]
            for figure, pattern in EXPLAINED.items():
                figures[f"SQL: {name}, {figure}"] = min(sum(map(int, pattern.findall(plan))) for plan in mine)
        return figures

    data, copy = state / "postgres", state / "copy"
    if not disturbed.slowdown:
        return run(data, {})
    loop = f"do $$ begin for i in 1..{_TURNS} loop null; end loop; end $$"
    subprocess.run(["cp", "--archive", data, copy], check=True)
    (_, total), _ = _run(copy, programs, [_MARK, loop, _MARK])
    without = run(copy, dict.fromkeys(CALLS, 0))  # a function that has been replaced takes more or less by itself

    def turns(name: str) -> int:
        more = disturbed.known[f"SQL: {name}"] * (1 + disturbed.slowdown) - without[f"SQL: {name}"]
        return round(more / total * _TURNS / len(CALLS[name]()))

    return run(data, {name: turns(name) for name in CALLS})


def main(directory: str, counts: str, disturbance: str) -> None:
    """Runs a new Postgres, prints its address, and waits for a line; then prints the figures if they are wanted."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # raises, so that Postgres ends with it
    disturbed, state = begin(disturbance), Path(directory)
    with cluster(state) as made:
        with connect(made.url) as owner:
            migrate(owner)
            open_accounts(owner, SEED, MOST)
            settle(owner, filled=False)
            owner.execute("alter system set autovacuum = off")  # it comes by the clock, and plans change with it
            owner.execute("select pg_reload_conf()")
            slowed = seam(owner)
        print(service_url(made.url), flush=True)
        if not sys.stdin.readline():
            sys.exit("the gate has ended")
        programs = made.programs
    print(json.dumps(measure(state, programs, disturbed, slowed) if counts else {}))


if __name__ == "__main__":
    main(*sys.argv[1:])
