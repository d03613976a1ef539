"""Prints the cost of a charge on Citus and on plain Postgres, alternating: `python -m tests.citus.cost [CHARGES]`.

Custom plans are what `db distribute` sets. Generic plans save time only in a Citus that finds its cached local plans.
"""

import sys
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from uuid import uuid4

import psutil
from tests.citus.cluster import Citus, citus
from tests.harness.postgres import Cluster
from tests.harness.processes import children
from tests.harness.proxy import socket_directory
from tests.keys import holder_of
from tests.nodes.traffic import on_plan

from sepu.database.migrate import migrate
from sepu.database.opening import connect
from sepu.metering.commands import Charge, meter_request

ROUNDS = 5
DELEGATED = """
    select oid::regprocedure::text from pg_proc
     where pronamespace = 'sepu'::regnamespace and prosecdef and proargnames[1] = 'p_account_id'
"""


def _seconds(node: Cluster) -> float:
    """Returns the processor time of a server's processes so far, including those that have ended."""
    postmaster = psutil.Process(int((node.data / "postmaster.pid").read_text().split()[0]))
    return sum(postmaster.cpu_times()[:4]) + sum(sum(child.cpu_times()[:2]) for child in children(postmaster.pid))


def session_kib(node: Cluster) -> int:
    """Returns the memory that a server's processes do not share."""
    postmaster = int((node.data / "postmaster.pid").read_text().split()[0])
    return sum(int(child.memory_full_info().uss) for child in children(postmaster)) // 1024


def _cost(nodes: Sequence[Cluster], charges: int) -> tuple[list[int], float]:
    """Returns each node's microseconds per charge, and by how many KiB one of them makes the last nodes' sessions grow.

    The charges run one after the other in one session.
    """
    with connect(nodes[0].url) as connection:
        holder = holder_of(on_plan(connection, match_limit=10**9, per_minute=10**9).api_key)
        for number in range(charges + 100):
            if number == 100:  # its plans are cached
                before = [_seconds(node) for node in nodes]
                memory = sum(map(session_kib, nodes[1:]))
            command = meter_request(
                holder, f"key-{number:08}", Charge("color_match", 1, bytes(32), bytes(300)), str(uuid4())
            )
            ((outcome, *_),) = connection.execute(command.statement, command.parameters).fetchall()
            assert outcome == "charged"
        spent = [round((_seconds(node) - began) / charges * 1e6) for node, began in zip(nodes, before, strict=True)]
        return spent, (sum(map(session_kib, nodes[1:])) - memory) / charges


def _set_plans(cluster: Citus, mode: str) -> None:
    with connect(cluster.url) as connection:
        for (function,) in connection.execute(DELEGATED).fetchall():
            connection.execute(f"alter function {function} set plan_cache_mode = {mode}".encode())


def main(charges: int) -> None:
    """Prints a line per round."""
    with ExitStack() as stack:
        cluster = stack.enter_context(citus())
        plain = Cluster(stack.enter_context(socket_directory()), programs=Path(cluster.coordinator.programs))
        plain.initialise()
        plain.configure(fsync="on")
        stack.enter_context(plain.running())
        with connect(plain.url) as connection:
            migrate(connection)
        cluster.distribute()
        for _ in range(ROUNDS):
            ((alone,), _) = _cost([plain], charges)
            sys.stdout.write(f"plain Postgres {alone} µs a charge\n")
            for mode in ("force_custom_plan", "force_generic_plan"):
                _set_plans(cluster, mode)
                (coordinator, *workers), grown = _cost([cluster.coordinator, *cluster.workers], charges)
                spent = f"coordinator {coordinator} µs, worker {sum(workers)} µs"
                sys.stdout.write(f"{mode}: {spent}, grows by {grown:.1f} KiB a charge\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 2000)
