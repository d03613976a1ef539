"""An operator's view of a real server: the lines of its log, and its metrics, to the letter."""

import http.client
import os
import re
import signal
import socket
import struct
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import psycopg
import pytest
from tests.harness.processes import completed, until
from tests.harness.proxy import socket_directory
from tests.harness.serving import EACH_WORKER, SEPU, Response, Server, free_port, serving, until_closed, with_limits
from tests.http.raw import parsed
from tests.keys import made_up_key
from tests.metrics import Labels, requests, sample, samples, scrape
from tests.programs import program

import sepu
from sepu import limits
from sepu.admin import accounts, keys
from sepu.admin.keys import IssuedKey
from sepu.admin.plans import set_plan
from sepu.console.metrics import read_service_state
from sepu.database.migrate import schema_of_release
from sepu.database.opening import connect, database
from sepu.database.opening import service_url as as_service
from sepu.errors import StartError
from sepu.http.request import new_request_id
from sepu.metering import key_format
from sepu.server.metrics import Blocks, serve_metrics

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
THREE = b'{"colors":[{"r":1,"g":2,"b":3},{"r":4,"g":5,"b":6},{"r":7,"g":8,"b":9}]}'
NOBODYS = "b" * 16
NEVER = 10.0**6


class Watched(NamedTuple):
    server: Server
    metrics: str
    url: str


@pytest.fixture(params=EACH_WORKER)
def watched(request: pytest.FixtureRequest, own_url: str) -> Iterator[Watched]:
    metrics = f"127.0.0.1:{free_port()}"
    program = with_limits(probes={"LOOK_SECONDS": NEVER})  # except for the first time
    options = ["--metrics-bind", metrics]
    with serving(request.param, as_service(own_url), program=program, options=options) as server:
        until(lambda: sample(metrics, "sepu_workers", database="answers") == 2)
        yield Watched(server, metrics, own_url)


REPEATED = 3  # more than there are workers


class Expected(NamedTuple):
    """The expected content of a request's line."""

    endpoint: str | None
    status: int
    error: str | None = None
    account: str | None = None
    key: str | None = None  # the Idempotency-Key
    key_id: str | None = None
    pointer: str | None = None
    replayed: bool = False
    timed: bool = True
    trace_id: str | None = None


