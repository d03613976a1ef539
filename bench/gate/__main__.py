"""`make bench-gate`, `make bench-gate-costs`, `make bench-bisect`. Exits with 1 if something is wrong."""

import asyncio
import os
import signal
import sys
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from bench import commits
from bench.commits import base, git, named, working_tree
from bench.gate import count, explain
from bench.gate.bisect import bisect, judge
from bench.gate.costs import Accepted, accepted, dated, line
from bench.gate.sides import CORE, KINDS, OPERATION, SQL, Comparison, changed, compare
from bench.load.report import table
from bench.report import GATE
from tests.harness import callgrind

# Growth beyond this is an alarm. It exceeds the noise of 210 comparisons of a commit with itself.
TOLERANCE = 0.005
# Of some figures, by the beginning of their names.
TOLERANCES = {
    **dict.fromkeys((f"{what}: " for what in (*count.ALLOCATED, callgrind.CALLS)), 0.0),
    CORE: 0.001,  # loops in native code: one more multiplication is 0.2 to 0.4 % of a kernel
    OPERATION: 0.0075,  # short: both base counts may be of a layout that takes 0.54 % less
}
EXACT = tuple(name for name, tolerance in TOLERANCES.items() if not tolerance)
SHOWN = 2  # paths whose functions are shown


class Row(NamedTuple):
    """One figure of both sides. `costs` is the percentage that has to be accepted; None if the figure is gone."""

    name: str
    base: float | None
    head: float | None
    verdict: str
    alarms: bool = False
    costs: float | None = 0

    def cells(self) -> Sequence[str]:
        change = f"{self.head / self.base - 1:+.2%}" if self.base and self.head is not None else ""
        figures = ("" if figure is None else f"{figure:,.0f}" for figure in (self.base, self.head))
        return [self.name, *figures, change, self.verdict]


def tolerance(name: str) -> float:
    """Returns the share by which a figure may grow: none if it counts whole calls."""
    return next((found for begin, found in TOLERANCES.items() if name.startswith(begin)), TOLERANCE)


def rows(found: Comparison, costs: Sequence[Accepted]) -> Iterator[Row]:
    """Judges each figure: a cost has to be accepted, a gain does not, because the next base has it."""
    base, head = found.base.figures, found.head.figures
    for name, why in found.head.failures.items():
        yield Row(name, base.get(name), None, f"**cannot be counted**: {why}", alarms=True)
    for name, figure in head.items():
        if name not in base:
            yield Row(name, None, figure, "new")
        elif figure <= base[name] * (1 + tolerance(name)):
            yield Row(name, base[name], figure, "faster" if figure < base[name] * (1 - TOLERANCE) else "")
        else:
            percent = (figure / base[name] - 1) * 100 if base[name] else 100
            yield _judged(Row(name, base[name], figure, "**slower**", costs=percent), costs)
    for name in sorted(found.gone):
        yield _judged(Row(name, base.get(name), None, "**gone**", costs=None), costs)


def _judged(row: Row, costs: Sequence[Accepted]) -> Row:
    mine = [each for each in costs if each.is_of(row.name) and (each.percent is None) == (row.costs is None)]
    reasons = "; ".join(f"{each.reason} ({each.commit})" for each in mine)
    allowed = sum(each.percent or 0 for each in mine) + TOLERANCE * 100
    if mine and (row.costs is None or row.costs <= allowed):
        return row._replace(verdict=f"accepted: {reasons}")
    return row._replace(alarms=True, verdict=f"{row.verdict}, more than accepted" if mine else row.verdict)


def _wrong(found: Comparison, costs: Sequence[Accepted]) -> list[str]:
    """Returns the paths that have grown most: those whose functions or statements are shown."""
    alarms = [row for row in rows(found, costs) if row.alarms and row.costs]
    alarms.sort(key=lambda row: row.costs or 0, reverse=True)
    paths = dict.fromkeys(_path(row.name) for row in alarms)
    return [path for path in paths if not path.startswith("memory: ")][:SHOWN]


def _path(figure: str) -> str:
    """Returns a figure's path: `request: match` for `system calls: request: match`."""
    if figure.startswith(EXACT):
        return figure.partition(": ")[2]
    return figure.partition(", ")[0] if figure.startswith(SQL) else figure


def check(ref: str = "") -> None:
    """Compares what is checked out with its base."""
    before, head = named(ref) if ref else base("HEAD"), working_tree()
    costs = list(accepted(before))
    found = asyncio.run(compare(before, head, lambda found: _wrong(found, costs)))
    judged = list(rows(found, costs))
    alarms = [row for row in judged if row.alarms]
    verdict = f"{len(alarms)} alarms" if alarms else "no alarm"
    of = git("log", "-1", "--format=%h (%s)", before)
    told = [f"Counted against {of}, with {sys.version.split()[0]}, on {datetime.now(UTC):%Y-%m-%d}: {verdict}.", ""]
    if judged:
        told += [table(("figure", "base", "head", "change", ""), (row.cells() for row in judged)), ""]
    build = commits.ROOT / "build"
    build.mkdir(exist_ok=True)
    for path, sides in found.explained.items():
        told += explain.lines(path, *sides)
    same = KINDS.keys() - changed(before, head)
    told += [f"Not counted, because no file that it depends on has changed: {kind}." for kind in sorted(same)]
    told += [
        f"Not compared, because it cannot be counted in base: {name} ({why})"
        for name, why in found.base.failures.items()
    ]
    if acceptable := [line(row.name, row.costs) for row in alarms if row.costs != 0]:
        ask = "If this is intended, say so in the message of a commit (`git commit --amend`), in its last paragraph:"
        told += ["", ask, "", *(f"    {cost}" for cost in acceptable)]
    report(told)
    (build / GATE).write_text("\n".join(told), "utf-8")
    if alarms:
        sys.exit("ALARM: " + "; ".join(row.name for row in alarms))


def report(told: Iterable[str]) -> None:
    """Prints lines in Markdown, and adds them to the summary of GitHub's job."""
    text = "\n".join(told)
    print(text)
    if summary := os.environ.get("GITHUB_STEP_SUMMARY"):
        with Path(summary).open("a", encoding="utf-8") as file:
            file.write(f"## The gate\n\n{text}\n")


def main(command: str = "check", *given: str) -> None:
    """Runs one command. Fails if nothing can be counted, because that must not look like a pass."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # raises, so that its children end with it
    if command == "costs":
        print("\n".join(dated()))
    elif callgrind.valgrind() is None:
        sys.exit(callgrind.NEEDED)
    elif command == "bisect":
        bisect(tolerance(given[0]), *given)
    elif command == "judge":
        judge(*given)
    else:
        check(*given)


if __name__ == "__main__":
    main(*sys.argv[1:])
