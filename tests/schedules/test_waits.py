"""Small scenes of the batcher on the simulated clock and database, where every wait has one length."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from random import Random

import pytest
from async_solipsism import EventLoop
from psycopg import OperationalError
from tests.schedules.database import Call, Database, Fate, KeyHash, SimulatedSession

from sepu import limits
from sepu.metering.batcher import Batcher
from sepu.metering.commands import Charge, meter_request
from sepu.metering.failure import LedgerUnavailable
from sepu.metering.key_format import Credential
from sepu.metering.nodes import NodeWatch
from sepu.metering.sending import _SWEEP_SECONDS

# Fast enough that no batch waits for clients.
LATENCY = 0.0006
CONNECT_SECONDS = 2 * LATENCY
STATEMENT_SECONDS = 1.5 * LATENCY
ROUNDING = 1e-6  # the clock's
OVERDUE = "ledger unavailable: Overdue: requests waited too long for a free connection"


class Even(Random):
    """Draws the middle of every range, so that no statement fails by chance."""

    def random(self) -> float:
        return 0.5


class Scene:
    """A batcher, its database, and what was sent and answered, with the virtual time."""

    def __init__(self, loop: EventLoop, *, batches: bool = True) -> None:
        self.loop = loop
        self.sent: list[tuple[float, list[str]]] = []  # accounts
        self.answers: list[tuple[float, str, object]] = []
        requests = dict.fromkeys("abcdefgh", 1000)
        self.database = Database(loop, Even(), requests, LATENCY, self._sent, lambda *_: None, lambda *_: None)
        self.batcher = Batcher("postgresql://one/sepu", batches=batches, loop=loop, connect=self.database.connect)
        self._calls = 0

    def ask(self, account: str, then: Callable[[], object] = lambda: None) -> None:
        """Charges an account."""
        self._calls += 1
        key_hash = KeyHash(account.encode())
        charge = Charge("color_match", 1, bytes(32), b"{}")
        command = meter_request(Credential(account, key_hash), f"key-{self._calls:04}", charge, "")
        key_hash.call = Call(self._calls, command, self.loop.time(), account)

        def done(answer: object) -> None:
            self.answers.append((self.loop.time(), account, getattr(answer, "outcome", answer)))
            then()

        self.batcher.submit(command, done)

    def ask_again(self, account: str, times: int) -> None:
        """Charges an account, and again soon after each answer."""
        again = partial(self.loop.call_later, 0.0002, self.ask_again, account, times - 1)
        self.ask(account, again if times else lambda: None)

    def run(self, seconds: float) -> None:
        self.loop.run_until_complete(_after(self.loop, seconds))

    def told(self) -> dict[str, object]:
        """The last answer of each account."""
        return {account: answer for _, account, answer in self.answers}

    def batches(self) -> list[int]:
        return [len(accounts) for _, accounts in self.sent]

    def _sent(self, _session: SimulatedSession, calls: list[Call]) -> None:
        self.sent.append((self.loop.time(), [call.account for call in calls]))


async def _after(loop: EventLoop, seconds: float) -> None:
    ended = loop.create_future()
    loop.call_later(seconds, ended.set_result, None)
    await ended


@contextmanager
def played(*, batches: bool = True, connected: bool = True) -> Iterator[Scene]:
    loop = EventLoop()
    scene = Scene(loop, batches=batches)
    if connected:
        loop.run_until_complete(scene.batcher.open())
    try:
        yield scene
        loop.run_until_complete(scene.batcher.close())
    finally:
        loop.close()


@pytest.mark.parametrize("later", [0.0, 0.004, 0.015])
def test_a_neighbour_of_a_slow_call_leaves_within_ten_milliseconds_though_nobody_else_calls(later: float) -> None:
    with played() as scene:
        scene.database.locked.add("a")
        scene.ask("a")
        scene.run(later)
        asked = scene.loop.time()
        scene.ask("b")
        scene.run(0.1)
        ((answered, account, outcome),) = scene.answers
        assert (account, outcome) == ("b", "charged")
        assert answered - asked <= limits.batches.OVERFLOW_SECONDS + CONNECT_SECONDS + STATEMENT_SECONDS + ROUNDING


@pytest.mark.parametrize("batches", [True, False])
@pytest.mark.parametrize("accounts", ["a", "aaa", "abab", "abcdef"])
def test_no_more_sessions_are_opened_than_accounts_have_calls_for(batches: bool, accounts: str) -> None:
    with played(batches=batches, connected=False) as scene:
        for account in accounts:
            scene.ask(account)
        scene.run(0.1)
        assert [outcome for *_, outcome in scene.answers] == ["charged"] * len(accounts)
        assert scene.database.most_sessions <= (1 if batches else len({*accounts}))


@pytest.mark.parametrize(("latency", "sent"), [(0.004, [1, 4, 4, 4, 4, 4, 3]), (LATENCY, [1, 3, 1, 3, 1, 3])])
def test_a_batch_waits_for_the_clients_of_a_slow_one(latency: float, sent: list[int]) -> None:
    """Otherwise the first client would be served alone, and the others after it."""
    with played() as scene:
        scene.database._latency = latency
        for account in "abcd":
            scene.ask_again(account, 5)
        scene.run(0.2)
        assert len(scene.answers) == 4 * 6
        assert scene.batches()[: len(sent)] == sent


def batch_of_four(scene: Scene, fate: Fate, latency: float = LATENCY) -> None:
    """Sends four calls in a batch that meets a fate, after a fifth that goes alone."""
    for account in "eabcd":
        scene.ask(account)
    scene.run(STATEMENT_SECONDS - LATENCY / 10)
    scene.database.fates, scene.database.faults, scene.database._latency = (fate,), 1.0, latency
    scene.run(LATENCY / 5)
    assert scene.sent[-1][1] == ["a", "b", "c", "d"]
    scene.database.faults, scene.database._latency = 0.0, LATENCY


def test_a_batchs_duplicate_is_one_calls() -> None:
    """The others have not been stored before, so they are charged; so is the one, if its key is free by then."""
    with played() as scene:
        batch_of_four(scene, Fate.DUPLICATE)
        scene.run(0.1)
        assert scene.told() == dict.fromkeys("eabcd", "charged")
        assert sorted(scene.batches()) == [1, 1, 3, 4]


@pytest.mark.parametrize("fate", [Fate.DUPLICATE, Fate.LOCKED])
def test_late_calls_of_a_refused_batch_are_not_sent_again_and_are_told_of_no_duplicate(
    fate: Fate, caplog: pytest.LogCaptureFixture
) -> None:
    with played() as scene:
        batch_of_four(scene, fate, latency=2 * limits.database.QUEUE_SECONDS)
        scene.run(2)
        told = scene.told()
        assert told.pop("e") == "charged"
        assert {type(answer) for answer in told.values()} == {LedgerUnavailable}
        assert scene.batches() == [1, 4]
    cause = {Fate.DUPLICATE: "UniqueViolation 23505", Fate.LOCKED: "LockNotAvailable 55P03"}[fate]
    assert [record.getMessage() for record in caplog.records] == [f"ledger unavailable: {cause}"]


def test_calls_without_a_turn_fail_in_time_and_leave_one_line_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    with played() as scene:
        scene.database.silent = True
        for account in "aaa":  # one after the other
            scene.ask(account)
        scene.run(limits.database.QUEUE_SECONDS + 1.3 * _SWEEP_SECONDS)
        assert [type(outcome) for *_, outcome in scene.answers] == [LedgerUnavailable] * 2
        assert [record.getMessage() for record in caplog.records] == [OVERDUE]


@pytest.mark.parametrize("batches", [True, False])
def test_an_isolated_accounts_session_is_kept_while_it_is_isolated(batches: bool) -> None:
    with played(batches=batches) as scene:
        scene.database.locked.add("a")
        scene.ask("a")
        scene.run(limits.database.LOCK_SECONDS + 0.1)
        scene.database.locked.clear()
        opened = scene.database._opened
        for _ in range(5):
            scene.ask("a")
            scene.run(1.3 * _SWEEP_SECONDS)
        assert len(scene.database.sessions) == 2
        assert scene.database._opened == opened + 1
        scene.run(limits.batches.ISOLATED_SECONDS + 2 * _SWEEP_SECONDS)
        assert len(scene.database.sessions) == 1


@pytest.mark.parametrize("batches", [True, False])
def test_an_isolated_account_does_not_wait_for_another(batches: bool) -> None:
    with played(batches=batches) as scene:
        for locked, seconds in (("ab", 2 * limits.database.LOCK_SECONDS), ("a", 0.1)):
            scene.database.locked = {*locked}
            scene.ask("a")
            scene.ask("b")
            scene.run(seconds)
        assert scene.told()["b"] == "charged"


def test_a_probe_looks_at_nodes_and_at_repaired_settings_in_a_new_session(monkeypatch: pytest.MonkeyPatch) -> None:
    """A setting of a role takes effect when a session begins."""
    looks: list[Sequence[str]] = []
    monkeypatch.setattr(NodeWatch, "look_if_due", lambda _, nodes: looks.append(nodes))
    with played() as scene:
        probed: list[bool] = []
        for broken in ("synchronous_commit", None):
            scene.database.probed = broken, "one:5432,two:5433"
            scene.batcher.probe(probed.append)
            scene.run(2 * limits.probes.PROBE_SECONDS)
        assert probed == [False, True]
        assert looks == [("one:5432", "two:5433")] * 2
        assert scene.database._opened == 3  # for charges, and one for each probe


def test_a_worker_without_a_session_looks_for_its_database_each_second() -> None:
    with played(connected=False) as scene:
        scene.database.refuses = True
        scene.batcher.probe_if_due()
        scene.run(limits.database.QUEUE_SECONDS + 2 * limits.database.RECONNECT_SECONDS)  # the probe has failed
        assert [slot for slot in scene.batcher._slots if slot.connecting] == [], "nobody waits for a session"
        scene.database.refuses = False
        scene.run(limits.probes.PROBE_SECONDS)
        scene.batcher.probe_if_due()
        scene.run(0.1)
        assert scene.batcher.is_connected()


def test_a_call_that_still_waits_for_a_lock_when_its_isolation_ends_keeps_its_session() -> None:
    with played() as scene:
        scene.database.locked.add("a")
        scene.ask("a")
        scene.run(limits.database.LOCK_SECONDS + limits.batches.ISOLATED_SECONDS - 0.2)
        scene.ask("a")
        scene.run(0.2 + 1.3 * _SWEEP_SECONDS)
        scene.database.locked.clear()
        scene.database.unblock()
        scene.run(0.1)
        assert [outcome for *_, outcome in scene.answers][1:] == ["charged"]


def test_a_call_that_is_put_back_goes_alone_if_its_account_was_isolated_meanwhile() -> None:
    with played() as scene:
        scene.database.locked |= {"a", "c"}
        for seconds in (limits.batches.ISOLATED_SECONDS + limits.database.LOCK_SECONDS - 0.2, 0.7):
            scene.ask("a")
            scene.run(seconds)
        for account in "bcad":  # the call of before fails while the last three are under way
            scene.ask(account)
        scene.run(limits.database.BATCH_LOCK_SECONDS + 0.1)
        assert [accounts for _, accounts in scene.sent if len(accounts) > 1] == [["c", "a", "d"]]
        assert ["a"] in [accounts for _, accounts in scene.sent[-3:]]


def slow_once(scene: Scene) -> None:
    """Opens the overflow's session too: a slow batch, and a neighbour."""
    scene.database._latency = 2 * limits.batches.OVERFLOW_SECONDS
    scene.ask("a")
    scene.run(0.001)
    scene.ask("b")
    scene.run(0.2)
    scene.database._latency = LATENCY
    assert scene.told() == {"a": "charged", "b": "charged"}