def every_kind(server: Server, connection: psycopg.Connection) -> Iterator[tuple[Response, Expected]]:
    """A request of each kind, and its expected line."""
    set_plan(connection, "spent", {"color_match": 0, "color_search": 0}, requests_per_minute=1)
    rich, poor = (accounts.create_account(connection, plan) for plan in ("standard", "spent"))
    stranger = replace(rich, account_id=NOBODYS, api_key=made_up_key(NOBODYS))

    def ask(
        target: str,
        status: int,
        error: str | None = None,
        holder: IssuedKey | None = rich,
        key: str | None = None,
        *,
        method: str = "GET",
        body: bytes | None = None,
        of: str = "application/json",
        is_judged: bool = True,
        traceparent: str | None = None,
        **rest: Any,
    ) -> tuple[Response, Expected]:
        headers = {"Authorization": f"Bearer {holder.api_key}"} if holder else {}
        headers |= {"Content-Type": of} if body else {}
        headers |= {"Idempotency-Key": key} if key else {}
        headers |= {"traceparent": traceparent} if traceparent else {}
        endpoint = None if status == 404 else target.partition("?")[0]
        account, key_id = (holder.account_id, holder.key_id) if holder and is_judged else (None, None)
        expected = Expected(endpoint, status, error, account, key, key_id, **rest)
        return server.request(method, target, headers, body), expected

    match = partial(ask, "/v1/match", method="POST", body=THREE)
    search = partial(ask, "/v1/search?q=hong", 200, key="observed-3")
    yield match(200, key="observed-1")
    yield match(200, key="observed-1", replayed=True)
    yield match(409, "idempotency_conflict", key="observed-1", body=THREE.replace(b"1", b"2"))
    yield match(400, "idempotency_key_required")
    yield match(400, "invalid_json", key="observed-2", body=b"{")
    yield match(422, "invalid_body", key="observed-2", body=b"{}", pointer="/colors")
    yield match(422, "invalid_rgb", key="observed-2", body=THREE.replace(b"5", b"256"), pointer="/colors/1/g")
    yield match(413, "payload_too_large", key="observed-2", body=b" " * 20_000)
    yield match(415, "unsupported_media_type", key="observed-2", of="text/plain")
    yield search()
    yield search(replayed=True)
    yield ask("/v1/usage", 200)
    yield ask("/v1/library", 200)
    trace = "4bf92f3577b34da6a3ce929d0e0e4736"  # of the standard's examples
    traceparent = f"00-{trace}-00f067aa0ba902b7-01"
    yield ask("/v1/usage", 200, traceparent=traceparent, trace_id=trace)
    yield match(
        422, "invalid_body", key="observed-2", body=b"{}", pointer="/colors", traceparent=traceparent, trace_id=trace
    )
    yield ask("/v1/usage", 200, traceparent=f"{traceparent}-more")
    yield ask("/v1/library", 401, "unauthorized", None)
    yield ask("/v1/library", 401, "unauthorized", stranger, is_judged=False)  # a made-up key has no account
    expired, revoked = (keys.issue_key(connection, rich.account_id, ends) for ends in (datetime.now(UTC), None))
    keys.revoke_key(connection, revoked.key_id)
    for _ in range(REPEATED):  # at least one is answered without the ledger
        yield ask("/v1/library", 401, "unauthorized", expired)
    yield ask("/v1/usage", 401, "unauthorized", revoked)
    yield ask("/v1/match", 405, "method_not_allowed", method="DELETE", is_judged=False)
    yield ask("/metrics", 404, "not_found", None)
    yield ask("/healthz", 200, None, None)
    yield ask("/readyz", 200, None, None)
    yield match(429, "quota_exceeded", poor, "observed-1")
    for _ in range(REPEATED):
        yield match(429, "rate_limited", poor, "observed-1")
    accounts.set_status(connection, rich.account_id, "suspended")
    yield ask("/v1/usage", 403, "account_unavailable")
    accounts.set_status(connection, rich.account_id, "active")

    # Without the functions, the database reports a syntax error of ours.
    connection.execute("alter schema sepu rename to gone")
    yield match(503, "usage_commit_failed", key="observed-4")
    yield ask("/v1/usage", 500, "internal_error")
    time.sleep(limits.probes.PROBE_SECONDS)  # a probe's result is cached this long
    yield ask("/readyz", 503, "not_ready", None)
    connection.execute("alter schema gone rename to sepu")

    if server.worker != "meinheld":  # its proxy refuses this
        with server.socket() as raw:
            raw.sendall(b"sepu_secret?q=secret\r\n\r\n")
            yield Response(*parsed(until_closed(raw))), Expected(None, 400, "bad_request", timed=False)


