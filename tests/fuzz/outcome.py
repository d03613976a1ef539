"""What each boundary of `make fuzz` plays, and what it returns."""

import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count, takewhile
from pathlib import Path

from sepu.cli.database import database

SHOWN = 20

Played = tuple[int, str, str | None]
"""The number of a case, what it tried, and its fault if there is one."""
Play = Callable[[Iterator[int]], Iterator[Played]]
"""Plays the cases of these numbers. The same number is the same case."""


@dataclass
class Outcome:
    """What a run tried, and the faults that it found, each with what repeats it."""

    tried: Counter[str] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        counts = ", ".join(f"{name}: {count}" for name, count in sorted(self.tried.items()))
        return "\n".join([counts, f"{len(self.faults)} faults", *self.faults[:SHOWN]])


def run(play: Play, numbers: Iterable[int]) -> Outcome:
    outcome = Outcome()
    for number, tried, fault in play(iter(numbers)):
        outcome.tried[tried] += 1
        outcome.faults += [f"SECONDS=0 SEED={number}: {tried}: {fault}"] if fault else []
    return outcome


def run_for(play: Play, seconds: float, seed: int) -> Outcome:
    """Plays the cases from `seed` on, at least one; the time begins when that is taken."""

    def numbers() -> Iterator[int]:
        yield seed
        end = time.monotonic() + seconds
        yield from takewhile(lambda _: time.monotonic() < end, count(seed + 1))

    return run(play, numbers())


@contextmanager
def own_database() -> Iterator[str]:
    """The connection string of a Postgres of the run's own, migrated."""
    with (
        tempfile.TemporaryDirectory(prefix="sepu-fuzz-") as directory,
        database(None, Path(directory), create=True) as url,
    ):
        yield url
