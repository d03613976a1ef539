"""All nodes of a cluster go back to one moment, and a worker that goes back alone is noticed."""

import shutil
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from uuid import uuid4

import pytest
from tests.charging import charge
from tests.citus.cluster import Citus, Node, citus
from tests.cli.running import invoke
from tests.harness.postgres import run
from tests.nodes.traffic import on_plan

from sepu.admin.audit import audit
from sepu.admin.keys import IssuedKey
from sepu.database.opening import connect

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


@pytest.fixture
def archived() -> Iterator[Citus]:
    """A distributed cluster whose nodes archive their WAL, with a base backup of each."""
    with ExitStack() as stack:
        cluster = stack.enter_context(citus())
        cluster.distribute()
        for node in (cluster.coordinator, *cluster.workers):
            run(Path("/bin/mkdir"), node.directory / "archive")
            node.stop()
            copy = f"test ! -f {node.directory}/archive/%f && cp %p {node.directory}/archive/%f"
            node.configure(archive_mode="on", archive_command=copy)
            node.start("127.0.0.1")
        for node in (cluster.coordinator, *cluster.workers):
            where = "-h", str(node.directory), "-p", str(node.port), "-U", "sepu"
            run(node.programs / "pg_basebackup", *where, "-D", node.directory / "base", "--checkpoint=fast")
        yield cluster


def restore(node: Node, point: str | None) -> None:
    """Goes back to the base backup, and from there to a restore point, if any."""
    node.stop()
    shutil.rmtree(node.data)
    run(Path("/bin/cp"), "-a", node.directory / "base", node.data)
    if point is not None:
        run(Path("/bin/touch"), node.data / "recovery.signal")
        copy = f"cp {node.directory}/archive/%f %p"
        node.configure(restore_command=copy, recovery_target_name=point, recovery_target_action="promote")
    node.start("127.0.0.1")


def test_all_nodes_go_back_to_a_restore_point(archived: Citus) -> None:
    with connect(archived.url) as connection:
        issued: dict[Node, IssuedKey] = {}
        while len(issued) < len(archived.workers):
            found = on_plan(connection)
            issued[archived.worker_of(found.account_id)] = found

        def charge_all() -> None:
            for each in issued.values():
                charge(connection, each.api_key, str(uuid4()), 1, datetime.now(UTC))

        charge_all()
        connection.execute("select citus_create_restore_point('before')")
        charge_all()
        assert audit(connection).results == 4
    nodes = (archived.coordinator, *archived.workers)
    for node in nodes:
        with connect(node.url) as connection:
            connection.execute("select pg_switch_wal()")
    for node in nodes:
        restore(node, "before")
    with connect(archived.url) as connection:
        found_again = audit(connection)
        assert (found_again.results, found_again.differences, found_again.outdated_nodes) == (2, (), ())
    assert invoke("audit", SEPU_DATABASE_URL=archived.url).returncode == 0
    older = archived.workers[0]
    restore(older, None)
    done = invoke("audit", SEPU_DATABASE_URL=archived.url)
    assert done.returncode == 1
    assert f"127.0.0.1:{older.port} lacks earlier audits" in done.stdout
