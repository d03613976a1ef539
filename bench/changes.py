"""Finds what became slower or faster, at which record, and by which commits."""

from collections.abc import Sequence
from dataclasses import dataclass

from bench.commits import git
from bench.records import Record
from otava.analysis import compute_change_points

# Hundreds of series are searched, so few of them may show what is only noise. A step of 5 % in noise of 1 % is found
# by ten records on each side; smaller noise needs fewer.
CHANCE = 1e-5
LEAST = 0.02
WINDOW = 50  # records, which are searched together


@dataclass(frozen=True)
class Change:
    """A change that lasts: between these two records."""

    name: str
    before: Record
    since: Record
    place: int  # of the second in the series
    by: float  # share of the time before

    @property
    def versions(self) -> list[str]:
        """Returns what else is not the same, as text."""
        old, new = self.before.versions, self.since.versions
        return [
            f"{name} {old.get(name, 'none')} → {new.get(name, 'none')}"
            for name in sorted(old.keys() | new.keys())
            if old.get(name) != new.get(name)
        ]

    @property
    def commits(self) -> list[str]:
        """Returns the commits from one record to the other, the last first; none if this clone has them not."""
        return git("log", "--format=%h %s", f"{self.before.commit}..{self.since.commit}", "--").splitlines()


def changes(name: str, series: Sequence[Record]) -> list[Change]:
    """Returns the change points of one benchmark on one machine."""
    medians = [record.times[name].median for record in series]
    points, _ = compute_change_points(medians, WINDOW, CHANCE, LEAST)
    return [
        Change(name, series[point.index - 1], series[point.index], point.index, point.stats.forward_rel_change())
        for point in points
    ]
