"""How a worker recognises keys, by its database's secret, and which refusals it remembers."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from psycopg import Connection
from tests.harness.awaited_batcher import AwaitedBatcher
from tests.keys import holder_of, made_up_key

from sepu import limits
from sepu.admin import accounts
from sepu.metering.callers import Callers
from sepu.metering.commands import RATE_LIMITED, UNAUTHORIZED, admit
from sepu.metering.failure import LedgerUnavailable
from sepu.metering.key_format import Credential, KeyTags

OTHER = bytes(range(32))
HOLDER = Credential("a" * 16, bytes(32))


def played(url: str, scene: Callable[[AwaitedBatcher], Awaitable[None]]) -> None:
    async def play() -> None:
        async with AwaitedBatcher(url) as batcher:
            await scene(batcher)

    asyncio.run(play())


def test_before_the_secret_is_known_a_key_is_neither_right_nor_wrong(database_url: str) -> None:
    async def scene(batcher: AwaitedBatcher) -> None:
        with pytest.raises(LedgerUnavailable):
            batcher.callers.recognise(made_up_key("a" * 16))
        assert batcher.callers.recognise("nonsense") is None
        assert await batcher.ready()
        assert batcher.callers.recognise(made_up_key("a" * 16)) is None

    played(database_url, scene)


@pytest.mark.usefixtures("own_ledger")
def test_a_database_whose_secret_was_not_restored_serves_nobody_and_is_found_again(
    ledger_url: str, connection: Connection, caplog: pytest.LogCaptureFixture
) -> None:
    key = accounts.create_account(connection, "standard").api_key
    ((secret,),) = connection.execute("delete from sepu.key_secret returning secret").fetchall()

    async def scene(batcher: AwaitedBatcher) -> None:
        assert not await batcher.ready()
        with pytest.raises(LedgerUnavailable):
            batcher.callers.recognise(key)
        with pytest.raises(LedgerUnavailable):
            await batcher.run(admit(holder_of(key)))
        connection.execute("insert into sepu.key_secret (secret) values (%s)", [secret])
        assert await batcher.run(admit(holder_of(key))) == "ok"
        assert batcher.callers.recognise(key) == holder_of(key)

    played(ledger_url, scene)
    assert {record.getMessage() for record in caplog.records} == {"ledger unavailable: InvalidParameterValue 22023"}


@pytest.mark.usefixtures("own_ledger")
def test_another_database_behind_a_pooler_is_noticed_by_a_probe(
    ledger_url: str, connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The sessions do not break there. The new database's keys are recognised after the next probe."""
    monkeypatch.setattr(limits.probes, "PROBE_SECONDS", 0.0)
    account_id = accounts.create_account(connection, "standard").account_id

    async def scene(batcher: AwaitedBatcher) -> None:
        assert await batcher.ready()
        assert await batcher.run(admit(HOLDER)) == UNAUTHORIZED
        first = batcher.shared.slots[0].session
        assert batcher.callers.refusal(HOLDER) == UNAUTHORIZED
        connection.execute("update sepu.key_secret set secret = %s", [OTHER])
        key = KeyTags(OTHER).new_key(account_id)
        assert batcher.callers.recognise(key) is None
        assert await batcher.ready()
        assert batcher.callers.recognise(key) == holder_of(key)
        assert batcher.callers.refusal(HOLDER) is None, "another database may have issued that key"
        assert first is not None
        assert first.is_closed, "it may be one with the database before"
        assert await batcher.run(admit(HOLDER)) == UNAUTHORIZED

    played(ledger_url, scene)


def test_a_refusal_is_remembered_for_a_second_from_the_first() -> None:
    now = 100.0
    callers = Callers(lambda: now, lambda: True)
    assert callers.refusal(HOLDER) is None
    callers.remember(HOLDER.key_hash, UNAUTHORIZED)
    for _ in range(3):
        assert callers.refusal(HOLDER) == UNAUTHORIZED
    now += limits.batches.REFUSED_SECONDS * 0.99
    callers.remember(HOLDER.key_hash, UNAUTHORIZED)
    assert callers.refusal(HOLDER) == UNAUTHORIZED
    now += limits.batches.REFUSED_SECONDS * 0.02
    assert callers.refusal(HOLDER) is None


def test_a_key_over_its_limit_still_asks_a_few_times_and_no_other_key_is_refused() -> None:
    callers = Callers(lambda: 100.0, lambda: True)
    callers.remember(HOLDER.key_hash, RATE_LIMITED)
    told = [callers.refusal(HOLDER) for _ in range(limits.batches.LIMITED_CALLS + 2)]
    assert told == [None] * limits.batches.LIMITED_CALLS + [RATE_LIMITED] * 2
    assert callers.refusal(Credential(HOLDER.account_id, bytes(31) + b"1")) is None


def test_what_is_over_is_forgotten() -> None:
    """A revoked key occupies a few bytes for a second, so many of them do not add up."""
    now = 100.0
    callers = Callers(lambda: now, lambda: True)
    for number in range(1000):
        callers.remember(number.to_bytes(32, "big"), UNAUTHORIZED)
        now += limits.batches.REFUSED_SECONDS / 10
    assert len(callers._refusals) <= 21
