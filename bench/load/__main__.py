"""`python -m bench.load`: the service under load, beside its floors, in one run. `make load` runs all scenarios."""

import argparse
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack, nullcontext
from dataclasses import asdict, replace
from multiprocessing import get_context
from pathlib import Path
from secrets import token_hex
from statistics import linear_regression
from typing import NamedTuple

import psutil
from bench.load import client, report
from bench.load.client import Job, measure
from bench.load.curves import save_curves
from bench.load.figures import Figures, Sample, times
from bench.load.floor import pgbench
from bench.load.idle import held
from bench.load.neighbours import CASES, MANY, beside
from bench.load.replica import replicated, wrong
from bench.load.report import PHYSICAL_LIMIT, Cell, Target, Who
from bench.load.scenarios import ACCOUNTS, SCENARIOS, SKEW, Scenario, bare_insert, first_executions, pgbench_scripts
from bench.load.stage import EMPTY, FILLED, Cluster, cluster, constant, scans, settings_of, warm
from bench.records import DIRECTORY, save
from tests.serving import SEPU, serving

from bench import machine
from sepu.admin.prune import RETENTION_DAYS
from sepu.cli.database import connect

OUT = Path("build/load")
OPEN_CONNECTIONS = 128
OPEN_SHARE = 0.5  # of what the closed loop reached
FLAT_KIB = 2048  # a worker may grow by in a million requests, while allocators settle


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.load", description=__doc__)
    commands = parser.add_subparsers(required=True)

    def command(name: str, run: Callable[[argparse.Namespace], None], about: str) -> argparse.ArgumentParser:
        made = commands.add_parser(name, help=about, description=about)
        made.set_defaults(run=run)
        made.add_argument("--state-dir", type=Path, help="of the embedded Postgres; default: a temporary one")
        made.add_argument("--workers", type=int, default=2)
        return made

    def in_rounds(made: argparse.ArgumentParser) -> None:
        made.add_argument("--rounds", type=int, default=3)
        made.add_argument("--seconds", type=float, default=2.0, help="of each round; whole ones suit pgbench")

    def measuring(made: argparse.ArgumentParser) -> None:
        made.add_argument("--connections", type=_numbers, default="1,32")
        in_rounds(made)

    made = command("run", run, "all scenarios, or some, each beside its floor")
    measuring(made)
    made.add_argument("--scenarios", type=_scenarios, default=",".join(SCENARIOS), help="default: all")
    made.add_argument("--rate", type=float, help="of the open loop; default: half of the closed loop's")
    made.add_argument("--url", help="HOST:PORT of a running server, instead of one of our own; without floors")
    made.add_argument(
        "--key",
        default=os.environ.get("SEPU_API_KEY"),
        help="that server's API key, charged for all  [env: SEPU_API_KEY]",
    )

    made = command("growth", growth, "an empty database beside a filled one, which is made if it is not there")
    made.add_argument("--accounts", type=int, default=1_000_000)
    made.add_argument("--results", type=int, default=10_000_000)
    measuring(made)

    in_rounds(command("neighbours", neighbours, "a customer on one connection, beside floods"))

    made = command("skew", skew, "accounts by Zipf, two nodes, a synchronous standby; beside pgbench on that pair")
    made.add_argument("--connections", type=_numbers, default="5,32,128")
    in_rounds(made)

    made = command("connections", connections, "few connections that ask, beside many that are open")
    made.add_argument("--open", type=int, default=1600)
    made.add_argument("--active", type=int, default=100)
    in_rounds(made)

    made = command("cold", cold, "the first requests of a new worker, beside those of a warm one")
    made.add_argument("--starts", type=int, default=20)
    made.add_argument("--requests", type=int, default=1000)
    made.add_argument("--connections", type=_numbers, default="1,8")

    made = command("reload", reload, "an open loop while all workers are replaced, beside one while they stay")
    made.add_argument("--rate", type=float, help="default: half of the closed loop's")
    in_rounds(made)

    made = command("prune", prune, "matches while `sepu prune` deletes results past their retention")
    made.add_argument("--results", type=int, default=2_000_000)
    made.add_argument("--connections", type=_numbers, default="1,32")
    in_rounds(made)

    made = command("soak", soak, "many requests in a closed loop, watching what the workers hold")
    made.add_argument("--requests", type=int, default=1_000_000)
    made.add_argument("--connections", type=int, default=32)

    given = parser.parse_args()
    given.run(given)


