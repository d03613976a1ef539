"""Faults of a Citus cluster in a soak: nodes are killed and frozen, and shards move.

`make soak CITUS=3` runs it with three workers.
"""

import asyncio
import os
import signal
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress

import psycopg
from psycopg.conninfo import make_conninfo
from tests.citus.cluster import Citus, citus, empty_node, running_with, why_not
from tests.faults.plans import open_accounts
from tests.faults.soak import Plan, Stage
from tests.harness.injection import Injector
from tests.harness.postgres import Cluster
from tests.harness.processes import children
from tests.harness.serving import Server

from sepu.database.opening import DatabaseError, connect

KILL_SECONDS, FREEZE_SECONDS, MOVE_SECONDS = 15, 20, 10  # mean time between faults of a kind
LONGEST_FROZEN_SECONDS = 6
# Moves a shard of the accounts, and the shards colocated with it, to another worker.
MOVE = """
    select citus_move_shard_placement(
               shard.shardid, shard.nodename, shard.nodeport, node.nodename, node.nodeport, 'block_writes')
      from (select shardid, nodename, nodeport from citus_shards
             where table_name = 'sepu.account'::regclass order by random() limit 1) shard,
           lateral (select nodename, nodeport from pg_dist_node
                     where groupid > 0 and nodeport <> shard.nodeport order by random() limit 1) node
"""


@contextmanager
def frozen(node: Cluster) -> Iterator[None]:
    """Stops all processes of a node: its connections stay open, but nothing answers."""
    postmaster = int((node.data / "postmaster.pid").read_text().split()[0])
    os.kill(postmaster, signal.SIGSTOP)  # first, so that it starts no more
    pids = [postmaster, *(child.pid for child in children(postmaster))]
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in reversed(pids):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)


class ClusterInjector(Injector):
    """Kills workers of the service, kills and freezes nodes, including the coordinator, and moves shards."""

    kinds = ("workers killed", "nodes killed", "nodes frozen", "shards moved")

    def __init__(self, server: Server, cluster: Citus, worker_kill_seconds: float, seed: int) -> None:
        super().__init__(server, seed)
        self._cluster = cluster
        self._nodes = (cluster.coordinator, *cluster.workers)
        self._worker_kill_seconds = worker_kill_seconds

    async def inject(self) -> None:
        async with asyncio.TaskGroup() as kinds:
            for mean, fault in (
                (self._worker_kill_seconds, self._kill_worker),
                (KILL_SECONDS, self._kill_node),
                (FREEZE_SECONDS, self._freeze_node),
                (MOVE_SECONDS, self._move_shard),
            ):
                kinds.create_task(self._again_and_again(mean, fault))

    async def _kill_node(self) -> None:
        async with self._one:
            node, began = self._random.choice(self._nodes), time.monotonic()
            try:
                await asyncio.to_thread(node.stop, "immediate")
                await asyncio.sleep(self._random.uniform(0, 2))
            finally:  # also when cancelled
                node.start("127.0.0.1")
                self.crashes.append((began, time.monotonic() + 1))
            self.done["nodes killed"] += 1

    async def _freeze_node(self) -> None:
        async with self._one:
            with frozen(self._random.choice(self._nodes)):
                await asyncio.sleep(self._random.uniform(1, LONGEST_FROZEN_SECONDS))
            self.done["nodes frozen"] += 1

    async def _move_shard(self) -> None:
        # Between the other faults, which would make it fail.
        async with self._one:
            if await asyncio.to_thread(self._move):
                self.done["shards moved"] += 1

    def _move(self) -> bool:
        try:
            with connect(self._cluster.url) as connection:
                connection.execute("set lock_timeout = '10s'")
                connection.execute(MOVE)
        except (DatabaseError, psycopg.Error):  # a node is still recovering
            return False
        return True


@contextmanager
def staged_on_citus(plan: Plan, workers: int) -> Iterator[Stage]:
    """Runs a distributed cluster."""
    if reason := why_not():
        raise SystemExit(reason)
    with ExitStack() as stack:
        cluster = stack.enter_context(citus())
        cluster.distribute()
        for number in range(len(cluster.workers), workers):
            cluster = running_with(cluster, stack.enter_context(empty_node(number)))
        with connect(cluster.url) as connection:
            holders = open_accounts(connection, plan.crowd)
        yield Stage(
            cluster.url,
            make_conninfo(cluster.url, user="sepu_service"),
            holders,
            lambda server: ClusterInjector(server, cluster, plan.pace.worker_kill, plan.seed),
            options=("--no-batches",),
        )
