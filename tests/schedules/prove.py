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
from tests.schedules.schedule import Schedule, Violation

from sepu.metering.batcher import Batcher

_JOB = 500


class Played(NamedTuple):
    """What came of some schedules."""

    schedules: int
    calls: int
    reached: Counter[str]
    failures: list[str]


def play(first: int, last: int, batcher: type[Batcher] = Batcher) -> Played:
    """Plays the schedules of these seeds."""
    played = Played(last - first, 0, Counter(), [])
    gc.disable()  # what it would look through again and again is short-lived
    for seed in range(first, last):
        schedule = Schedule(seed, batcher)
        try:
            schedule.play()
        except Violation as violation:
            played.failures.append(str(violation))
        played.reached.update(schedule.reached)
        played = played._replace(calls=played.calls + schedule.calls)
    gc.enable()
    return played


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
        sys.exit(not _replay(seed))
    began = monotonic()
    total = Played(0, 0, Counter(), [])
    for played in play_all(schedules):
        for failure in played.failures:
            click.echo(failure)
        before, total = (
            total,
            Played(
                total.schedules + played.schedules,
                total.calls + played.calls,
                total.reached + played.reached,
                total.failures + played.failures,
            ),
        )
        if total.schedules // 50_000 > before.schedules // 50_000:
            click.echo(f"{len(total.failures)} of {total.schedules:,} schedules failed, {monotonic() - began:.0f} s")
    for what, times in sorted(total.reached.items()):
        click.echo(f"{times:12,}  {what}")
    click.echo(f"{len(total.failures)} of {total.schedules:,} schedules with {total.calls:,} calls failed")
    if total.failures:
        click.echo("to see what happened: make prove-batcher SEED=the seed")
    sys.exit(bool(total.failures))


def _replay(seed: int) -> bool:
    schedule = Schedule(seed)
    try:
        schedule.play()
    except Violation as violation:
        click.echo("\n".join((*schedule.trace(), str(violation))))
        return False
    click.echo("\n".join((*schedule.trace(), f"seed {seed}: all held")))
    return True


if __name__ == "__main__":
    main()
