"""Prints the cost of a charge on Citus and on plain Postgres, alternating: `python -m tests.citus.cost [CHARGES]`."""

import sys
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from uuid import uuid4

import psutil
from tests.citus.cluster import citus
from tests.harness.postgres import Cluster
from tests.harness.processes import children
from tests.harness.proxy import socket_directory
from tests.keys import holder_of
from tests.nodes.traffic import on_plan

from sepu.database.migrate import migrate
from sepu.database.opening import connect
from sepu.metering.commands import Charge, meter_request

ROUNDS = 5


def _seconds(node: Cluster) -> float:
    """Returns the processor time of a server's processes so far, including those that have ended."""
    postmaster = psutil.Process(int((node.data / "postmaster.pid").read_text().split()[0]))
    return sum(postmaster.cpu_times()[:4]) + sum(sum(child.cpu_times()[:2]) for child in children(postmaster.pid))


def _cost(nodes: Sequence[Cluster], charges: int) -> list[int]:
    """Returns each node's microseconds per charge; the charges run one after the other in one session."""
    with connect(nodes[0].url) as connection:
        holder = holder_of(on_plan(connection, match_limit=10**9, per_minute=10**9).api_key)
        for number in range(charges + 100):
            if number == 100:  # its plans are cached
                before = [_seconds(node) for node in nodes]
            command = meter_request(
                holder, f"key-{number:08}", Charge("color_match", 1, bytes(32), bytes(300)), str(uuid4())
            )
            ((outcome, *_),) = connection.execute(command.statement, command.parameters).fetchall()
            assert outcome == "charged"
        return [round((_seconds(node) - spent) / charges * 1e6) for node, spent in zip(nodes, before, strict=True)]


def main(charges: int) -> None:
    """Prints a line per round."""
    with ExitStack() as stack:
        cluster = stack.enter_context(citus())
        plain = Cluster(stack.enter_context(socket_directory()), programs=Path(cluster.coordinator.programs))
        plain.initialise()
        stack.enter_context(plain.running())
        with connect(plain.url) as connection:
            migrate(connection)
        cluster.distribute()
        for _ in range(ROUNDS):
            (alone,) = _cost([plain], charges)
            coordinator, *workers = _cost([cluster.coordinator, *cluster.workers], charges)
            sys.stdout.write(
                f"plain Postgres {alone} µs a charge, coordinator {coordinator} µs, worker {sum(workers)} µs\n"
            )


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 2000)
