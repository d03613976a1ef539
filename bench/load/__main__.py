"""`python -m bench.load`: the service under load, with its floors, in one run. `make load` runs most scenarios."""

import argparse
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import replace
from datetime import UTC, datetime
from itertools import product
from multiprocessing import get_context
from pathlib import Path
from secrets import token_hex
from statistics import linear_regression
from typing import Any, NamedTuple

import psutil
from bench import machine
from bench.load import callers, client, report
from bench.load.client import Job, held, measure
from bench.load.figures import Figures, Sample
from bench.load.floor import pgbench
from bench.load.neighbours import CASES, MANY, beside
from bench.load.replica import replicated, wrong
from bench.load.report import PHYSICAL_LIMIT, Cell, Target, Who
from bench.load.scenarios import ACCOUNTS, SCENARIOS, SKEW, Scenario, bare_insert, first_executions, pgbench_scripts
from bench.load.stage import EMPTY, FILLED, Cluster, cluster, constant, fill, scans, settings_of, settle, warm
from tests.harness.accounts import api_key
from tests.harness.serving import SEPU, Server, serving

from sepu import limits
from sepu.database.opening import connect
from sepu.server.cores import default_workers

OUT = Path("build/load")
OPEN_CONNECTIONS = 128
OPEN_SHARE = 0.5  # of what the closed loop reached
FLAT_KIB = 2048  # that a worker may grow in a million requests, while allocators settle


class Measuring:
    """Measures things in turns, round by round, because the machine is never quiet for long."""

    def __init__(
        self, address: str, made: Cluster | None = None, url: str = "", master: int = 0, key: str = ""
    ) -> None:
        self.address, self._made, self._url, self._key = address, made, url, key
        self._watched = {"Postgres": made.postmaster} if made else {}
        if master:
            self._watched["workers"] = master
        self.about: dict[str, object] = {}  # of the database
        self.samples: dict[Cell, list[Sample]] = {}
        self.stored: dict[str, int] = {}  # by run, how many answers the ledger must have at least

    @property
    def made(self) -> Cluster:
        assert self._made is not None
        return self._made

    def beside_floor(self, scenario: Scenario, connections: int, seconds: float, name: str = "") -> None:
        """One round of both; the floor first."""
        name = name or scenario.name
        if self._made is not None:
            token = _run()
            if scenario.replays:
                with connect(self._url) as service:
                    service.execute(first_executions(scenario, token).encode())
            scripts = pgbench_scripts(scenario, token)
            self.add(Cell(name, connections, "pgbench"), pgbench(self._url, scripts, connections, seconds))
        self.served(scenario, connections, seconds, name)

    def served(self, scenario: Scenario, connections: int, seconds: float, name: str) -> None:
        """One round of the service alone."""
        job = self._job(scenario, connections, seconds)
        sample = measure(job)
        self.stored[job.run] = sample.right
        self.add(Cell(name, connections, "sepu"), sample)

    def physical_limit(self, constant: str, seconds: float) -> None:
        """One round of both its parts, on one connection; the owner inserts, without rights or functions."""
        inserted = pgbench(self.made.owner_url(EMPTY), bare_insert(_run()), 1, seconds)
        self.add(Cell(PHYSICAL_LIMIT, 1, "pgbench"), inserted)
        job = replace(self._job(SCENARIOS["library"], 1, seconds), address=constant, watched={})
        self.add(Cell(PHYSICAL_LIMIT, 1, "constant"), measure(job))

    def open_loop(self, scenario: Scenario, rate: float, seconds: float, reloads: int = 0) -> None:
        """One round at a fixed rate; a master's workers can be replaced during it."""
        job = replace(self._job(scenario, OPEN_CONNECTIONS, seconds), rate=rate, reloads=reloads)
        self.add(Cell(scenario.name, OPEN_CONNECTIONS, "sepu, open loop"), measure(job))

    def figures(self) -> dict[Cell, Figures]:
        return {cell: Figures.of(samples) for cell, samples in self.samples.items()}

    def _job(self, scenario: Scenario, connections: int, seconds: float) -> Job:
        seed = self._made.seed if self._made else ""
        return Job(self.address, scenario, connections, seed, _run(), seconds, key=self._key, watched=self._watched)

    def add(self, cell: Cell, sample: Sample) -> None:
        self.samples.setdefault(cell, []).append(sample)