# The workers with threads have code of their own for refusals that are remembered.
@pytest.mark.parametrize("watched", ["uvloop", "gthread", EACH_WORKER[2]], indirect=True)
def test_every_kind_of_request_is_one_exact_line_and_counted_once(watched: Watched) -> None:
    server, metrics, url = watched
    began, before = time.monotonic(), samples(metrics)
    assert before["sepu_database_connections_opened_total", ()] >= 2, "each worker opened one"
    with connect(url) as connection:
        kinds = list(every_kind(server, connection))

    by_id = {response.headers["x-request-id"]: expected for response, expected in kinds}
    assert [response.status for response, _ in kinds] == [expected.status for _, expected in kinds]
    lines = requests(server.log, set(by_id))
    assert len(lines) == len(kinds)
    seconds = sum(line["durationMs"] for line in lines if line["endpoint"]) / 1000
    for line in lines:
        expected = by_id[line["requestId"]]
        when, took = datetime.fromisoformat(line.pop("time")), line.pop("durationMs")
        assert timedelta(0) <= datetime.now(UTC) - when < timedelta(minutes=5)
        assert 0 < took < 60_000 if expected.timed else took is None
        assert line.pop("pid") in server.workers()
        assert line == {
            "level": "error" if expected.status >= 500 else "info",
            "event": "request",
            "requestId": line["requestId"],
            "account": expected.account,
            "endpoint": expected.endpoint,
            "status": expected.status,
            "error": expected.error,
            "replayed": expected.replayed,
            "keyId": expected.key_id,
            "idempotencyKeyHash": expected.key and key_format.idempotency_key_hash(str(expected.account), expected.key),
            **({"errorPointer": expected.pointer} if expected.pointer else {}),
            **({"traceId": expected.trace_id} if expected.trace_id else {}),
        }

    library = next(response.json["version"] for response, expected in kinds if expected.endpoint == "/v1/library")
    info = {"version": sepu.__version__, "worker": server.worker, "library": library, "schema": schema_of_release()}
    assert sample(metrics, "sepu_build_info", **info) == 1
    after = samples(metrics)
    wanted: Counter[tuple[str, Labels]] = Counter()
    for _, (endpoint, status, error, *_) in kinds:
        wanted["sepu_http_requests_total", (("endpoint", endpoint or "other"), ("status", str(status)))] += 1
        if endpoint:
            labels: Labels = (("endpoint", endpoint), ("status_class", f"{status // 100}xx"))
            wanted["sepu_http_request_duration_seconds_count", labels] += 1
        if error:
            wanted["sepu_http_refusals_total", (("code", error),)] += 1
    for meter, units in (("color_match", 3), ("color_search", 1)):
        wanted["sepu_units_charged_total", (("meter", meter),)] = units
        wanted["sepu_replays_total", (("meter", meter),)] = 1
    # The ledger did not answer two. It was not called for requests without a route, a key of ours or need of it, or for
    # a probe with a cached result.
    unasked = [e for _, e in kinds if e.endpoint in {None, "/healthz", "/readyz"} or e.error == "method_not_allowed"]
    calls = int(after["sepu_ledger_call_commands_count", ()] - before["sepu_ledger_call_commands_count", ()])
    # Each worker also probes now and then.
    probes = len(server.workers()) * (2 + (time.monotonic() - began) / limits.probes.LOOK_SECONDS)
    assert -2 * (REPEATED - 1) <= calls - (len(kinds) - len(unasked) - 2 - 2) <= probes
    wanted["sepu_ledger_call_commands_count", ()] = wanted["sepu_ledger_call_commands_sum", ()] = calls
    wanted["sepu_ledger_call_commands_bucket", (("le", "1.0"),)] = calls
    found = {key: after[key] - before[key] for key in after if after[key] != before.get(key, 0)}
    assert sum(its for (name, _), its in found.items() if "seconds_sum" in name) == pytest.approx(seconds, 0.01)
    wanted |= Counter({key: calls for key in found if key[0] == "sepu_ledger_call_commands_bucket"})
    others = r"sepu_(http_request_duration_seconds_(bucket|sum)|database_(connections_opened|errors)_total|workers)"
    assert {key: value for key, value in found.items() if not re.fullmatch(others, key[0])} == dict(wanted)
    failed = {dict(its)["sqlstate_class"]: value for (name, its), value in found.items() if "database_errors" in name}
    assert failed.keys() <= {"3F", "42"}  # no such schema, no such function
    assert sum(failed.values()) == 3


def workers(server: Server) -> set[int]:
    """The living workers; `Server.workers` also finds the process that serves the metrics."""
    booted = {int(pid) for pid in re.findall(r"Booting worker with pid: (\d+)", server.log.read_text())}
    return booted & set(server.workers())