def run(given: argparse.Namespace) -> None:
    scenarios: list[Scenario] = given.scenarios
    accounts = max(scenario.accounts for scenario in scenarios)
    if given.url and not given.key:
        sys.exit("--url needs a --key")
    with ExitStack() as stack:
        about: dict[str, object] = {}
        if given.url:
            measuring = Measuring(given.url, key=given.key)
        else:
            made = stack.enter_context(cluster(given.state_dir))
            url = made.make_empty(accounts)
            server = stack.enter_context(serving("uvloop", url, workers=given.workers))
            beside = stack.enter_context(constant(given.workers))
            measuring = Measuring(server.address, made, url, server.process.pid)
            with connect(made.owner_url(EMPTY)) as owner:
                about |= settings_of(owner)
        for number in range(given.rounds):
            for connections in given.connections:
                for scenario in scenarios:
                    _progress(f"round {number + 1} of {given.rounds}: {scenario.name}, {connections} connections")
                    measuring.beside_floor(scenario, connections, given.seconds)
            if not given.url:
                _progress(f"round {number + 1} of {given.rounds}: {PHYSICAL_LIMIT}")
                measuring.physical_limit(beside.address, given.seconds)
        many = max(given.connections)
        for scenario in [one for one in scenarios if one.name in {"match-1", "mixed"}]:
            closed = Figures.of(measuring.samples[Cell(scenario.name, many, "sepu")])
            rate = given.rate or OPEN_SHARE * closed.rate
            for _ in range(given.rounds):
                _progress(f"open loop: {scenario.name}, {rate:,.0f} a second")
                measuring.open_loop(scenario, rate, given.seconds)
        if not given.url:
            with connect(made.owner_url(EMPTY)) as owner:
                about["scans"] = scans(owner)
    _conclude("run", measuring, given, about, report.measured(measuring.figures()), report.targets)
    for path in save_curves(measuring.figures(), OUT):
        print(f"curve: {path}")


class Measuring:
    """Rounds of one thing after the other, in turns, as the machine is never quiet for long."""

    def __init__(
        self, address: str, made: Cluster | None = None, url: str = "", master: int = 0, key: str | None = None
    ) -> None:
        self.address, self._made, self._url, self._key = address, made, url, key
        self._watched = {"Postgres": made.postmaster} if made else {}
        if master:
            self._watched["workers"] = master
        self.samples: dict[Cell, list[Sample]] = {}
        self.stored: dict[str, int] = {}  # by run, how many answers the ledger must have at least

    def beside_floor(self, scenario: Scenario, connections: int, seconds: float, name: str = "") -> None:
        """One round of both; the floor first."""
        name = name or scenario.name
        if self._made is not None:
            token = _run()
            if scenario.replays:
                with connect(self._url) as service:
                    service.execute(first_executions(scenario, token).encode())
            scripts = pgbench_scripts(scenario, token)
            self.add(
                Cell(name, connections, "pgbench"),
                pgbench(self._made.programs, self._url, scripts, connections, seconds),
            )
        self.served(scenario, connections, seconds, name)

    def served(self, scenario: Scenario, connections: int, seconds: float, name: str) -> None:
        """One round of the service alone."""
        job = self._job(scenario, connections, seconds)
        sample = measure(job)
        self.stored[job.run] = sample.right
        self.add(Cell(name, connections, "sepu"), sample)

    def physical_limit(self, constant: str, seconds: float) -> None:
        """One round of both its parts, on one connection; the owner inserts, past all rights and functions."""
        assert self._made is not None
        inserted = pgbench(self._made.programs, self._made.owner_url(EMPTY), bare_insert(_run()), 1, seconds)
        self.add(Cell(PHYSICAL_LIMIT, 1, "pgbench"), inserted)
        job = replace(self._job(SCENARIOS["library"], 1, seconds), address=constant, watched={})
        self.add(Cell(PHYSICAL_LIMIT, 1, "constant"), measure(job))

    def open_loop(self, scenario: Scenario, rate: float, seconds: float, reloads: int = 0) -> None:
        """One round at a fixed rate; a master's workers can be replaced in it."""
        job = replace(self._job(scenario, OPEN_CONNECTIONS, seconds), rate=rate, reloads=reloads)
        self.add(Cell(scenario.name, OPEN_CONNECTIONS, "sepu, open loop"), measure(job))

    def figures(self) -> dict[Cell, Figures]:
        return {cell: Figures.of(samples) for cell, samples in self.samples.items()}

    def _job(self, scenario: Scenario, connections: int, seconds: float) -> Job:
        seed = self._made.seed if self._made else ""
        return Job(self.address, scenario, connections, seed, _run(), seconds, key=self._key, watched=self._watched)

    def add(self, cell: Cell, sample: Sample) -> None:
        self.samples.setdefault(cell, []).append(sample)


