"""When workers and commands look at the nodes of a Citus cluster, and what comes of it. tests/citus has real nodes."""

import asyncio
import time
from collections.abc import Mapping, Sequence
from contextlib import closing
from typing import Any, LiteralString

import psycopg
import pytest
from async_solipsism import EventLoop

from sepu import limits
from sepu.database import nodes
from sepu.database.connection import NodeSilentError
from sepu.database.opening import connect
from sepu.metering.codec import Rows
from sepu.metering.nodes import NodeWatch
from sepu.metering.observer import LedgerObserver
from sepu.metering.session import Session, SessionLost

STATE = '{"broken":[%s],"ahead":0,"audits":0,"audited":null}'
ANSWERS: dict[str, Rows | Exception] = {
    "silent": SessionLost(),
    "refused": psycopg.errors.InsufficientPrivilege(),
    "good": [(True, STATE % "")],
    "dead": [(False, "failed to connect to dead:1: no route")],
    "unsafe": [(True, STATE % '["fsync","off","on","the server"]')],
    "mute": SessionLost(),
}


class Coordinator(Session):
    def __init__(self) -> None:
        self.is_closed = False

    async def ask(self, _statement: LiteralString, parameters: Sequence[Any]) -> Rows | Exception:
        outcome = SessionLost() if self.is_closed else ANSWERS[parameters[0]]
        self.is_closed = isinstance(outcome, SessionLost)
        return outcome

    def close(self) -> None:
        self.is_closed = True


def test_nodes_are_looked_at_again_in_time_and_a_silent_one_spoils_no_other(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    # Each of two looks needs three sessions, because two nodes are silent; the third cannot be opened.
    errors = iter([None, None, TimeoutError(), None, None, psycopg.OperationalError(), None])

    async def connected() -> Session:
        if error := next(errors):
            raise error
        opened.append(Coordinator())
        return opened[-1]

    kinds = ("no answer", "error", "", "connection", "fsync", "no answer")
    told = {f"{name}:1": kind for name, kind in zip(ANSWERS, kinds, strict=True)}
    looks: list[Mapping[str, str]] = []
    opened: list[Session] = []
    monkeypatch.setattr(LedgerObserver, "looked_at_nodes", lambda _, problems: looks.append(problems))
    with closing(EventLoop()) as loop:
        watch = NodeWatch(connected, loop, LedgerObserver())
        for number in (1, 1, 2):
            watch.look_if_due([*told, "unasked:1"])
            loop.run_until_complete(asyncio.sleep(0.6 * limits.probes.NODES_SECONDS))
            assert looks == [told] * number
        loop.run_until_complete(asyncio.sleep(limits.probes.NODES_SECONDS))
        watch.look_if_due(["good:1"])
        loop.run_until_complete(asyncio.sleep(1))
    assert looks[2:] == [{"good:1": ""}]
    assert [session.is_closed for session in opened] == [True] * 5
    assert "node unsafe:1: fsync is off instead of on; see: sepu db check" in caplog.messages


def test_a_statement_ends_when_a_node_is_silent_twice_in_a_row(empty_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    answers = [nodes.NO_ANSWER, nodes.NO_ANSWER, (True, "t"), nodes.NO_ANSWER]
    looks: dict[float, Any] = {}
    monkeypatch.setattr("sepu.database.connection._SLOW_SECONDS", 0.2)
    monkeypatch.setattr(nodes, "other_nodes", lambda _: ["silent:1"])
    monkeypatch.setattr(nodes.NodeConnection, "ask", lambda *_: looks.setdefault(time.monotonic(), answers.pop()))
    with connect(empty_url) as connection, pytest.raises(NodeSilentError, match="silent:1"):
        connection.execute("select pg_sleep(9)")
    monkeypatch.undo()  # the fixture's own statement may be slow
    assert answers == []
    assert max(looks) - min(looks) >= 3 * 0.2