@contextmanager
def _service(given: argparse.Namespace, accounts: int = ACCOUNTS) -> Iterator[tuple[Measuring, Server]]:
    """Runs the service on an empty database."""
    with cluster(given.state_dir) as made:
        url = made.make_empty(accounts)
        with serving("uvloop", url, workers=given.workers) as server, connect(made.owner_url(EMPTY)) as owner:
            measuring = Measuring(server.address, made, url, server.process.pid)
            measuring.about |= settings_of(owner)
            yield measuring, server


def _rounds(given: argparse.Namespace, *each: Iterable[Any]) -> Iterator[tuple[Any, ...]]:
    """Yields what each round measures, and prints it."""
    for number, what in product(range(given.rounds), product(*each)):
        _progress(f"round {number + 1} of {given.rounds}: {', '.join(str(getattr(one, 'name', one)) for one in what)}")
        yield what


def run(given: argparse.Namespace) -> None:
    """Runs all scenarios, or some, each with its floor; with --url HOST:PORT against a running server, without floors.

    That server charges --key ($SEPU_API_KEY). --rate is the open loop's.
    """
    scenarios: list[Scenario] = given.scenarios
    if given.url and not given.key:
        sys.exit("--url needs a --key")
    with ExitStack() as stack:
        if given.url:
            measuring = Measuring(given.url, key=given.key)
        else:
            measuring, _ = stack.enter_context(_service(given, max(scenario.accounts for scenario in scenarios)))
            floor = stack.enter_context(constant(given.workers))
        for number in range(given.rounds):
            for connections, scenario in product(given.connections, scenarios):
                _progress(f"round {number + 1} of {given.rounds}: {scenario.name}, {connections} connections")
                measuring.beside_floor(scenario, connections, given.seconds)
            if not given.url:
                measuring.physical_limit(floor.address, given.seconds)
        many = max(given.connections)
        for scenario in [one for one in scenarios if one.name in {"match-1", "mixed"}]:
            closed = Figures.of(measuring.samples[Cell(scenario.name, many, "sepu")])
            for _ in _rounds(given, [f"open loop of {scenario.name}"]):
                measuring.open_loop(scenario, given.rate or OPEN_SHARE * closed.rate, given.seconds)
        if not given.url:
            with connect(measuring.made.owner_url(EMPTY)) as owner:
                measuring.about["scans"] = scans(owner)
    _conclude(given, measuring, report.targets(measuring.figures()))


def growth(given: argparse.Namespace) -> None:
    """Compares a filled database, which is made if it is missing, with an empty one."""
    both = Measuring("")
    with ExitStack() as stack:
        made = stack.enter_context(cluster(given.state_dir))
        started = time.monotonic()
        filled = made.prepare(FILLED, given.accounts, given.results)
        seconds = time.monotonic() - started
        with connect(made.owner_url(FILLED)) as owner:
            ((size,),) = owner.execute("select pg_size_pretty(pg_database_size(current_database()))").fetchall()
            print(f"{FILLED}, which is kept until it is dropped: {size}, made in {seconds:.0f} s")
            _progress("reading the filled database once")
            warm(owner)
            both.about |= settings_of(owner)
            ((many,),) = owner.execute("select count(*) from sepu.account where plan_id = 'load-ample'").fetchall()
        sides: dict[str, tuple[Measuring, Scenario]] = {}
        for kind, url, accounts in (("empty", made.make_empty(ACCOUNTS), ACCOUNTS), ("filled", filled, many)):
            server = stack.enter_context(serving("uvloop", url, workers=given.workers))
            measuring = Measuring(server.address, made, url, server.process.pid)
            measuring.samples = both.samples
            sides[kind] = measuring, replace(SCENARIOS["match-1"], accounts=accounts)
        for connections, kind in _rounds(given, given.connections, sides):
            measuring, scenario = sides[kind]
            measuring.beside_floor(scenario, connections, given.seconds, kind)
    figures = both.figures()

    def grown(who: Who, many: int) -> float:
        return figures[Cell("filled", many, who)].p50 / figures[Cell("empty", many, who)].p50

    text = "p50 filled ÷ empty, ÷ pgbench's"
    targets = [
        Target(f"{report.on(many)}: {text}", grown("sepu", many) / grown("pgbench", many), 1.05)
        for many in given.connections
    ]
    _conclude(given, both, targets)