def _filled(made: Cluster, given: argparse.Namespace) -> str:
    if made.is_filled():
        print("the filled database is there; drop it to make another")
        return made.make_filled(given.accounts, given.results)
    started = time.monotonic()
    url = made.make_filled(given.accounts, given.results)
    seconds = time.monotonic() - started
    with connect(made.owner_url(FILLED)) as owner:
        row = owner.execute("select pg_size_pretty(pg_database_size(current_database()))").fetchone()
    print(f"{given.accounts:,} accounts, {given.results:,} results: {seconds:.0f} s, {row and row[0]}")
    return url


def growth(given: argparse.Namespace) -> None:
    with ExitStack() as stack:
        made = stack.enter_context(cluster(given.state_dir))
        filled = _filled(made, given)
        with connect(made.owner_url(FILLED)) as owner:
            _progress("reading the filled database once")
            warm(owner)
            about = settings_of(owner)
            row = owner.execute("select count(*) from sepu.account where plan_id = 'load-ample'").fetchone()
        many = row[0] if row else 0
        sides: dict[str, tuple[Measuring, Scenario]] = {}
        for kind, url, accounts in (("empty", made.make_empty(ACCOUNTS), ACCOUNTS), ("filled", filled, many)):
            server = stack.enter_context(serving("uvloop", url, workers=given.workers))
            sides[kind] = (
                Measuring(server.address, made, url, server.process.pid),
                replace(SCENARIOS["match-1"], accounts=accounts),
            )
        for number in range(given.rounds):
            for connections in given.connections:
                for kind, (measuring, scenario) in sides.items():
                    _progress(f"round {number + 1} of {given.rounds}: {kind}, {connections} connections")
                    measuring.beside_floor(scenario, connections, given.seconds, kind)
    both = Measuring("")
    for measuring, _ in sides.values():
        both.samples |= measuring.samples

    def targets(figures: dict[Cell, Figures]) -> list[Target]:
        def grown(who: Who, many: int) -> float:
            return figures[Cell("filled", many, who)].p50 / figures[Cell("empty", many, who)].p50

        text = "p50 filled ÷ empty, ÷ pgbench's"
        return [
            Target(
                f"{many} connection{'s' * (many > 1)}: {text}",
                grown("sepu", many) / grown("pgbench", many),
                1.05,
                at_most=True,
            )
            for many in given.connections
        ]

    _conclude("growth", both, given, about, report.measured(both.figures()), targets)


def skew(given: argparse.Namespace) -> None:
    with ExitStack() as stack:
        made = stack.enter_context(cluster(given.state_dir))
        url, standby = stack.enter_context(replicated(made, ACCOUNTS))
        nodes = [stack.enter_context(serving("uvloop", url, workers=given.workers)) for _ in range(2)]
        measuring = Measuring(",".join(node.address for node in nodes), made, url)
        for number in range(given.rounds):
            for connections in given.connections:
                _progress(f"round {number + 1} of {given.rounds}: skew, {connections} connections")
                measuring.beside_floor(SKEW, connections, given.seconds)
        with connect(made.owner_url(EMPTY)) as owner:
            about: dict[str, object] = {**settings_of(owner)}
            found = wrong(owner, standby, measuring.stored)
    about |= found

    def targets(figures: dict[Cell, Figures]) -> list[Target]:
        return report.skew_targets(figures) + [Target(what, count, 0, at_most=True) for what, count in found.items()]

    _conclude("skew", measuring, given, about, report.measured(measuring.figures()), targets)


