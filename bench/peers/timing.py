"""Times calls that answer the same question, in turns."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median
from timeit import Timer
from typing import Any

ROUNDS = 7
BLOCK = 0.01  # seconds

Row = tuple[str, ...]  # of a table: who, the time, and what else is told


@dataclass(frozen=True)
class Call:
    """A call and the number of colours, pairs or queries that it takes; `fault` says why it is not timed."""

    who: str
    run: Callable[..., object] = print
    arguments: tuple[Any, ...] = ()
    things: int = 1
    fault: str = ""


def seconds(calls: Sequence[Call]) -> list[float]:
    """Returns the median time for one colour, pair or query, of each call."""
    timers = []
    for call in calls:
        # Written out: a lambda or an unpacking would add to the time.
        names = {f"a{number}": argument for number, argument in enumerate(call.arguments)}
        timers.append(Timer(f"run({', '.join(names)})", globals={"run": call.run, **names}))
    numbers = [max(1, round(BLOCK / min(timer.repeat(3, 1)))) for timer in timers]
    rounds = [
        [timer.timeit(number) / number for timer, number in zip(timers, numbers, strict=True)] for _ in range(ROUNDS)
    ]
    return [median(times) / call.things for call, times in zip(calls, zip(*rounds, strict=True), strict=True)]


def in_words(seconds: float) -> str:
    for unit, size in (("s", 1), ("ms", 1e-3), ("µs", 1e-6)):
        if seconds >= size:
            return f"{seconds / size:,.3g} {unit}"
    return f"{seconds / 1e-9:.3g} ns"
