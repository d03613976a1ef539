"""The numbered cases of a run: a few, or with SEPU_FUZZ_SEED those from that number on, for SEPU_FUZZ_SECONDS."""

import os
import time
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import count, takewhile

SEED = int(os.environ.get("SEPU_FUZZ_SEED", "0"))
SECONDS = float(os.environ.get("SEPU_FUZZ_SECONDS", "0"))
IS_SHORT = "SEPU_FUZZ_SEED" not in os.environ

Played = tuple[int, str, str | None]
"""The number of a case, what it tried, and its fault, if any."""
Play = Callable[[Iterator[int]], Iterator[Played]]
"""Plays the cases with these numbers. A number always plays the same case."""


def numbers(few: int) -> Iterator[int]:
    """In a short run the first `few`; otherwise at least one, after which the time begins."""
    if IS_SHORT:
        yield from range(few)
        return
    yield SEED
    end = time.monotonic() + SECONDS
    yield from takewhile(lambda _: time.monotonic() < end, count(SEED + 1))


def assert_no_faults(play: Play, few: int, least: dict[str, int]) -> None:
    """Plays the cases, and fails on any fault. A short run must try each kind at least as often as `least` says."""
    tried, faults = Counter[str](), []
    for number, kind, fault in play(numbers(few)):
        tried[kind] += 1
        faults += [f"SECONDS=0 SEED={number}: {kind}: {fault}"] if fault else []
    print(dict(tried))  # noqa: T201  (make fuzz shows it)
    assert faults == []
    assert not IS_SHORT or all(tried[kind] >= times for kind, times in least.items()), tried
