"""Tables in Markdown, and the verdict on each target."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import isnan, nan
from typing import NamedTuple

from bench.load.callers import RAW
from bench.load.figures import Figures

Who = str  # pgbench, sepu, or another side of a comparison
# What a side's figures are compared with, in the same scenario at the same concurrency.
FLOORS: Mapping[Who, Who] = {"sepu": "pgbench", "beside it": "beside /healthz"}
PHYSICAL_LIMIT = "physical limit"  # its parts: a bare durable insert, and a constant over HTTP

# Scenario, connections, bound, goal.
AGAINST_PGBENCH = (
    ("match-1", 1, 1.5, 1.35),
    ("replay", 1, 1.8, None),
    ("match-1", 32, 1.2, None),
    ("match-5x3", 32, 1.1, None),
)


class Cell(NamedTuple):
    """What was measured."""

    scenario: str
    connections: int
    who: Who


@dataclass(frozen=True, slots=True)
class Target:
    """A figure and its bound; NaN if it was not measured."""

    what: str
    figure: float
    bound: float
    at_most: bool = True
    goal: float | None = None

    @property
    def reached(self) -> bool:
        return self.figure <= self.bound if self.at_most else self.figure >= self.bound

    @property
    def row(self) -> tuple[str, ...]:
        sign = "≤" if self.at_most else "≥"
        goal = "" if self.goal is None else f" (goal {self.goal:g})"
        return self.what, f"{sign} {self.bound:g}{goal}", f"{self.figure:.2f}", "yes" if self.reached else "**no**"


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [f"| {' | '.join(heads)} |", f"|{'---|' * len(heads)}"]
    return "\n".join([*lines, *(f"| {' | '.join(row)} |" for row in rows)])


def ms(seconds: float) -> str:
    return f"{seconds * 1e3:.3g}" if seconds < 0.1 else f"{seconds * 1e3:.0f}"


def ratio(one: float, other: float) -> float:
    """Returns the quotient; NaN if nothing was answered on the other side."""
    return one / other if other else nan


def physical_limit(figures: Mapping[Cell, Figures]) -> float:
    """The p50 of its parts at one connection, summed; NaN if they were not measured."""
    parts: tuple[Who, Who] = ("pgbench", "constant")
    found = [figures.get(Cell(PHYSICAL_LIMIT, 1, who)) for who in parts]
    return sum(one.p50 if one else nan for one in found)


def measured(figures: Mapping[Cell, Figures]) -> str:
    """A row for each cell, with the ratios to its floor and the processor time of a request."""
    rows = []
    for cell, found in figures.items():
        floor = figures.get(cell._replace(who=FLOORS[cell.who])) if cell.who in FLOORS else None
        ratios = ["", ""]
        if floor is not None:
            ratios = [f"{found.p50 / floor.p50:.2f}", f"{ratio(found.rate, floor.rate):.2f}"]
        errors = ", ".join(f"{count} × {name}" for name, count in found.errors.items()) or "0"
        cpu = [f"{found.cpu[who] * 1e6:.0f}" if who in found.cpu else "" for who in ("workers", "Postgres")]
        times = (found.p50, found.p90, found.p99, found.p999, found.maximum)
        who = (cell.scenario, str(cell.connections), cell.who)
        rows.append([*who, *map(ms, times), f"{found.rate:,.0f}", *ratios, *cpu, errors])
    if not isnan(limit := physical_limit(figures)):
        rows.append([PHYSICAL_LIMIT, "1", "their sum", ms(limit), *[""] * 10])
    heads = ["scenario", "conn.", "who", "p50 ms", "p90", "p99", "p99.9", "max", "a second", "p50 ÷ floor",
             "rate ÷ floor", "workers µs", "Postgres µs", "errors"]  # fmt: skip
    return table(heads, rows)


def targets(figures: Mapping[Cell, Figures]) -> list[Target]:
    """The targets that the figures allow: by p50 on one connection, by rate on several."""
    found: list[Target] = []
    for scenario, connections, bound, goal in AGAINST_PGBENCH:
        cell = Cell(scenario, connections, "sepu")
        if (above := figures.get(cell)) and (below := figures.get(cell._replace(who="pgbench"))):
            if connections == 1:
                what = f"{on(connections)}: p50 of {scenario} ÷ pgbench's"
                found.append(Target(what, above.p50 / below.p50, bound, goal=goal))
            else:
                what = f"{on(connections)}: {scenario} a second ÷ pgbench's"
                found.append(Target(what, above.rate / below.rate, bound, at_most=False))
    limit, first = physical_limit(figures), figures.get(Cell("match-1", 1, "sepu"))
    if first and not isnan(limit):
        found.append(Target("1 connection: p50 of match-1 ÷ the physical limit", first.p50 / limit, 1.8))
    if loaded := figures.get(Cell("match-1", 32, "sepu")):
        found.append(Target("32 connections: p99 ÷ p50 of match-1", loaded.p99 / loaded.p50, 3))
    return found


def on(connections: int) -> str:
    return f"{connections} connection{'s' * (connections > 1)}"


def called(figures: Mapping[Cell, Figures]) -> str:
    """A row for each caller, compared with the raw socket."""
    rows = []
    for cell, found in figures.items():
        floor = figures[cell._replace(who=RAW)]
        ratio, cpu = f"{found.p50 / floor.p50:.2f}", f"{found.cpu['caller'] * 1e6:.0f}"
        who = (cell.who, str(cell.connections))
        rows.append([*who, ms(found.p50), ms(found.p99), ratio, cpu, f"{found.rate:,.0f}"])
    return table(["caller", "calls at a time", "p50 ms", "p99", "p50 ÷ raw", "CPU µs", "a second"], rows)


def caller_targets(figures: Mapping[Cell, Figures]) -> list[Target]:
    """The clients' targets, one call at a time: by p50 compared with a raw socket, and by processor time."""
    found: list[Target] = []
    alone = {cell.who: each for cell, each in figures.items() if cell.connections == 1}
    for who, most, cpu in (("sepu_client.Client", 1.15, 110), ("sepu_client.AsyncClient", 1.3, 180)):
        if who in alone:
            found.append(Target(f"{who}: p50 ÷ that of a raw socket", alone[who].p50 / alone[RAW].p50, most))
            found.append(Target(f"{who}: µs of CPU for a call", alone[who].cpu["caller"] * 1e6, cpu))
    return found