def skew(given: argparse.Namespace) -> None:
    """Zipf-distributed accounts, two nodes, a synchronous standby; compared with pgbench on that pair."""
    with ExitStack() as stack:
        made = stack.enter_context(cluster(given.state_dir))
        url, standby = stack.enter_context(replicated(made, ACCOUNTS))
        nodes = [stack.enter_context(serving("uvloop", url, workers=given.workers)) for _ in range(2)]
        measuring = Measuring(",".join(node.address for node in nodes), made, url)
        for (connections,) in _rounds(given, given.connections):
            measuring.beside_floor(SKEW, connections, given.seconds)
        with connect(made.owner_url(EMPTY)) as owner:
            found = wrong(owner, standby, measuring.stored)
            measuring.about |= {**settings_of(owner), **found}
    targets = report.skew_targets(measuring.figures())
    _conclude(given, measuring, targets + [Target(what, count, 0) for what, count in found.items()])


def connections(given: argparse.Namespace) -> None:
    """Measures a few active connections while many others are open."""
    each: list[float] = []  # bytes of a connection, before any memory is reused
    refused = 0
    with _service(given) as (measuring, server):

        def private() -> int:
            return sum(Held.by(pid).private for pid in server.workers())

        for (number,) in _rounds(given, (given.active, given.open)):
            idle, before = number - given.active, private()
            with held(server.address, idle) as opened:
                if idle and not each and opened:
                    each.append(1024 * (private() - before) / opened)
                refused += idle - opened
                measuring.served(SCENARIOS["match-1"], given.active, given.seconds, f"{number} open")
    measuring.about["connections refused"] = refused
    figures = measuring.figures()
    few, many = (figures[Cell(f"{number} open", given.active, "sepu")].p50 for number in (given.active, given.open))
    targets = [
        Target(f"p50 with {given.open:,} open ÷ with {given.active}", many / few, 1.1),
        Target("KiB of a connection", each[0] / 1024, 12),
        Target("connections refused", refused, 0),
        report.no_errors(figures),
    ]
    _conclude(given, measuring, targets)


def cold(given: argparse.Namespace) -> None:
    """Compares the first requests of a new worker with those of a warm one."""
    measuring = Measuring("")
    with cluster(given.state_dir) as made:
        url = made.make_empty(ACCOUNTS)
        with connect(made.owner_url(EMPTY)) as owner:
            measuring.about |= settings_of(owner)
        for (many,) in _rounds(given, given.connections):
            with serving("uvloop", url, workers=1) as server:
                for name, warm_up in (("first", 0.0), ("warm", client.WARM_UP_SECONDS)):
                    job = Job(server.address, SCENARIOS["match-1"], many, made.seed, _run(), requests=given.requests)
                    measuring.add(Cell(name, many, "sepu"), measure(replace(job, warm_up=warm_up)))
    measuring.samples = {cell: [Sample.pooled(samples)] for cell, samples in measuring.samples.items()}
    text = f"p99 of the first {given.requests:,} requests ÷ of later ones"
    _conclude(given, measuring, report.ratios_of_p99(measuring.figures(), text, "first", "warm", 3))


def reload(given: argparse.Namespace) -> None:
    """Compares an open loop while all workers are replaced with one while they stay."""
    with _service(given) as (measuring, server):
        scenario = SCENARIOS["match-1"]
        measuring.served(scenario, 32, given.seconds, "closed loop")
        rate = given.rate or OPEN_SHARE * Figures.of(measuring.samples[Cell("closed loop", 32, "sepu")]).rate
        for (name,) in _rounds(given, ("steady", "reloading")):
            before, master = set(server.workers()), server.process.pid if name == "reloading" else 0
            measuring.open_loop(replace(scenario, name=name), rate, given.seconds, master)
            if master and (before & set(server.workers()) or len(server.workers()) != given.workers):
                sys.exit("the workers were not replaced within the round; use more --seconds")
    figures = measuring.figures()
    steady, reloading = (figures[Cell(name, OPEN_CONNECTIONS, "sepu, open loop")] for name in ("steady", "reloading"))
    targets = [
        Target("p99 while workers are replaced ÷ steady", reloading.p99 / steady.p99, 2),
        Target("errors", sum(reloading.errors.values()), 0),
    ]
    _conclude(given, measuring, targets)


def clients(given: argparse.Namespace) -> None:
    """Compares `sepu_client` with a raw socket and other HTTP clients, by one account's matches."""
    with _service(given) as (measuring, server):
        key = api_key(measuring.made.seed, 1)
        for number, who in _rounds(given, given.connections, callers.CALLERS):
            calling = callers.Calling(who, server.address, key, number, given.seconds)
            measuring.add(Cell("client", number, who), callers.measure(calling))
    figures = measuring.figures()
    _conclude(given, measuring, report.caller_targets(figures), report.called(figures))


