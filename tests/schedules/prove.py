"""`make prove-batcher`: the batcher in many schedules, on all cores; or in one of them, with its trace."""

import gc
import sys
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from time import monotonic
from typing import NamedTuple

import click
from tests.schedules.schedule import Schedule

from sepu.metering.batcher import Batcher

_JOB = 500
_TOLD = 50_000  # schedules between two lines of progress


class Played(NamedTuple):
    """What came of some schedules."""

    calls: int
    reached: Counter[str]
    failures: list[str]


def play(first: int, last: int, batcher: type[Batcher] = Batcher) -> Played:
    """Plays the schedules of these seeds."""
    calls, reached, failures = 0, Counter[str](), []
    gc.disable()  # what it would look through again and again is short-lived
    for seed in range(first, last):
        schedule = Schedule(seed, batcher)
        schedule.play()
        if schedule.broken:
            failures.append(f"seed {seed}: {'; '.join(schedule.broken)}")
        reached.update(schedule.reached)
        calls += schedule.calls
    gc.enable()
    return Played(calls, reached, failures)


def play_all(schedules: int) -> Iterator[Played]:
    """Plays that many on all cores; tells of some at a time."""
    firsts = range(0, schedules, _JOB)
    with ProcessPoolExecutor(mp_context=get_context("spawn")) as pool:  # whoever asks may have threads
        yield from pool.map(play, firsts, [min(first + _JOB, schedules) for first in firsts])


@click.command()
@click.option("--schedules", default=1_000_000, show_default=True)
@click.option("--seed", type=int, help="Play this one, and print what happened.")
def main(schedules: int, seed: int | None) -> None:
    """Plays schedules of the batcher; fails if something did not hold in one."""
    if seed is not None:
        schedule = Schedule(seed)
        schedule.play()
        click.echo("\n".join((*schedule.trace(), f"seed {seed}: {'; '.join(schedule.broken) or 'all held'}")))
        sys.exit(bool(schedule.broken))
    began = monotonic()
    calls, reached, failed = 0, Counter[str](), 0
    for number, played in enumerate(play_all(schedules), start=1):
        calls += played.calls
        reached += played.reached
        failed += len(played.failures)
        for failure in played.failures:
            click.echo(failure)
        if number * _JOB % _TOLD == 0:
            click.echo(f"{failed} of {number * _JOB:,} schedules failed, {monotonic() - began:.0f} s")
    for what, times in sorted(reached.items()):
        click.echo(f"{times:12,}  {what}")
    click.echo(f"{failed} of {schedules:,} schedules with {calls:,} calls failed")
    if failed:
        click.echo("to see what happened: make prove-batcher SEED=the seed")
    sys.exit(bool(failed))


if __name__ == "__main__":
    main()
