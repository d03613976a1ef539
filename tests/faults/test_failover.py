"""A primary with a standby: the service follows a failover, and piles up no calls while commits wait."""

import asyncio
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from itertools import chain
from urllib.parse import quote

import pytest
from tests.faults.history import History
from tests.faults.verdict import contradictory
from tests.harness.injection import start, stop_at_once
from tests.harness.processes import until
from tests.harness.serving import serving
from tests.harness.standby import await_replay, make_synchronous, replicated, until_replicated

from sepu.admin import accounts
from sepu.admin.audit import audit
from sepu.admin.export import why_unfinished
from sepu.admin.keys import IssuedKey
from sepu.admin.usage import show_usage

BACK_SECONDS = 1 + 5  # the promise, plus allowance for a busy machine
CUT_SECONDS = 5.0
SESSIONS = {"uvloop": 6, "gthread": 16}  # at most, per worker process
CLIENTS = 24
ROUNDS = 12  # more than fit into the time
WAITING = "select count(*) from pg_stat_activity where wait_event = 'SyncRep'"


@pytest.mark.parametrize(
    ("worker", "old_primary"),
    [
        ("uvloop", "alive and read-only"),
        pytest.param("uvloop", "dead", marks=pytest.mark.slow),
        pytest.param("gthread", "alive and read-only", marks=pytest.mark.slow),
        pytest.param("gthread", "dead", marks=pytest.mark.slow),
    ],
)
def test_the_service_follows_a_failover_at_once(worker: str, old_primary: str) -> None:
    with replicated() as (first, (second, _), primary, standby, issued):
        # Without target_session_attrs, which the service sets by itself.
        hosts = ",".join(quote(str(state_dir / "socket"), safe="") for state_dir in (first, second))
        with serving(worker, f"postgresql://sepu@/postgres?host={hosts}", workers=1) as server:
            history = History()
            answers = {key: history.match(server, issued, key) for key in ("failover-1", "failover-2")}
            assert {answer.status for answer in answers.values()} == {200}
            await_replay(primary, standby)
            assert "this is a standby" in str(why_unfinished(standby, "2026-01"))

            if old_primary == "dead":
                asyncio.run(stop_at_once(first))
            else:  # it still answers existing connections
                primary.execute("alter system set default_transaction_read_only = on")
                primary.execute("select pg_reload_conf()")
            standby.execute("select pg_promote()")
            until(lambda: history.match(server, issued, "failover-3").status == 200, seconds=BACK_SECONDS)

            assert all(history.match(server, issued, key).body == answer.body for key, answer in answers.items())
            assert contradictory(standby, history) == []
            assert audit(standby).differences == ()
            assert show_usage(standby, issued.account_id).usage[0].committed == 3
            if old_primary != "dead":
                assert show_usage(primary, issued.account_id).usage[0].committed == 2


@pytest.mark.slow
@pytest.mark.parametrize("worker", SESSIONS)
def test_calls_given_up_leave_no_back_end_each(worker: str) -> None:
    """The standby is cut off, so commits wait for it forever."""
    with replicated() as (first, (second, second_url), primary, standby, _):
        # Each call has its own account: calls of one account would wait for its row instead of the standby.
        holders = [accounts.create_account(primary, "standard") for _ in range(CLIENTS * ROUNDS)]
        make_synchronous(primary, standby)
        first_url = f"postgresql://sepu@/postgres?host={quote(str(first / 'socket'), safe='')}"
        until_replicated(first_url, second_url)
        with serving(worker, first_url, workers=1) as server, ThreadPoolExecutor(CLIENTS) as threads:
            assert server.match(holders[0], "before-01").status == 200
            standby.close()
            asyncio.run(stop_at_once(second))
            end = time.monotonic() + CUT_SECONDS

            def ask(client: int) -> list[tuple[IssuedKey, int, str | None]]:
                told: list[tuple[IssuedKey, int, str | None]] = []
                for holder in holders[client::CLIENTS]:
                    if time.monotonic() < end:
                        answer = server.match(holder, "cut-off-1")
                        told.append((holder, answer.status, answer.error))
                return told

            told = list(chain.from_iterable(threads.map(ask, range(CLIENTS))))
            assert {one[1:] for one in told} == {(503, "usage_commit_failed")}
            ((waiting,),) = primary.execute(WAITING).fetchall()
            assert 0 < waiting <= SESSIONS[worker]

            start(second)
            until(lambda: primary.execute("select sync_state from pg_stat_replication").fetchall() == [("sync",)])
            until(lambda: server.match(holders[0], "after-001").status == 200)
            until(lambda: primary.execute(WAITING).fetchall() == [(0,)])  # each commit waits for a moment

            replays = Counter[str | None]()
            for holder, _, _ in told:
                again = server.match(holder, "cut-off-1")
                assert again.status == 200
                replays[again.headers.get("idempotency-replayed")] += 1
                charged = 1 + 2 * (holder is holders[0])
                assert show_usage(primary, holder.account_id).usage[0].committed == charged
            assert replays["true"] > 0, "what had committed on one host is replayed"
            assert audit(primary).differences == ()