def no_errors(figures: Mapping[Cell, Figures]) -> Target:
    return Target("errors", sum(sum(one.errors.values()) for one in figures.values()), 0)


def ratios_of_p99(figures: Mapping[Cell, Figures], text: str, name: str, other: str, most: float) -> list[Target]:
    """Returns the target that p99 of one scenario is at most `most` times that of another, for each load."""
    return [
        Target(f"{on(cell.connections)}: {text}", found.p99 / figures[cell._replace(scenario=other)].p99, most)
        for cell, found in figures.items()
        if cell.scenario == name
    ]


def skew_targets(figures: Mapping[Cell, Figures]) -> list[Target]:
    """The targets of batches if most charges are one account's: no loss with few clients, a gain with many."""
    found: list[Target] = []
    for cell, ours in figures.items():
        if cell.who == "sepu":
            floor = figures[cell._replace(who="pgbench")]
            many = on(cell.connections)
            bound = 4 if cell.connections >= 32 else 1
            found.append(Target(f"{many}: a second ÷ pgbench's", ours.rate / floor.rate, bound, at_most=False))
            if cell.connections >= 32:
                found.append(Target(f"{many}: p99 ÷ pgbench's p50", ours.p99 / floor.p50, 1))
            found.append(Target(f"{many}: errors", sum(ours.errors.values()), 0))
    return found


def neighbours_targets(figures: Mapping[Cell, Figures]) -> list[Target]:
    """The share of its answers during a `/healthz` flood that a customer keeps."""
    found: list[Target] = []
    for cell, ours in figures.items():
        if cell.who == "beside it":
            kept = ratio(ours.rate, figures[cell._replace(who="beside /healthz")].rate)
            found.append(Target(f"{cell.scenario}: answers ÷ those during /healthz", kept, 0.5, at_most=False))
            found.append(Target(f"{cell.scenario}: errors", sum(ours.errors.values()), 0))
    return found
