"""A Citus cluster for one test: a coordinator and two workers, on ports of this machine."""

import os
import re
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.harness.postgres import Cluster
from tests.harness.proxy import socket_directory
from tests.harness.serving import free_port
from tests.programs import installed

from sepu.database.opening import connect

# The pg_config of a Postgres with Citus; by default the one on the path.
PG_CONFIG = os.environ.get("SEPU_CITUS_PG_CONFIG", "pg_config")

SCALING = (Path(__file__).parents[2] / "docs" / "scaling.md").read_text()
WORKER = """
    select n.nodeport from pg_dist_node n join pg_dist_placement p using (groupid)
     where p.shardid = get_shard_id_for_distribution_column('sepu.account', %s::text)
"""


def _asked(option: str) -> Path:
    program = installed(PG_CONFIG) or PG_CONFIG
    return Path(subprocess.run([program, option], capture_output=True, text=True, check=True).stdout.strip())


def worker_settings() -> dict[str, str]:
    """The settings of docs/scaling.md for workers only."""
    (block,) = re.findall(r"conf\.d/worker\.conf <<'X'\n(.*?)\nX\n", SCALING, re.DOTALL)
    return dict(re.findall(r"^(\w+) = (.*)$", block, re.MULTILINE))


def why_not() -> str | None:
    if installed(PG_CONFIG) is None:
        return f"no {PG_CONFIG}: SEPU_CITUS_PG_CONFIG names the pg_config of a Postgres with Citus"
    if not (_asked("--sharedir") / "extension" / "citus.control").exists():
        return f"the Postgres of {PG_CONFIG} has no Citus; SEPU_CITUS_PG_CONFIG names another"
    return None


@dataclass(frozen=True)
class Citus:
    coordinator: Cluster
    workers: tuple[Cluster, ...]

    @property
    def url(self) -> str:
        return self.coordinator.url

    def worker_of(self, account_id: str) -> Cluster:
        """The worker that has the account, once the ledger is distributed."""
        with connect(self.url) as connection:
            ((port,),) = connection.execute(WORKER, [account_id]).fetchall()
        return next(worker for worker in self.workers if worker.port == port)


@contextmanager
def citus(workers: int = 2) -> Iterator[Citus]:
    """A running cluster without our schema."""
    programs = _asked("--bindir")
    settings = {
        "shared_preload_libraries": "citus",
        "citus.node_conninfo": "sslmode=disable",
        "citus.shard_count": "8",
        "track_functions": "all",
        "max_prepared_transactions": "50",
        "wal_level": "logical",  # to move shards under traffic
    }
    with ExitStack() as stack:
        nodes = []
        for number in range(workers + 1):
            node = Cluster(stack.enter_context(socket_directory()), free_port(), programs)
            node.initialise(**settings, **(worker_settings() if number else {}))
            stack.enter_context(node.running("127.0.0.1"))
            with connect(node.url) as connection:
                connection.execute("create extension citus")
            nodes.append(node)
        coordinator, *others = nodes
        with connect(coordinator.url) as connection:
            connection.execute("select citus_set_coordinator_host('127.0.0.1', %s)", [coordinator.port])
            for other in others:
                connection.execute("select citus_add_node('127.0.0.1', %s)", [other.port])
        yield Citus(coordinator, tuple(others))