def test_a_killed_workers_counts_stay_and_its_state_goes(watched: Watched) -> None:
    server, metrics, url = watched
    in_progress = "sepu_ledger_commands_in_progress"
    with connect(url) as connection, connect(url) as locking, ThreadPoolExecutor() as threads:
        bearer = {"Authorization": f"Bearer {accounts.create_account(connection, 'standard').api_key}"}
        told: list[int] = []

        def charge() -> int:
            headers = {**bearer, "Idempotency-Key": new_request_id(), "Content-Type": "application/json"}
            with suppress(OSError, http.client.HTTPException):
                told.append(server.request("POST", "/v1/match", headers, THREE).status)
                return told[-1]
            return 0

        def all_are_counted() -> bool:  # an answer may come before its count
            return sample(metrics, "sepu_units_charged_total", meter="color_match") == 3 * told.count(200)

        assert [charge() for _ in range(6)] == [200] * 6
        until(all_are_counted)
        caught = 0.0
        while not caught:  # until a command is seen waiting for a lock, for up to a second
            with locking.transaction():
                locking.execute("lock table sepu.usage in exclusive mode")
                waiting = threads.submit(charge)
                while not waiting.done() and not (caught := sample(metrics, in_progress)):
                    pass
                if caught:
                    for pid in workers(server):
                        os.kill(pid, signal.SIGKILL)
            waiting.result()  # 200 if the killed worker had not read it: the next one serves it
        before = samples(metrics)
        until(lambda: sample(metrics, "sepu_workers_started_total") == 4 and sample(metrics, "sepu_workers") == 2)
        until(lambda: sample(metrics, in_progress) == 0)  # a new worker may be probing just now
        until(lambda: charge() == 200)
        until(all_are_counted)
        after = samples(metrics)
    assert after["sepu_log_lines_dropped_total", ()] == 0
    counters = [key for key in before if not key[0].endswith(("_progress", "_workers", "_info"))]
    assert [key for key in counters if after[key] < before[key]] == []


def test_a_new_worker_has_no_state_of_a_dead_one_whose_counts_stay() -> None:
    blocks, metrics = Blocks(), f"[::1]:{free_port()}"
    counts = blocks.counts(blocks.take())
    counts.probed(True)
    counts.looked_at_nodes({"one:5432": "silent"})
    for count in (counts.line_dropped, *[counts.connected] * 3):
        count()
    blocks.give_back(0)
    assert (blocks.take(), blocks.read()[1], blocks.nodes()) == (0, ["unasked"], {})
    with serve_metrics(metrics, blocks, "uvloop", "1", "1-0"):
        found = samples(metrics)
    names = ("log_lines_dropped", "workers_started", "database_connections_opened")
    assert [found[f"sepu_{name}_total", ()] for name in names] == [1, 2, 3]


def test_the_metrics_are_served_whatever_happens_to_others_and_all_end_with_the_master(own_url: str) -> None:
    metrics = f"127.0.0.1:{free_port()}"
    host, _, port = metrics.rpartition(":")
    with serving("uvloop", as_service(own_url), options=["--metrics-bind", metrics]) as server:
        until(lambda: sample(metrics, "sepu_workers") == len(workers(server)) == 2)
        until(lambda: read_service_state([f"http://{metrics}/metrics"]).workers == 2)  # as the console does
        stuck = workers(server)
        with (
            socket.create_connection((host, int(port))) as silent,
            socket.create_connection((host, int(port))) as hasty,
        ):
            hasty.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            hasty.sendall(b"GET /metrics HTTP/1.0\r\n\r\n")
            hasty.close()
            assert until_closed(silent) == b""
        (server_process,) = set(server.workers()) - stuck
        for number in (signal.SIGHUP, signal.SIGUSR1, signal.SIGWINCH):  # signals meant for others
            os.kill(server_process, number)
        for pid in stuck:
            os.kill(pid, signal.SIGSTOP)
        assert sample(metrics, "sepu_workers") == 2
        assert "Traceback" not in server.log.read_text()
        server.process.kill()
        server.process.wait()
        for pid in stuck:
            os.kill(pid, signal.SIGCONT)

        def gone(address: str) -> bool:
            host, _, port = address.rpartition(":")
            with socket.socket() as probe:
                return probe.connect_ex((host, int(port))) != 0

        until(lambda: gone(metrics) and gone(server.address))
    with serve_metrics(metrics, Blocks(), "uvloop", "1", "1-0"):
        pass  # the address is free although its last connections are not forgotten


