"""Commands, log and metrics name the node of a cluster that is wrong, and what is wrong there."""

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from psycopg import Connection, sql
from tests.citus.cluster import Citus
from tests.citus.conftest import NO_BATCHES
from tests.citus.soak import frozen
from tests.cli.running import invoke
from tests.harness.postgres import Cluster
from tests.harness.processes import until
from tests.harness.serving import free_port, serving
from tests.metrics import sample
from tests.nodes.traffic import on_plan

from sepu.admin.distribute import distribute
from sepu.admin.keys import IssuedKey
from sepu.database.opening import connect
from sepu.errors import SepuError

pytestmark = pytest.mark.slow

UNSAFE = {
    "fsync": "off",
    "full_page_writes": "off",
    "synchronous_commit": "off",
    "default_transaction_isolation": "serializable",
}


def name(node: Cluster) -> str:
    return f"127.0.0.1:{node.port}"


@contextmanager
def on_node(node: Cluster, *changes: str, undo: tuple[str, ...]) -> Iterator[None]:
    """Changes one node only."""

    def run(statements: tuple[str, ...]) -> None:
        with connect(node.url) as connection:
            connection.execute("set citus.enable_ddl_propagation = off")
            for statement in statements:
                connection.execute(statement.encode())

    run(changes)
    try:
        yield
    finally:
        run(undo)


@contextmanager
def unsafe(node: Cluster, setting: str) -> Iterator[None]:
    reload = "select pg_reload_conf()"
    change = f"alter system set {setting} = '{UNSAFE[setting]}'"
    with on_node(node, change, reload, undo=(f"alter system reset {setting}", reload)):
        yield


def check(other: Citus) -> list[dict[str, str]]:
    done = invoke("db", "check", "--json", SEPU_DATABASE_URL=other.url)
    found = [json.loads(line) for line in done.stdout.splitlines()]
    assert done.returncode == bool(found)
    return found


def accounts_of(connection: Connection, other: Citus) -> tuple[IssuedKey, IssuedKey]:
    """A key of an account on each worker."""
    first, second = other.workers
    found: dict[Cluster, IssuedKey] = {}
    while len(found) < 2:
        issued = on_plan(connection)
        found[other.worker_of(issued.account_id)] = issued
    return found[first], found[second]


def test_an_unsafe_node_charges_nobody_and_is_named(url: str, spoilt: Connection, other: Citus) -> None:
    """Each charge looks at the settings of the worker that commits it."""
    wrong = other.workers[0]
    of_wrong, of_other = accounts_of(spoilt, other)
    metrics = f"127.0.0.1:{free_port()}"
    options = (*NO_BATCHES, "--metrics-bind", metrics)
    with serving("uvloop", url, workers=1, options=options) as server:
        for setting, value in UNSAFE.items():
            with unsafe(wrong, setting):
                until(lambda: server.match(of_wrong, "key-0001").status == 503)
                assert server.match(of_other, f"{setting}-key").status == 200
                found = check(other)
                assert {(each["node"], each["setting"], each["value"]) for each in found} == {
                    (name(wrong), setting, value)
                }
                assert {each["role"] for each in found} == {"sepu", "sepu_service"}
                with pytest.raises(SepuError, match=f"{name(wrong)}, sepu_service: {setting} is {value} instead of"):
                    distribute(spoilt)
            assert f"55000 on {name(wrong)}: {setting} is {value} instead of" in server.log.read_text()
        assert check(other) == []
        until(lambda: server.match(of_wrong, "key-0001").status == 200)
        with unsafe(wrong, "fsync"):
            until(lambda: sample(metrics, "sepu_node_ready", node=name(wrong), problem="fsync") == 0, seconds=40)
            until(lambda: f"node {name(wrong)}: fsync is off instead of on" in server.log.read_text(), seconds=40)
            assert server.request("GET", "/readyz").status == 200
            assert sample(metrics, "sepu_node_ready", node=name(other.workers[1]), problem="") == 1
        until(lambda: sample(metrics, "sepu_node_ready", node=name(wrong), problem="") == 1, seconds=40)


