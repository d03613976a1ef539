"""The numbered cases of a run: few of them, or with SEPU_FUZZ_SEED those from it on, for SEPU_FUZZ_SECONDS."""

import os
import time
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import count, takewhile

SEED = int(os.environ.get("SEPU_FUZZ_SEED", "0"))
SECONDS = float(os.environ.get("SEPU_FUZZ_SECONDS", "0"))
IS_SHORT = "SEPU_FUZZ_SEED" not in os.environ

Played = tuple[int, str, str | None]
"""The number of a case, what it tried, and its fault if there is one."""
Play = Callable[[Iterator[int]], Iterator[Played]]
"""Plays the cases of these numbers. The same number is the same case."""


def numbers(few: int) -> Iterator[int]:
    """So many, or at least one; then the time begins when that is taken."""
    if IS_SHORT:
        yield from range(few)
        return
    yield SEED
    end = time.monotonic() + SECONDS
    yield from takewhile(lambda _: time.monotonic() < end, count(SEED + 1))


def run(play: Play, few: int, least: dict[str, int]) -> None:
    """Plays, and wants no fault. A short run tries each kind so often at least."""
    tried, faults = Counter[str](), []
    for number, kind, fault in play(numbers(few)):
        tried[kind] += 1
        faults += [f"SECONDS=0 SEED={number}: {kind}: {fault}"] if fault else []
    print(dict(tried))  # noqa: T201  (make fuzz shows it)
    assert faults == []
    assert not IS_SHORT or all(tried[kind] >= times for kind, times in least.items()), tried
