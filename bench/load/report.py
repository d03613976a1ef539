"""Tables in Markdown, and the verdict on each target."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from bench.load.figures import Figures

Who = Literal["sepu", "pgbench", "constant", "sepu, open loop"]


class Cell(NamedTuple):
    """What was measured."""

    scenario: str
    connections: int
    who: Who


@dataclass(frozen=True, slots=True)
class Target:
    """A bound of what is to be reached; NaN stands for what was not measured."""

    what: str
    figure: float
    bound: float
    at_most: bool
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


def measured(figures: Mapping[Cell, Figures], floors: Mapping[str, Who]) -> str:
    """A row for each cell. The ratios are to the floor of the same scenario at the same concurrency."""
    rows = []
    for cell, found in figures.items():
        floor = figures.get(Cell(cell.scenario, cell.connections, floors[cell.scenario]))
        ratios = ["", ""]
        if floor is not None and cell.who == "sepu":
            ratios = [f"{found.p50 / floor.p50:.2f}", f"{found.rate / floor.rate:.2f}"]
        errors = ", ".join(f"{count} × {name}" for name, count in found.errors.items()) or "0"
        times = (found.p50, found.p90, found.p99, found.p999, found.maximum)
        rows.append(
            [cell.scenario, str(cell.connections), cell.who, *map(ms, times), f"{found.rate:,.0f}", *ratios, errors]
        )
    heads = ["scenario", "conn.", "who", "p50 ms", "p90", "p99", "p99.9", "max", "a second", "p50 ÷ floor",
             "rate ÷ floor", "errors"]  # fmt: skip
    return table(heads, rows)


def targets(figures: Mapping[Cell, Figures]) -> list[Target]:
    """Those that can be told from the figures."""

    def ratio(
        what: str, one: Cell, other: Cell, bound: float, *, rate: bool = False, goal: float | None = None
    ) -> None:
        if one in figures and other in figures:
            above, below = figures[one], figures[other]
            figure = above.rate / below.rate if rate else above.p50 / below.p50
            found.append(Target(what, figure, bound, not rate, goal))

    found: list[Target] = []
    first = "match-1"
    ratio("1 connection: p50 of a metered POST ÷ pgbench's", Cell(first, 1, "sepu"), Cell(first, 1, "pgbench"), 1.6,
          goal=1.3)  # fmt: skip
    ratio("32 connections: metered POSTs a second ÷ pgbench's", Cell(first, 32, "sepu"), Cell(first, 32, "pgbench"),
          0.6, rate=True, goal=1.0)  # fmt: skip
    if loaded := figures.get(Cell(first, 32, "sepu")):
        found.append(Target("32 connections: p99 ÷ p50", loaded.p99 / loaded.p50, 4, at_most=True))
    ratio("32 connections: GET /v1/library a second ÷ a constant's", Cell("library", 32, "sepu"),
          Cell("library", 32, "constant"), 0.5, rate=True)  # fmt: skip
    ratio("1 connection: p50 of a replay ÷ a first execution's", Cell("replay", 1, "sepu"), Cell(first, 1, "sepu"), 1.0)
    return found


def verdict(found: Sequence[Target]) -> str:
    return table(["what", "target", "figure", "reached"], [target.row for target in found])
