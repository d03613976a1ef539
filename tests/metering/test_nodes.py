"""When a worker looks at the nodes of a Citus cluster, and what it reports of each. tests/citus has real nodes."""

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import closing
from typing import Any, LiteralString

import pytest
from async_solipsism import EventLoop

from sepu import limits
from sepu.metering.codec import Rows
from sepu.metering.nodes import NodeWatch
from sepu.metering.observer import LedgerObserver
from sepu.metering.session import Session, SessionLost

STATE = '{"broken":[%s],"ahead":0,"audits":0,"audited":null}'
ANSWERS: dict[str, Rows | Exception] = {
    "silent": SessionLost(),
    "good": [(True, STATE % "")],
    "dead": [(False, "failed to connect to dead:1: no route")],
    "unsafe": [(True, STATE % '["fsync","off","on","the server"]')],
}


OPENED: list[Session] = []


class Coordinator(Session):
    def __init__(self) -> None:
        self.is_closed = False
        OPENED.append(self)

    async def ask(self, _statement: LiteralString, parameters: Sequence[Any]) -> Rows | Exception:
        outcome = SessionLost() if self.is_closed else ANSWERS[parameters[0]]
        self.is_closed = isinstance(outcome, SessionLost)
        return outcome

    def close(self) -> None:
        self.is_closed = True


async def connected() -> Session:
    return Coordinator()


def test_nodes_are_looked_at_again_in_time_and_a_silent_one_spoils_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    looks: list[Mapping[str, str]] = []
    monkeypatch.setattr(LedgerObserver, "looked_at_nodes", lambda _, problems: looks.append(problems))
    with closing(EventLoop()) as loop:
        watch = NodeWatch(connected, loop, LedgerObserver())
        for number in (1, 1, 2):
            watch.look_if_due([f"{name}:1" for name in ANSWERS])
            loop.run_until_complete(asyncio.sleep(0.6 * limits.probes.NODES_SECONDS))
            told = {"silent:1": "no answer", "good:1": "", "dead:1": "connection", "unsafe:1": "fsync"}
            assert looks == [told] * number
            assert all(session.is_closed for session in OPENED)
