"""The service on a Citus cluster: whole requests run on the workers, and its guarantees hold."""

import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from threading import Event
from uuid import uuid4

import pytest
from psycopg import Connection
from tests.citus.cluster import Citus
from tests.citus.conftest import NO_BATCHES
from tests.citus.cost import session_kib
from tests.citus.soak import frozen
from tests.faults.history import History
from tests.faults.verdict import contradictory
from tests.harness.processes import until
from tests.harness.serving import Server, serving
from tests.http.contract import Case, World, check_case, every_case
from tests.nodes.traffic import crowded, on_plan

from sepu import limits
from sepu.admin.audit import audit
from sepu.admin.distribute import distribute
from sepu.admin.keys import IssuedKey
from sepu.admin.usage import show_usage
from sepu.database.opening import connect

pytestmark = pytest.mark.slow

# Calls of functions that take an account. The others, such as the probe, belong to the coordinator.
CALLS = """
    select coalesce(sum(s.calls), 0)::integer
      from pg_stat_user_functions s
      join pg_proc p on p.oid = s.funcid
     where s.schemaname = 'sepu' and p.proargnames[1] = 'p_account_id'
"""


def calls(url: str) -> int:
    """Counts one node's calls since its statistics were reset; sessions report theirs when they end."""
    with connect(url) as connection:
        ((count,),) = connection.execute(CALLS).fetchall()
    return int(count)


def test_nothing_of_a_request_runs_on_the_coordinator(url: str, spoilt: Connection, other: Citus) -> None:
    for cluster in (other.coordinator, *other.workers):
        with connect(cluster.url) as connection:
            connection.execute("select pg_stat_reset()")
    with serving("uvloop", url, options=NO_BATCHES) as server:
        issued = [on_plan(spoilt) for _ in range(8)]
        for each in issued:
            assert server.match(each, "where-0001").status == 200
            assert server.request("GET", "/v1/library", {"Authorization": f"Bearer {each.api_key}"}).status == 200
            assert server.request("GET", "/v1/usage", {"Authorization": f"Bearer {each.api_key}"}).status == 200
    until(lambda: all(calls(worker.url) for worker in other.workers))
    assert calls(other.coordinator.url) == 0


@pytest.mark.parametrize("mode", ["block_writes", "force_logical"])
def test_shards_move_beneath_traffic(url: str, spoilt: Connection, other: Citus, mode: str) -> None:
    """All tables' shards move together. An unlogged table cannot be replicated."""
    source, target = other.workers

    def move() -> None:
        with connect(other.url) as connection:
            if mode == "force_logical":
                connection.execute("alter table sepu.request_rate set logged")
            connection.execute(
                "select citus_move_shard_placement(min(p.shardid), '127.0.0.1', %s, '127.0.0.1', %s, %s)"
                "  from pg_dist_shard_placement p join pg_dist_shard s using (shardid)"
                " where s.logicalrelid = 'sepu.account'::regclass and p.nodeport = %s",
                [source.port, target.port, mode, source.port],
            )
            connection.execute("alter table sepu.request_rate set unlogged")

    with serving("uvloop", url, options=NO_BATCHES) as server:
        verdict, _ = crowded(spoilt, [server.address], 1200, move, operated=other.url)
    assert verdict.explain() == ""
    assert len(distribute(spoilt).workers) == 2


def test_joined_calls_are_right_too(url: str, spoilt: Connection, other: Citus) -> None:
    """They run on the coordinator, so they do not scale; but forgetting --no-batches loses no charge."""
    with serving("uvloop", url) as server:
        verdict, _ = crowded(spoilt, [server.address], 600, operated=other.url)
    assert verdict.explain() == ""


def test_a_lost_worker_affects_only_its_accounts(url: str, spoilt: Connection, other: Citus) -> None:
    issued = [on_plan(spoilt) for _ in range(12)]
    lost = other.workers[0]
    its = [each for each in issued if other.worker_of(each.account_id) == lost]
    others = [each for each in issued if each not in its]
    assert its
    assert others
    with serving("uvloop", url, options=NO_BATCHES) as server:
        history = History()
        match = partial(history.match, server)
        assert Counter(match(each, "lost-0001").status for each in issued) == {200: 12}
        lost.stop("immediate")
        try:
            assert {match(each, "lost-0002").status for each in others} == {200}
            assert {match(each, "lost-0002").status for each in its} == {503}
            time.sleep(limits.probes.PROBE_SECONDS)  # until the cached probe result expires
            assert server.request("GET", "/readyz").status == 200
        finally:
            lost.start("127.0.0.1")
        until(lambda: match(its[0], "lost-0002").status == 200)
        assert {match(each, "lost-0001").headers["idempotency-replayed"] for each in issued} == {"true"}
        assert {match(each, "lost-0002").status for each in issued} == {200}
    assert contradictory(spoilt, history) == []
    found = audit(spoilt)
    assert (found.results, found.differences) == (24, ())
    assert show_usage(spoilt, its[0].account_id).usage[0].committed == 2


def test_a_frozen_worker_leaves_the_sessions_to_others(url: str, spoilt: Connection, other: Citus) -> None:
    """A call to it hangs for a second, and its accounts have more clients than there are sessions.

    When its calls took all sessions, sixty seconds were too short for the others' five hundred answers.
    """
    issued = [on_plan(spoilt) for _ in range(12)]
    silent = other.workers[0]
    its = {each.account_id for each in issued if other.worker_of(each.account_id) == silent}
    others = {each.account_id for each in issued} - its
    assert its
    assert others
    answers = Counter[tuple[str, int]]()
    ended = Event()
    with serving("uvloop", url, workers=1, options=NO_BATCHES) as server, ThreadPoolExecutor(48) as pool:

        def ask(each: IssuedKey) -> None:
            while not ended.is_set():
                answers[each.account_id, server.match(each, str(uuid4())).status] += 1

        with frozen(silent):
            try:
                for each in issued * 4:
                    pool.submit(ask, each)
                until(lambda: sum(answers[account, 200] for account in others) > 500, seconds=60)
            finally:
                ended.set()


def test_a_session_of_a_worker_keeps_its_size(url: str, spoilt: Connection, other: Citus) -> None:
    """Citus keeps a copy of each generic plan that it executes: 80 MB after these charges."""
    issued = on_plan(spoilt)
    node = other.worker_of(issued.account_id)
    with serving("uvloop", url, workers=1, options=NO_BATCHES) as server:

        def charge(times: int) -> int:
            assert {server.match(issued, str(uuid4())).status for _ in range(times)} == {200}
            return session_kib(node)

        before = charge(40)
        assert charge(400) < before + 20 * 2**10


@every_case
def test_contract(case: Case, server: Server, cluster: Citus, connection: Connection, issued: IssuedKey) -> None:
    """SQL that a case keeps running goes to the worker: a transaction block on the coordinator is not delegated."""
    check_case(case, server, World(cluster.worker_of(issued.account_id).url, connection, issued))


def test_the_audit_is_right_beside_traffic(url: str, spoilt: Connection, other: Citus) -> None:
    found: list[object] = []

    def audits() -> None:
        with connect(other.url) as connection:
            found.extend(audit(connection).differences for _ in range(10))

    with serving("uvloop", url, options=NO_BATCHES) as server:
        verdict, _ = crowded(spoilt, [server.address], 1200, audits, operated=other.url)
    assert verdict.explain() == ""
    assert found == [()] * 10
