"""A Citus cluster for one test, on ports of this machine, made by the commands of the pages."""

import os
import re
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from psycopg.conninfo import make_conninfo
from tests.harness.postgres import Cluster
from tests.harness.proxy import socket_directory
from tests.harness.serving import SEPU, free_port
from tests.programs import installed
from tests.walk.pages import commands

from sepu.database.opening import connect

# The pg_config of a Postgres with Citus; by default the one on the path.
PG_CONFIG = os.environ.get("SEPU_CITUS_PG_CONFIG", "pg_config")

ROOT = Path(__file__).parents[2]
CITUS = (ROOT / "docs" / "citus.md").read_text()
# Addresses on the page, in the order in which the nodes are added.
COORDINATOR, WORKERS = "10.0.0.10", ("10.0.0.11", "10.0.0.12", "10.0.0.13")
WORKER = """
    select n.nodeport from pg_dist_node n join pg_dist_placement p using (groupid)
     where p.shardid = get_shard_id_for_distribution_column('sepu.account', %s::text)
"""


def _asked(option: str) -> Path:
    program = installed(PG_CONFIG) or PG_CONFIG
    return Path(subprocess.run([program, option], capture_output=True, text=True, check=True).stdout.strip())


def worker_settings() -> dict[str, str]:
    """The settings of docs/citus.md for workers only."""
    (block,) = re.findall(r"conf\.d/worker\.conf <<'X'\n(.*?)\nX\n", CITUS, re.DOTALL)
    return dict(re.findall(r"^(\w+) = (.*)$", block, re.MULTILINE))


def why_not() -> str | None:
    if installed(PG_CONFIG) is None:
        return f"no {PG_CONFIG}: SEPU_CITUS_PG_CONFIG names the pg_config of a Postgres with Citus"
    if not (_asked("--sharedir") / "extension" / "citus.control").exists():
        return f"the Postgres of {PG_CONFIG} has no Citus; SEPU_CITUS_PG_CONFIG names another"
    return None


@dataclass(frozen=True)
class Node(Cluster):
    """A node; its superuser connects to the database of the pages."""

    @property
    def url(self) -> str:
        return make_conninfo(super().url, dbname="sepu")


@dataclass(frozen=True)
class Citus:
    coordinator: Node
    workers: tuple[Node, ...]

    @property
    def url(self) -> str:
        return self.coordinator.url

    @property
    def owner_url(self) -> str:
        return make_conninfo(self.coordinator.url, user="sepu_owner")

    def worker_of(self, account_id: str) -> Node:
        """The worker that has the account, once the ledger is distributed."""
        with connect(self.url) as connection:
            ((port,),) = connection.execute(WORKER, [account_id]).fetchall()
        return next(worker for worker in self.workers if worker.port == port)

    def distribute(self) -> None:
        """Distributes the ledger as the page says."""
        for command in (*steps("**4. Dist", "**5. Serve**"), *steps("**6. Empty", "## Operating a cluster")):
            self.run(command)

    def run(self, command: str, node: Node | None = None) -> None:
        """Runs a command of a page on a node, by default the coordinator, with this cluster's addresses."""
        node = node or self.coordinator
        addresses = {COORDINATOR: self.coordinator, **dict(zip(WORKERS, self.workers, strict=False))}
        for address, other in addresses.items():
            command = command.replace(f"'{address}', 5432", f"'127.0.0.1', {other.port}")
        own = {"SEPU_DATABASE_URL": self.owner_url, "SEPU": str(SEPU)}
        as_here = (
            'runuser() { while [ "$1" != -- ]; do shift; done; shift; "$@"; }; '
            'sepu() { "$SEPU" "$@"; }; set -e; PGOPTIONS= ; psql() { command psql -v ON_ERROR_STOP=1 "$@"; }; '
        )
        done = subprocess.run(
            ["bash", "-c", as_here + command.replace("/opt/sepu/bin/sepu", "sepu")],
            capture_output=True,
            text=True,
            env={**os.environ, **node.environment, **own},
            cwd=ROOT,
            check=False,
        )
        assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"


def steps(heading: str, until: str) -> list[str]:
    """The commands of docs/citus.md between two texts."""
    return list(commands("citus.md", CITUS[CITUS.index(heading) : CITUS.index(until)]))


def database_commands() -> list[str]:
    """The commands of docs/deploy.md that create the database, without those for passwords, and for a first account."""
    text = (ROOT / "docs" / "deploy.md").read_text().partition("**The database.**")[2]
    found = list(commands("deploy.md", text[: text.index("These settings")]))
    return [command for command in found if not re.search(r"make-role\.sh|install -d|export|account create", command)]


@contextmanager
def empty_node(number: int) -> Iterator[Node]:
    """A server with Citus loaded. Unlike other tests' servers, it has fsync: workers without it do not charge."""
    settings = {
        "shared_preload_libraries": "citus",
        "citus.node_conninfo": "sslmode=disable",
        "citus.shard_count": "8",
        "track_functions": "all",
        "max_prepared_transactions": "50",
        "wal_level": "logical",  # to move shards under traffic
    }
    with ExitStack() as stack:
        node = Node(stack.enter_context(socket_directory()), free_port(), _asked("--bindir"))
        node.initialise(**settings, **(worker_settings() if number else {}))
        node.configure(fsync="on")
        stack.enter_context(node.running("127.0.0.1"))
        yield node


@contextmanager
def citus() -> Iterator[Citus]:
    """A running cluster, made as the pages say: the ledger is there, but not distributed yet. Skips without Citus."""
    if reason := why_not():
        pytest.skip(reason)
    with ExitStack() as stack:
        nodes = [stack.enter_context(empty_node(number)) for number in range(3)]
        running = Citus(nodes[0], tuple(nodes[1:]))
        with connect(super(Node, running.coordinator).url) as connection:
            # As make-role.sh does, without its passwords.
            connection.execute("create role sepu_owner login")
            connection.execute("create role sepu_service login connection limit 60")
            connection.execute("alter role sepu_service set temp_file_limit = '1GB'")
        for command in database_commands():
            running.run(command)
        here = running.workers  # they create the database
        for command in steps("**3. Create the cluster.**", "**4. Distribute the tables.**"):
            if "create extension" in command:
                here = (running.coordinator,)
            of_all = "create extension" in command or "close-public" in command
            for node in (running.coordinator, *running.workers) if of_all else here:
                running.run(command, node)
        yield running


def running_with(cluster: Citus, node: Node) -> Citus:
    """Adds a worker to a cluster with a distributed ledger, and moves accounts there, as the page says."""
    found = Citus(cluster.coordinator, (*cluster.workers, node))
    for command in steps("**3. Create the cluster.**", "Run `create extension` on all nodes"):
        found.run(command, node)
    found.run('psql sepu -c "create extension citus"', node)
    for command in steps("**Another worker**", "If you forget the first command"):
        command = re.sub(r"'10\.0\.0\.13', 5432", f"'127.0.0.1', {node.port}", command)
        found.run(command, node if "close-public" in command else None)
    return found