def test_each_slow_batch_starts_the_overflow() -> None:
    with played() as scene:
        slow_once(scene)
        scene.database.locked.add("c")
        scene.ask("c")
        scene.run(0.001)
        scene.ask("d")
        scene.run(0.1)  # a batch waits 0.2 s for a lock
        assert scene.told() == {"a": "charged", "b": "charged", "d": "charged"}


async def refused() -> SimulatedSession:
    raise OperationalError("too many connections")


def test_a_worker_waits_for_its_first_session_only_for_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    with played(connected=False) as scene:
        monkeypatch.setattr(scene.batcher, "_open_session", scene.loop.create_future)
        scene.loop.run_until_complete(scene.batcher.open())
        assert scene.loop.time() == limits.database.CONNECT_SECONDS


def test_an_open_overflow_serves_while_the_first_session_cannot_be_opened(monkeypatch: pytest.MonkeyPatch) -> None:
    with played() as scene:
        slow_once(scene)
        first, overflow = (slot.session for slot in scene.batcher.shared.slots)
        assert first is not None
        assert overflow is not None
        monkeypatch.setattr(scene.batcher, "_open_session", refused)
        first.close()
        scene.ask("c")
        scene.run(0.1)
        assert scene.told()["c"] == "charged"


def test_the_first_session_is_opened_though_the_overflow_is_connecting() -> None:
    with played() as scene:
        scene.database._latency = 2 * limits.batches.OVERFLOW_SECONDS
        scene.ask("a")
        scene.run(0.001)
        scene.ask("b")
        scene.run(limits.batches.OVERFLOW_SECONDS)
        first, overflow = scene.batcher.shared.slots
        assert overflow.connecting is not None
        assert first.session is not None
        first.session.close()
        scene.run(2 * limits.batches.GATHER_SECONDS)
        assert first.connecting is not None
        scene.run(0.2)