@pytest.mark.parametrize("worker", EACH_WORKER)
def test_a_dead_database_is_seen_without_a_request(worker: str) -> None:
    metrics = f"127.0.0.1:{free_port()}"

    def state(found: str) -> Callable[[], bool]:
        return lambda: sample(metrics, "sepu_workers", database=found) == 2

    program = with_limits(probes={"LOOK_SECONDS": 0.2, "LOOKED_SECONDS": 1.5})
    with socket_directory() as state_dir, ExitStack() as postgres:
        url = postgres.enter_context(database(None, state_dir, create=True))
        with serving(worker, as_service(url), program=program, options=["--metrics-bind", metrics]) as server:
            until(state("answers"))
            postgres.close()
            until(state("fails"))
            assert sample(metrics, "sepu_database_errors_total", sqlstate_class="none") > 0
            with database(None, state_dir):
                until(state("answers"))
                stuck = workers(server)
                for pid in stuck:
                    os.kill(pid, signal.SIGSTOP)
                until(state("unasked"))  # no worker still reports that the database answers
                for pid in stuck:
                    os.kill(pid, signal.SIGCONT)
                until(state("answers"))


@pytest.mark.parametrize("bind", ["9100", "127.0.0.1:", "127.0.0.1:99999", "nowhere.invalid:9100", "TAKEN"])
def test_an_unavailable_address_is_refused(bind: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        bind = bind.replace("TAKEN", f"127.0.0.1:{taken.getsockname()[1]}")
        with pytest.raises(StartError, match=bind), serve_metrics(bind, Blocks(), "uvloop", "1", "1-0"):
            pass


@pytest.mark.slow
def test_dashboard_and_alerts_name_what_there_is_and_prometheus_takes_them(own_url: str, tmp_path: Path) -> None:
    metrics = f"127.0.0.1:{free_port()}"
    with serving("uvloop", as_service(own_url), workers=1, options=["--metrics-bind", metrics]):
        text = scrape(metrics)
        told: set[str] = {name for name, _ in samples(metrics)} | {"sepu_node_ready"}  # it needs a cluster
    written = tmp_path / "sepu_audit.prom"
    assert completed([SEPU, "audit", "--metrics-file", written, "--database-url", own_url]).returncode == 0
    events = tmp_path / "sepu_events.prom"
    deliver = ("events", "deliver", "--print", "--once", "--metrics-file", events, "--database-url", own_url)
    assert completed([SEPU, *deliver]).returncode == 0
    jobs = [path.read_text() for path in (written, events, DEPLOY / "make-backup.sh", DEPLOY / "check-certificates.sh")]
    told |= set(re.findall(r"\bsepu_(?:accounts|audit|backup|certificates?|events|keys)_\w+(?=[ {])", "".join(jobs)))
    alerts = (DEPLOY / "prometheus" / "alerts.yml").read_text("utf-8")
    for found in ((DEPLOY / "grafana" / "sepu.json").read_text("utf-8"), alerts):
        used = set(re.findall(r"\bsepu_\w+", found))
        assert used - told == set()
        assert len(used) > 5
    families = set(re.findall(r"^# TYPE (\w+)", text, re.MULTILINE))
    documented = (ROOT / "docs" / "observe.md").read_text("utf-8")
    assert [name for name in families if f"`{name}`" not in documented] == []
    promtool, shipped = program("promtool", "prometheus"), DEPLOY / "prometheus"
    for command, given in (
        (["check", "rules", shipped / "alerts.yml"], ""),
        (["test", "rules", shipped / "alerts_test.yml"], ""),
        (["check", "config", shipped / "prometheus.yml"], ""),
        (["check", "metrics"], text),
    ):
        done = completed([promtool, *command], input=given)
        assert (done.returncode, done.stderr) == (0, ""), done.stdout + done.stderr
