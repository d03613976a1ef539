"""The batcher on a simulated clock, network and database."""

import gc
import os
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import psycopg
import pytest
from tests.schedules.schedule import Schedule

from sepu.metering.session import SessionLost

_JOB = 400
REPEAT = "repeat: .venv/bin/python -c 'from tests.schedules.test_schedules import play; print(*play({}, 1)[1])'"
REACHED = {"charged", "ok", "request_in_progress", "rate_limited", "sent again", "call that goes alone"}
REACHED |= {"batch beside another", "overdue", "unauthorized"}
REACHED |= {"rate_limited without asking", "unauthorized without asking"}
ERRORS = (SessionLost, psycopg.errors.LockNotAvailable, psycopg.errors.UniqueViolation)


def play(first: int, number: int = _JOB) -> tuple[Counter[str], list[str]]:
    """Plays some schedules: the events reached, and the violations, with the first failing schedule's trace."""
    reached, failures = Counter[str](), list[str]()
    gc.disable()  # it would scan short-lived objects again and again
    for seed in range(first, first + number):
        schedule = Schedule(seed)
        schedule.play()
        if schedule.broken:
            failures += [] if failures else schedule.trace()
            failures.append(f"seed {seed}: {'; '.join(schedule.broken)}; {REPEAT.format(seed)}")
        reached.update(schedule.reached)
    gc.enable()
    return reached, failures


@pytest.mark.parametrize(
    "schedules", [_JOB, pytest.param(int(os.environ.get("SEPU_SCHEDULES", "2000")), marks=pytest.mark.slow)]
)
def test_all_holds(schedules: int) -> None:
    reached = Counter[str]()
    with ProcessPoolExecutor(mp_context=get_context("spawn")) as pool:  # the parent may have threads
        played = pool.map(play, range(0, schedules, _JOB)) if schedules > _JOB else [play(0)]
        for also_reached, failures in played:
            assert not failures, "\n".join(failures)
            reached += also_reached
    assert REACHED | {error.__name__ for error in ERRORS} <= reached.keys()