def neighbours(given: argparse.Namespace) -> None:
    """Measures a customer on one connection during floods."""
    floods: dict[Cell, Counter[str]] = {}
    sides: tuple[Who, Who] = ("beside /healthz", "beside it")
    with _service(given, MANY) as (measuring, server):
        for (case,) in _rounds(given, CASES):
            with measuring.made.slow_commits() if case.slow_commits else nullcontext():
                for who, asks in zip(sides, (None, case.asks), strict=True):
                    flood, seed = replace(case, asks=asks), measuring.made.seed
                    sample, answers = beside(flood, server.address, seed, _run(), given.seconds)
                    cell = Cell(case.name, case.connections, who)
                    measuring.add(cell, sample)
                    floods[cell] = floods.get(cell, Counter()) + answers
    heads = ["scenario", "who", "what the flood was answered"]
    rows = [
        [cell.scenario, cell.who, ", ".join(f"{count:,} × {status}" for status, count in answers.most_common())]
        for cell, answers in floods.items()
    ]
    figures = measuring.figures()
    text = f"{report.measured(figures)}\n\n{report.table(heads, rows)}"
    _conclude(given, measuring, report.neighbours_targets(figures), text)


def prune(given: argparse.Namespace) -> None:
    """Matches while `sepu prune` deletes results past their retention."""
    with ExitStack() as stack:
        made = stack.enter_context(cluster(given.state_dir))
        _progress(f"storing {given.results:,} results")
        url = made.make_empty(ACCOUNTS)
        with connect(made.owner_url(EMPTY)) as owner:
            fill(owner, given.results // ACCOUNTS, days=2 * limits.retention.DAYS)
            settle(owner, filled=True)
        server = stack.enter_context(serving("uvloop", url, workers=given.workers))
        measuring = Measuring(server.address, made, url, server.process.pid)
        command = (SEPU, "prune", "--database-url", made.owner_url(EMPTY))
        for (connections,) in _rounds(given, given.connections):
            measuring.served(SCENARIOS["match-1"], connections, given.seconds, "before")
            with subprocess.Popen(command, stdout=subprocess.DEVNULL) as pruning:
                measuring.served(SCENARIOS["match-1"], connections, given.seconds, "pruning")
                if pruning.poll() is not None:
                    sys.exit("the prune ended before the round; use more --results")
                pruning.terminate()
        with connect(made.owner_url(EMPTY)) as owner:
            ((pruned,),) = owner.execute("select sum(pruned)::bigint from sepu.usage").fetchall()
            measuring.about |= {**settings_of(owner), "results pruned": pruned}
    figures = measuring.figures()
    ratios = report.ratios_of_p99(figures, "p99 while a prune runs ÷ before", "pruning", "before", 2)
    text = f"{report.measured(figures)}\n\n{pruned:,} results pruned"
    _conclude(given, measuring, [*ratios, report.no_errors(figures)], text)


def soak(given: argparse.Namespace) -> None:
    """Many requests in a closed loop, watching what the workers hold."""
    points: list[tuple[float, list[Held], int]] = []  # seconds, what each worker has, connections
    scenario, [connections] = SCENARIOS["mixed"], given.connections
    with _service(given, scenario.accounts) as (measuring, server), connect(measuring.made.owner_url(EMPTY)) as owner:
        while len(pids := server.workers()) < given.workers:  # the first makes the server ready
            time.sleep(0.1)
        job = Job(server.address, scenario, connections, measuring.made.seed, _run(), requests=given.requests)
        started = time.monotonic()
        with ProcessPoolExecutor(1, get_context("spawn")) as pool:
            running = pool.submit(client.run, job)
            while not running.done():
                time.sleep(1)
                ((sessions,),) = owner.execute(
                    "select count(*) from pg_stat_activity where usename = 'sepu_service' and datname = %s", [EMPTY]
                ).fetchall()
                points.append((time.monotonic() - started, [Held.by(pid) for pid in pids], sessions))
            sample = running.result()
        measuring.about["scans"] = scans(owner)
        same = server.workers() == pids
    settled = points[len(points) // 4 :]  # caches and allocators fill up first
    instants = [seconds for seconds, _, _ in settled]
    per_million = sample.seconds / given.requests * 1e6
    rows, found = [], []
    for place, pid in enumerate(pids):
        kib = linear_regression(instants, [held[place].kib for _, held, _ in settled]).slope * per_million
        first, middle, last = (held[place] for _, held, _ in (points[0], settled[0], points[-1]))
        sizes = [f"{held.kib:,} ({held.private:,})" for held in (first, middle, last)]
        rows.append([str(pid), *sizes, f"{kib:+,.0f}", f"{first.files} → {last.files}"])
        found.append(Target(f"worker {place + 1}: KiB more in a million requests", kib, FLAT_KIB))
    heads = ["worker", "first KiB (private)", "after a quarter", "last", "slope, KiB a million requests", "files"]
    text = report.table(heads, rows)
    text += f"\n\n{given.requests:,} requests in {sample.seconds:.0f} s; errors: {dict(sample.errors) or 0};"
    text += f" database connections {points[0][2]} → {points[-1][2]}; workers {'the same' if same else 'REPLACED'}"
    measuring.add(Cell(scenario.name, connections, "sepu"), sample)
    _conclude(given, measuring, found, text)


class Held(NamedTuple):
    """What a process has: resident KiB, those among them that it shares with no other, and open files."""

    kib: int
    private: int
    files: int

    @classmethod
    def by(cls, pid: int) -> "Held":
        memory = psutil.Process(pid).memory_full_info()
        return cls(memory.rss // 1024, memory.uss // 1024, psutil.Process(pid).num_fds())


def _conclude(given: argparse.Namespace, measuring: Measuring, found: Sequence[Target], text: str = "") -> None:
    """Prints the conditions and the tables, and writes them to a file."""
    settings = {key: value for key, value in vars(given).items() if key not in {"run", "key", "scenarios"}}
    busy = max(one.busy for samples in measuring.samples.values() for one in samples)
    text = text or report.measured(measuring.figures())
    if found:
        text += f"\n\n{report.table(['what', 'target', 'figure', 'reached'], [target.row for target in found])}"
    told = f"""{machine.in_words()}; load {os.getloadavg()[0]:.2f}; the client's share of a core {busy:.2f}
database: {measuring.about}
settings: {settings}\n\n{text}"""
    file = OUT / f"{given.run.__name__}-{datetime.now(UTC):%Y%m%dT%H%M%SZ}.md"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(f"{told}\n", "utf-8")
    print(f"\n{told}\n\ntables: {file}")


def _run() -> str:
    """Returns what makes the idempotency keys of a round unique."""
    return token_hex(6)


def _progress(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _numbers(text: str) -> Sequence[int]:
    return [int(part) for part in text.split(",")]


def _scenarios(text: str) -> list[Scenario]:
    try:
        return [SCENARIOS[name] for name in text.split(",")]
    except KeyError as error:
        raise argparse.ArgumentTypeError(f"no scenario {error}; there are {', '.join(SCENARIOS)}") from error


_ROUNDS = {"rounds": 3, "seconds": 2.0}  # whole seconds suit pgbench
_LOADS = {"connections": "1,32", **_ROUNDS}
# The commands, and their options with defaults; each also has --state-dir and --workers.
COMMANDS: Mapping[Callable[[argparse.Namespace], None], Mapping[str, Any]] = {
    run: {
        "scenarios": ",".join(SCENARIOS),
        "rate": 0.0,
        "url": "",
        "key": os.environ.get("SEPU_API_KEY", ""),
        **_LOADS,
    },
    growth: {"accounts": 1_000_000, "results": 10_000_000, **_LOADS},
    clients: {**_LOADS, "rounds": 5},
    neighbours: _ROUNDS,
    skew: {**_LOADS, "connections": "5,32,128"},
    connections: {"open": 1600, "active": 100, **_ROUNDS},
    cold: {"rounds": 20, "requests": 1000, "connections": "1,8"},
    reload: {"rate": 0.0, **_ROUNDS},
    prune: {"results": 2_000_000, **_LOADS},
    soak: {"requests": 1_000_000, "connections": "32"},
}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.load", description=__doc__)
    commands = parser.add_subparsers(required=True)
    for command, options in COMMANDS.items():
        made = commands.add_parser(command.__name__, help=command.__doc__, description=command.__doc__)
        made.set_defaults(run=command)
        made.add_argument("--state-dir", type=Path, help="of the embedded Postgres; default: a temporary one")
        for name, default in {"workers": default_workers(), **options}.items():
            kind = {"connections": _numbers, "scenarios": _scenarios}.get(name, type(default))
            made.add_argument(f"--{name}", type=kind, default=default)
    given = parser.parse_args()
    given.run(given)


if __name__ == "__main__":
    main()