def connections(given: argparse.Namespace) -> None:
    with ExitStack() as stack:
        made = stack.enter_context(cluster(given.state_dir))
        url = made.make_empty(ACCOUNTS)
        server = stack.enter_context(serving("uvloop", url, workers=given.workers))
        with connect(made.owner_url(EMPTY)) as owner:
            about: dict[str, object] = {**settings_of(owner)}
        measuring = Measuring(server.address, made, url, server.process.pid)
        each: list[float] = []  # bytes of a connection, before any memory can be used a second time
        refused = 0
        for number in range(given.rounds):
            for idle in (0, given.open - given.active):
                _progress(f"round {number + 1} of {given.rounds}: {given.active + idle:,} open")
                before = sum(Held.by(pid).private for pid in server.workers())
                with held(server.address, idle) as opened:
                    if idle and not each and opened:
                        after = sum(Held.by(pid).private for pid in server.workers())
                        each.append(1024 * (after - before) / opened)
                    refused += idle - opened
                    measuring.served(SCENARIOS["match-1"], given.active, given.seconds, f"{given.active + idle} open")
    about["connections refused"] = refused

    def targets(figures: dict[Cell, Figures]) -> list[Target]:
        few, many = (figures[Cell(f"{count} open", given.active, "sepu")].p50 for count in (given.active, given.open))
        return [
            Target(f"p50 with {given.open:,} open ÷ with {given.active}", many / few, 1.1, at_most=True),
            Target("KiB of a connection", each[0] / 1024, 12, at_most=True),
            Target("connections refused", refused, 0, at_most=True),
            Target("errors", sum(sum(one.errors.values()) for one in figures.values()), 0, at_most=True),
        ]

    _conclude("connections", measuring, given, about, report.measured(measuring.figures()), targets)


def _ratios_of_p99(
    figures: Mapping[Cell, Figures], connections: Sequence[int], text: str, name: str, other: str, most: float
) -> list[Target]:
    """Returns the target that p99 of one scenario is at most so many times that of another, for each load."""
    return [
        Target(
            f"{many} connection{'s' * (many > 1)}: {text}",
            figures[Cell(name, many, "sepu")].p99 / figures[Cell(other, many, "sepu")].p99,
            most,
            at_most=True,
        )
        for many in connections
    ]


def cold(given: argparse.Namespace) -> None:
    with ExitStack() as stack:
        made = stack.enter_context(cluster(given.state_dir))
        url = made.make_empty(ACCOUNTS)
        with connect(made.owner_url(EMPTY)) as owner:
            about: dict[str, object] = {**settings_of(owner)}
        measuring = Measuring("")
        for number in range(given.starts):
            for many in given.connections:
                _progress(f"start {number + 1} of {given.starts}, {many} connections")
                with serving("uvloop", url, workers=1) as server:
                    for name in ("first", "warm"):
                        job = Job(
                            server.address, SCENARIOS["match-1"], many, made.seed, _run(), requests=given.requests
                        )
                        if name == "first":
                            job = replace(job, warm_up=0)
                        measuring.add(Cell(name, many, "sepu"), measure(job))
    pooled = {cell: Figures.of([Sample.pooled(samples)]) for cell, samples in measuring.samples.items()}

    def targets(figures: dict[Cell, Figures]) -> list[Target]:
        text = f"p99 of the first {given.requests:,} requests ÷ of later ones"
        return _ratios_of_p99(figures, given.connections, text, "first", "warm", 3)

    measuring.samples = {cell: [Sample.pooled(samples)] for cell, samples in measuring.samples.items()}
    _conclude("cold", measuring, given, about, report.measured(pooled), targets)


