"""Counts what the ledger's statements cost in Postgres: instructions, buffers, and bytes of WAL.

A backend without a server (`postgres --single`) runs them under callgrind, each in its own transaction, once it has
cached their plans. The counts exclude sockets, processes, and what a checkpoint adds to the WAL.

For named figures it prints instead the instructions of each statement in the functions that they call.
"""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import count
from pathlib import Path
from typing import Any

from bench.load.stage import cluster, migrate, settle
from bench.recorded import MOST, SEED, charge, holder
from psycopg import sql
from tests.harness.accounts import open_accounts
from tests.harness.callgrind import command, dumps, environment, read, total

from sepu.database.embedded.programs import programs
from sepu.database.opening import connect, service_url
from sepu.metering.commands import Command, admit, read_usage

# Several commands are a batch.
CALLS: dict[str, Callable[[], list[Command[Any]]]] = {
    "charge": lambda: [charge(holder(1))],
    "replay": lambda: [charge(holder(1), "bench-replayed")],
    "16 charges in a batch": lambda: [charge(holder(number + 1)) for number in range(16)],
    "admission": lambda: [admit(holder(1))],
    "usage": lambda: [read_usage(holder(1))],
}
# The least run counts: once a second, a run also reports Postgres's statistics.
WARM_UP, RUNS, EXPLANATIONS = 10, 30, 3
_MARK = "select pg_backend_pid()"  # the function at which callgrind writes a file
# Before each statement of a function: its number in an uncounted run, a mark in a counted one.
_NUMBERED, _MARKED = "raise warning 'statement {}';", "assert pg_backend_pid() > 0;"
_NUMBER, _REACHED = (re.compile(text) for text in (r"raise warning '\w+ \d+';", r"WARNING:  statement (\d+)"))
DEFINITIONS = """select p.proname, pg_get_functiondef(p.oid)
  from pg_proc p join pg_language l on l.oid = p.prolang
 where p.pronamespace = 'sepu'::regnamespace and l.lanname = 'plpgsql' order by p.oid"""
_LABEL = 90  # characters
_SETTINGS = ("-c", "full_page_writes=off", "-c", "checkpoint_timeout=1d", "-c", "jit=off")
_EXPLAIN = "explain (analyze, buffers, wal, costs off, timing off, summary off, format json)"
EXPLAINED = {
    "buffers": re.compile(r'"Shared (?:Hit|Read) Blocks": (\d+)'),
    "WAL bytes": re.compile(r'"WAL Bytes": (\d+)'),
}


def _prepared(name: str, prepared: str) -> tuple[str, Callable[[], str]]:
    """Returns the statement that prepares a name's call, and a function that returns statements to execute it."""
    numbers = count(1)

    def execution() -> str:
        calls = CALLS[name]()
        columns = zip(*(call.parameters for call in calls), strict=True)
        values = calls[0].parameters if len(calls) == 1 else [list(column) for column in columns]
        return f"execute {prepared} ({', '.join(sql.Literal(value).as_string() for value in values)})"

    calls = CALLS[name]()
    text = calls[0].statement if len(calls) == 1 else str(calls[0].batch_statement)
    return f"prepare {prepared} as {re.sub('%s', lambda _: f'${next(numbers)}', text)}", execution


def _statements(name: str, prepared: str) -> Iterator[str]:
    """Yields the statements for one name: its preparation, and runs after a warm-up, each between two marks."""
    preparation, execution = _prepared(name, prepared)
    yield preparation
    yield from (execution() for _ in range(WARM_UP))
    yield _MARK
    for _ in range(RUNS):
        yield execution()
        yield _MARK
    yield from (f"{_EXPLAIN} {execution()}" for _ in range(EXPLANATIONS))


def _run(data: Path, statements: Sequence[str]) -> tuple[list[int], list[str]]:
    """Runs statements; returns the counts before each mark, and the explanations."""
    counts = data.with_name("counts")
    counts.mkdir()
    owner = data.stat()
    shutil.chown(counts, owner.st_uid, owner.st_gid)
    done = _postgres(data, statements, *command(counts, "--dump-before=pg_backend_pid"))
    found = [total(read(dump)) for dump in dumps(counts)]
    shutil.rmtree(counts)
    if not all(found):
        sys.exit("callgrind has counted no instructions in Postgres")
    # The root of a plan comes first, and includes the figures of all below it.
    return found, [re.split('"Plans"|"Planning"', part)[0] for part in done.stdout.split('QUERY PLAN = "')[1:]]