@pytest.mark.usefixtures("url")
def test_a_node_that_refuses_the_service_is_named(spoilt: Connection, other: Citus) -> None:
    """As a worker that was added without the grants of the others: its owner can do everything."""
    wrong = other.workers[0]
    revoke = "revoke connect on database sepu from sepu_service"
    grant = "grant connect on database sepu to sepu_service"
    with on_node(wrong, revoke, undo=(grant,)):
        (found,) = check(other)
        assert (found["node"], found["role"], found["setting"]) == (name(wrong), "sepu_service", "connection")
        assert found["needed"] == grant
        with pytest.raises(SepuError, match=f"{name(wrong)}, sepu_service: connection"):
            distribute(spoilt)
    revoke = "revoke execute on function sepu.node_state from sepu_service"
    with on_node(wrong, revoke, undo=("grant execute on function sepu.node_state to sepu_service",)):
        (found,) = check(other)
        assert (found["node"], found["role"]) == (name(wrong), "sepu_service")
        assert "permission denied for function" in found["value"]
    assert distribute(spoilt).workers


@pytest.mark.usefixtures("url")
def test_what_one_node_leaves_to_everybody_is_named(other: Citus) -> None:
    """Citus does not copy rights on Postgres's own functions."""
    wrong = other.workers[0]
    function = "execute on function pg_notify"
    grant, revoke = f"grant {function} to public", f"revoke {function} from public"
    with on_node(wrong, grant, undo=(revoke,)):
        (found,) = check(other)
    assert (found["node"], found["role"], found["value"]) == (name(wrong), "PUBLIC", "granted")
    assert name(wrong) in found["repair"]
    assert check(other) == []


def test_a_dead_or_frozen_node_is_named(url: str, spoilt: Connection, other: Citus) -> None:
    wrong = other.workers[0]
    of_wrong, _ = accounts_of(spoilt, other)
    metrics = f"127.0.0.1:{free_port()}"
    options = (*NO_BATCHES, "--metrics-bind", metrics)

    def seen(problem: str) -> None:
        until(lambda: sample(metrics, "sepu_node_ready", node=name(wrong)) == 0, seconds=40)
        (found,) = check(other)
        assert (found["node"], found["setting"]) == (name(wrong), "connection")
        assert problem in found["value"]
        for command in (("audit",), ("usage",)):
            began = time.monotonic()
            done = invoke(*command, SEPU_DATABASE_URL=other.url)
            assert time.monotonic() - began < 60
            assert done.returncode
            assert name(wrong) in done.stderr
        assert f"node {name(wrong)}: {problem}" in server.log.read_text()

    with serving("uvloop", url, workers=1, options=options) as server:
        until(lambda: sample(metrics, "sepu_node_ready", node=name(wrong)) == 1, seconds=40)
        with frozen(wrong):
            seen("no answer")
        until(lambda: sample(metrics, "sepu_node_ready", node=name(wrong)) == 1, seconds=40)
        wrong.stop("immediate")
        try:
            until(
                lambda: (
                    server.match(of_wrong, "key-0001").status == 503
                    and f"08006 on {name(wrong)}: " in server.log.read_text()
                )
            )
            seen("failed to connect")
        finally:
            wrong.start("127.0.0.1")


@pytest.mark.usefixtures("url")
def test_the_audit_sees_a_node_that_is_older_than_an_audit(spoilt: Connection, other: Citus) -> None:
    """What a restored node has adds up, so only the audits that it lacks show its age."""
    of_wrong, _ = accounts_of(spoilt, other)
    wrong = other.worker_of(of_wrong.account_id)
    assert invoke("audit", SEPU_DATABASE_URL=other.url).returncode == 0
    assert invoke("audit", SEPU_DATABASE_URL=other.url).returncode == 0
    with connect(wrong.url) as connection:
        ((shard,),) = connection.execute(
            "select 'sepu.audit_run_' || shardid from pg_dist_shard where logicalrelid = 'sepu.audit_run'::regclass"
        ).fetchall()
        connection.execute("set citus.enable_manual_changes_to_shards = on")
        connection.execute(
            sql.SQL("delete from sepu.{0} where audited_at = (select max(audited_at) from sepu.{0})").format(
                sql.Identifier(shard.removeprefix("sepu."))
            )
        )
    done = invoke("audit", SEPU_DATABASE_URL=other.url)
    assert done.returncode == 1
    assert done.stdout.startswith(f"{name(wrong)} lacks earlier audits")
    spoilt.execute("delete from sepu.audit_run")
    assert invoke("audit", SEPU_DATABASE_URL=other.url).returncode == 0