def reload(given: argparse.Namespace) -> None:
    with ExitStack() as stack:
        made = stack.enter_context(cluster(given.state_dir))
        url = made.make_empty(ACCOUNTS)
        server = stack.enter_context(serving("uvloop", url, workers=given.workers))
        with connect(made.owner_url(EMPTY)) as owner:
            about: dict[str, object] = {**settings_of(owner)}
        measuring = Measuring(server.address, made, url)
        scenario = SCENARIOS["match-1"]
        measuring.served(scenario, 32, given.seconds, "closed loop")
        rate = given.rate or OPEN_SHARE * Figures.of(measuring.samples[Cell("closed loop", 32, "sepu")]).rate
        for number in range(given.rounds):
            for name, master in (("steady", 0), ("reloading", server.process.pid)):
                _progress(f"round {number + 1} of {given.rounds}: {name}, {rate:,.0f} a second")
                before = set(server.workers())
                measuring.open_loop(replace(scenario, name=name), rate, given.seconds, master)
                if master and (before & set(server.workers()) or len(server.workers()) != given.workers):
                    sys.exit("the workers were not replaced within the round; take more --seconds")

    def targets(figures: dict[Cell, Figures]) -> list[Target]:
        steady, reloading = (
            figures[Cell(name, OPEN_CONNECTIONS, "sepu, open loop")] for name in ("steady", "reloading")
        )
        return [
            Target("p99 while workers are replaced ÷ steady", reloading.p99 / steady.p99, 2, at_most=True),
            Target("errors", sum(reloading.errors.values()), 0, at_most=True),
        ]

    _conclude("reload", measuring, given, about, report.measured(measuring.figures()), targets)


def neighbours(given: argparse.Namespace) -> None:
    measuring = Measuring("")
    floods: dict[Cell, Counter[str]] = {}
    sides: tuple[Who, Who] = ("beside /healthz", "beside it")
    with ExitStack() as stack:
        made = stack.enter_context(cluster(given.state_dir))
        server = stack.enter_context(serving("uvloop", made.make_empty(MANY), workers=given.workers))
        with connect(made.owner_url(EMPTY)) as owner:
            about = settings_of(owner)
        for number in range(given.rounds):
            for case in CASES:
                _progress(f"round {number + 1} of {given.rounds}: {case.name}")
                with made.slow_commits() if case.slow_commits else nullcontext():
                    for who, asks in zip(sides, (None, case.asks), strict=True):
                        flood = replace(case, asks=asks)
                        sample, answers = beside(flood, server.address, made.seed, _run(), given.seconds)
                        cell = Cell(case.name, case.connections, who)
                        measuring.add(cell, sample)
                        floods[cell] = floods.get(cell, Counter()) + answers
    text = report.measured(measuring.figures())
    heads = ["scenario", "who", "what the flood was answered"]
    rows = [
        [cell.scenario, cell.who, ", ".join(f"{count:,} × {status}" for status, count in answers.most_common())]
        for cell, answers in floods.items()
    ]
    text += f"\n\n{report.table(heads, rows)}"
    _conclude("neighbours", measuring, given, about, text, report.neighbours_targets)


def prune(given: argparse.Namespace) -> None:
    with ExitStack() as stack:
        made = stack.enter_context(cluster(given.state_dir))
        _progress(f"storing {given.results:,} results")
        url = made.make_aged(ACCOUNTS, given.results, 2 * RETENTION_DAYS)
        server = stack.enter_context(serving("uvloop", url, workers=given.workers))
        measuring = Measuring(server.address, made, url, server.process.pid)
        command = (SEPU, "prune", "--database-url", made.owner_url(EMPTY))
        with connect(made.owner_url(EMPTY)) as owner:
            about: dict[str, object] = {**settings_of(owner)}
            for number in range(given.rounds):
                for connections in given.connections:
                    _progress(f"round {number + 1} of {given.rounds}: {connections} connections")
                    measuring.served(SCENARIOS["match-1"], connections, given.seconds, "before")
                    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as pruning:
                        measuring.served(SCENARIOS["match-1"], connections, given.seconds, "pruning")
                        if pruning.poll() is not None:
                            sys.exit("the prune ended before the round; take more --results")
                        pruning.terminate()
            row = owner.execute("select sum(pruned) from sepu.usage").fetchone()
            about["results pruned"] = int(row[0]) if row else 0

    def targets(figures: dict[Cell, Figures]) -> list[Target]:
        ratios = _ratios_of_p99(figures, given.connections, "p99 while a prune runs ÷ before", "pruning", "before", 2)
        return [*ratios, Target("errors", sum(sum(one.errors.values()) for one in figures.values()), 0, at_most=True)]

    text = f"{report.measured(measuring.figures())}\n\n{about['results pruned']:,} results pruned"
    _conclude("prune", measuring, given, about, text, targets)