def _postgres(data: Path, statements: Sequence[str], *under: str) -> subprocess.CompletedProcess[str]:
    """Runs statements, under another program if one is given; returns what Postgres printed."""
    owner = data.stat()
    done = subprocess.run(
        (*under, str(programs() / "postgres"), "--single", "-j", "-D", str(data), *_SETTINGS, "postgres"),
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
    return done


def measure(data: Path) -> dict[str, float]:
    """Returns all figures."""
    statements = [_MARK] * (1 + RUNS)  # what a mark takes by itself
    for number, name in enumerate(CALLS):
        statements += _statements(name, f"s{number}")
    counts, plans = _run(data, statements)
    figures: dict[str, float] = {}
    # The preparation comes before the first mark of each.
    mark, *least = (min(counts[first + 1 : first + 1 + RUNS]) for first in range(0, len(counts), 1 + RUNS))
    for number, name in enumerate(CALLS):
        figures[f"SQL: {name}"] = least[number] - mark
        mine = plans[number * EXPLANATIONS : (number + 1) * EXPLANATIONS]
        for figure, pattern in EXPLAINED.items():
            figures[f"SQL: {name}, {figure}"] = min(sum(map(int, pattern.findall(plan))) for plan in mine)
    return figures


def numbered(name: str, definition: str, labels: list[str]) -> str:
    """Returns a function with a mark in front of each statement, whose number is that of its label."""
    lines, begun, ended = [], False, False
    for line in definition.splitlines():
        code = line.partition("--")[0].strip()
        if begun and ended and code and not re.match(r"(end|else|elsif|exception|when)\b", code):
            lines.append(_NUMBERED.format(len(labels)))
            labels.append(f"{name}: {code}"[:_LABEL])
        if code:
            begun = begun or code == "begin"
            ended = re.search(r"(;|\b(begin|then|else|loop))$", code) is not None
            lines.append(line)
    return "\n".join(lines)


def explain(data: Path, definitions: Sequence[tuple[str, str]], name: str) -> Counter[str]:
    """Returns what each statement takes in one run of a name, without its mark; nothing if two runs differed."""
    labels = ["(the call)", "(a mark)"]
    call, mark = map(_NUMBERED.format, range(2))
    between, (preparation, execution) = f"do $$begin {call} end$$", _prepared(name, "s")
    # Both runs have to reach the same statements, though one is slow: the window of an abuse limit must not end.
    longer = "update sepu.request_rate set window_start = now() + interval '59 seconds'"
    statements = [
        "set plan_cache_mode = force_generic_plan",  # as after many runs, which would take long here
        *(numbered(*definition, labels) for definition in definitions),
        f"do $$begin for i in 1..3 loop {mark} end loop; end$$",
        *(preparation, execution(), longer, execution(), longer, between, execution(), between),
    ]
    # Both begin with the same rows.
    plain, counted = (data.with_name(copy) for copy in ("plain", "counted"))
    for copy in (plain, counted):
        shutil.rmtree(copy, ignore_errors=True)
        subprocess.run(["cp", "--archive", data, copy], check=True)
    reached = [int(place) for place in _REACHED.findall(_postgres(plain, statements).stderr)]
    counts, _ = _run(counted, [_NUMBER.sub(_MARKED, statement) for statement in statements])
    if len(reached) != len(counts):
        return Counter()
    taken = list(zip(reached[:-1], counts[1:], strict=True))  # a count is of what was executed before its mark
    marking = taken[1][1]  # the first time, Postgres plans it
    first = reached.index(0)
    found: Counter[str] = Counter()
    for at, instructions in taken[first:]:
        found[labels[at]] += instructions - marking
    return found


def main(directory: str, wanted: str) -> None:
    """Runs a new Postgres, prints its address, and waits for a line; then prints what is wanted.

    `wanted` is `figures`, empty, or the names of figures, separated by `;`, whose statements it prints.
    """
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # raises, so that Postgres ends with it
    state = Path(directory)
    with cluster(state) as made:
        with connect(made.url) as owner:
            migrate(owner)
            open_accounts(owner, SEED, MOST)
            settle(owner, filled=False)
            owner.execute("alter system set autovacuum = off")  # it runs by the clock, and plans change with it
            owner.execute("select pg_reload_conf()")
            definitions = owner.execute(DEFINITIONS).fetchall()
        print(service_url(made.url), flush=True)
        if not sys.stdin.readline():
            sys.exit("the gate has ended")
    found: dict[str, Any] = {}
    if wanted == "figures":
        found = measure(state / "postgres")
    elif wanted:
        found = {name: explain(state / "postgres", definitions, name) for name in wanted.split(";")}
    print(json.dumps(found))


if __name__ == "__main__":
    main(*sys.argv[1:])
