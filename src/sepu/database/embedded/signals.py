"""Handles signals while Postgres is started, runs and is stopped."""

import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import NoReturn

ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)


@contextmanager
def ended_by_exceptions() -> Iterator[None]:
    """Makes a signal that would end the process raise an exception once, so that clean-up runs."""

    def end(number: int, _frame: FrameType | None) -> NoReturn:
        for each in ending:
            signal.signal(each, signal.SIG_IGN)
        raise KeyboardInterrupt if number == signal.SIGINT else SystemExit(128 + number)

    ending = [each for each in ENDING if signal.getsignal(each) in (signal.SIG_DFL, signal.default_int_handler)]
    with _handled_by(end, ending):
        yield


@contextmanager
def signals_held() -> Iterator[None]:
    """Delays those signals until a process that is being started is known."""
    waiting: list[int] = []
    try:
        with _handled_by(lambda number, _frame: waiting.append(number), ENDING):
            yield
    finally:
        for number in waiting:
            signal.raise_signal(number)


@contextmanager
def _handled_by(handler: Callable[[int, FrameType | None], object], numbers: Sequence[int]) -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread handles signals
        return
    replaced = {number: signal.signal(number, handler) for number in numbers}
    try:
        yield
    finally:
        for number, before in replaced.items():
            signal.signal(number, before)