def soak(given: argparse.Namespace) -> None:
    points: list[tuple[float, list[Held], int]] = []  # seconds, what each worker has, connections
    with cluster(given.state_dir) as made:
        url = made.make_empty(SCENARIOS["mixed"].accounts)
        with serving("uvloop", url, workers=given.workers) as server, connect(made.owner_url(EMPTY)) as owner:
            while len(pids := server.workers()) < given.workers:  # the first makes the server ready
                time.sleep(0.1)
            job = Job(server.address, SCENARIOS["mixed"], given.connections, made.seed, _run(), requests=given.requests)
            started = time.monotonic()
            with ProcessPoolExecutor(1, get_context("spawn")) as pool:
                running = pool.submit(client.run, job)
                while not running.done():
                    time.sleep(1)
                    row = owner.execute(
                        "select count(*) from pg_stat_activity where usename = 'sepu_service' and datname = %s", [EMPTY]
                    ).fetchone()
                    points.append((time.monotonic() - started, [Held.by(pid) for pid in pids], row[0] if row else 0))
                sample = running.result()
            about = {**settings_of(owner), "scans": scans(owner)}
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
        found.append(Target(f"worker {place + 1}: KiB more in a million requests", kib, FLAT_KIB, at_most=True))
    heads = ["worker", "first KiB (private)", "after a quarter", "last", "slope, KiB a million requests", "files"]
    text = report.table(heads, rows)
    text += f"\n\n{given.requests:,} requests in {sample.seconds:.0f} s; errors: {dict(sample.errors) or 0};"
    text += f" database connections {points[0][2]} → {points[-1][2]}; workers {'the same' if same else 'REPLACED'}"
    measuring = Measuring(server.address)
    measuring.samples[Cell("mixed", given.connections, "sepu")] = [sample]
    _conclude("soak", measuring, given, about, text, lambda _: found)


class Held(NamedTuple):
    """What a process has: resident KiB, those of them that no other process shares, and open files."""

    kib: int
    private: int
    files: int

    @classmethod
    def by(cls, pid: int) -> "Held":
        process = psutil.Process(pid)
        memory = process.memory_full_info()
        return cls(memory.rss // 1024, memory.uss // 1024, process.num_fds())


def _conclude(
    name: str,
    measuring: Measuring,
    given: argparse.Namespace,
    about: Mapping[str, object],
    text: str,
    targets: Callable[[dict[Cell, Figures]], list[Target]],
) -> None:
    """Prints the tables, and leaves them and a record behind."""
    figures = measuring.figures()
    found = targets(figures)
    settings = {key: value for key, value in vars(given).items() if key not in {"run", "key", "scenarios"}}
    load = round(os.getloadavg()[0], 2)
    print(f"\n{machine.in_words()}; Postgres {about.get('server_version', 'unknown')}; load {load}")
    if found:
        text += f"\n\n{report.verdict(found)}"
    print(f"\n{text}")
    record = save(
        OUT if settings.get("url") else DIRECTORY,  # of another machine's server there is no history here
        "load",
        {
            f"load/{name}::{cell.scenario}, {cell.connections} conn., {cell.who}: {what}": taken
            for cell, samples in measuring.samples.items()
            for what, taken in times(samples).items()
        },
        client_busy=round(max(one.busy for samples in measuring.samples.values() for one in samples), 3),
        targets=[{**asdict(target), "reached": target.reached} for target in found],
        database=about,
        settings={**settings, "state_dir": str(given.state_dir)},
        load=load,
    )
    file = OUT / f"{name}-{record.stem}.md"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(f"{text}\n")
    print(f"\nrecord: {record}; tables: {file}")


def _run() -> str:
    """Keeps the idempotency keys of a round apart from all others'."""
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


if __name__ == "__main__":
    main()
