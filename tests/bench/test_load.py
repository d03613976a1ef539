"""The load tool's own arithmetic, and that its client sees what goes wrong."""

import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from threading import Thread

import pytest
from bench.load.client import Client, Job, run
from bench.load.figures import Figures, percentile
from bench.load.holders import open_accounts
from bench.load.neighbours import CASES, Case, beside
from bench.load.report import PHYSICAL_LIMIT, Cell, measured, neighbours_targets, targets
from bench.load.scenarios import SCENARIOS, Ask, bare_insert, first_executions, pgbench_scripts
from tests.serving import Server, serving

from sepu.cli.database import connect, service_url

pytestmark = pytest.mark.slow

SEED = "seed"


def test_a_percentile_is_the_nearest_rank() -> None:
    found = [percentile(range(1, 1001), share) for share in (0, 50, 99, 99.95, 100)]
    assert [*found, percentile(range(1, 41_001), 99.9)] == [1, 500, 990, 1000, 1000, 40_959]


def figures_of(p50: float, *, p99: float = 1.0, rate: float = 1.0, errors: int = 0) -> Figures:
    return Figures(p50, p50, p99, p99, p99, rate, {"503": errors} if errors else {}, {"workers": 250e-6})


def test_targets_are_told_from_what_was_measured() -> None:
    figures = {
        Cell("match-1", 1, "pgbench"): figures_of(1.0),
        Cell("match-1", 1, "sepu"): figures_of(1.5),
        Cell(PHYSICAL_LIMIT, 1, "pgbench"): figures_of(0.5),
        Cell(PHYSICAL_LIMIT, 1, "constant"): figures_of(0.25),
        Cell("match-5x3", 32, "pgbench"): figures_of(1.0, rate=100),
        Cell("match-5x3", 32, "sepu"): figures_of(1.0, rate=109),
    }
    found = {target.what: (target.figure, target.reached) for target in targets(figures)}
    assert found == {
        "1 connection: p50 of match-1 ÷ pgbench's": (1.5, True),
        "1 connection: p50 of match-1 ÷ the physical limit": (2.0, False),
        "32 connections: match-5x3 a second ÷ pgbench's": (1.09, False),
    }
    rows = [[field.strip() for field in line.split("|")[1:-1]] for line in measured(figures).splitlines()]
    assert len({len(row) for row in rows}) == 1
    assert rows[-1][:4] == [PHYSICAL_LIMIT, "1", "their sum", "750"]
    assert rows[3][9:12] == ["1.50", "1.00", "250"]


def test_a_neighbour_may_cost_half_of_the_answers_and_no_error() -> None:
    figures = {
        Cell("readyz", 300, "beside /healthz"): figures_of(1.0, rate=100, errors=1),
        Cell("readyz", 300, "beside it"): figures_of(1.0, rate=50, errors=1),
    }
    assert [(target.figure, target.reached) for target in neighbours_targets(figures)] == [(0.5, True), (1, False)]


@pytest.fixture(scope="module")
def loaded(database_url: str) -> Iterator[Server]:
    with connect(database_url) as owner:
        open_accounts(owner, SEED, 1000)
    with serving("uvloop", service_url(database_url), workers=1) as server:
        yield server


@pytest.mark.parametrize("name", SCENARIOS)
def test_every_scenario_gets_the_right_answers(loaded: Server, name: str) -> None:
    if name == "100k-accounts":
        pytest.skip("takes 100,000 accounts; but for their number it is match-1")
    sample = run(Job(loaded.address, SCENARIOS[name], 4, SEED, f"test-{name}", requests=50))
    admitted = sample.errors.pop("200", 0) if name == "abuse-limited" else 0  # one a minute is within the limit
    assert (len(sample.latencies) + admitted, sample.errors) == (50, {})


@pytest.mark.parametrize("name", ["match-1", "mixed", "replay", "usage", "library", "quota-exhausted"])
def test_pgbench_asks_the_same(database_url: str, loaded: Server, name: str) -> None:  # noqa: ARG001
    scenario, token = SCENARIOS[name], f"floor-{name}"
    with connect(service_url(database_url)) as service:
        if scenario.replays:
            service.execute(first_executions(scenario, token).encode())
        for number, (kind, (script, _)) in enumerate(pgbench_scripts(scenario, token).items(), start=1):
            call = script.splitlines()[-1].replace(":n", str(number)).replace(":a", str(scenario.only or 1 + number))
            row = service.execute(call.encode()).fetchone()
            assert row is not None
            charged = "charged" if kind in {"match-1", "match-5x3", "search"} else "ok"
            outcome = "replayed" if scenario.replays else scenario.refusal[1] if scenario.refusal else charged
            assert row[0] == outcome


def test_a_bare_insert_is_as_large_as_a_stored_result(database_url: str, loaded: Server) -> None:
    run(Job(loaded.address, SCENARIOS["match-1"], 1, SEED, "largefortest", requests=100))
    ((script, _),) = bare_insert("largefortest").values()
    with connect(database_url) as owner:
        owner.execute("create temporary table bare (like sepu.stored_result including indexes)")
        owner.execute(script.splitlines()[-1].replace(":n", "1000000000").replace(":a", "1").encode())
        row = owner.execute(
            "select (select pg_column_size(bare) from bare), percentile_disc(0.5) within group (order by"
            " pg_column_size(s)) from sepu.stored_result s where idempotency_key like 'largefortest%'"
        ).fetchone()
    assert row is not None
    assert row[0] == pytest.approx(row[1], abs=8)


@pytest.mark.parametrize("case", [replace(case, connections=20) for case in (*CASES, Case("healthz", 20, None))])
def test_a_flood_goes_on_while_the_customer_is_measured(loaded: Server, case: Case) -> None:
    sample, answers = beside(case, loaded.address, SEED, f"test-{case.name}", 0.5)
    assert sample.latencies
    assert not sample.errors
    if case.name == "limited-account":
        assert answers.pop("200") in {120, 240}  # of one minute, or of two
        assert answers["429"] > 200
    else:
        assert answers["200"] > 200
    assert len(answers) == 1


ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


@contextmanager
def answering(answer: Callable[[int], bytes]) -> Iterator[str]:
    """A server of one connection that answers its nth request so."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            opened, _ = listener.accept()
            with opened:
                number = 0
                while opened.recv(100):
                    opened.sendall(answer(number))
                    number += 1

        thread = Thread(target=serve, daemon=True)
        thread.start()
        yield f"127.0.0.1:{listener.getsockname()[1]}"
        thread.join(10)


@contextmanager
def client_of(address: str) -> Iterator[Client]:
    client = Client(address, 1, lambda: Ask(b"?", b"200", b"ok"))
    try:
        yield client
    finally:
        client.hang_up()


def test_a_stall_is_in_the_latency_of_all_whom_an_open_loop_kept_waiting() -> None:
    def answer(number: int) -> bytes:
        time.sleep(0.5 if number == 10 else 0)
        return ANSWER

    with answering(answer) as address:
        with client_of(address) as client:
            sample = client.open(1.0, 100)
        assert len(sample.latencies) == 100
        # The 50 requests that were due in the stall waited for the rest of it: half of them a quarter of a second.
        assert sum(latency > 0.2 for latency in sample.latencies) >= 25
    with answering(answer) as address, client_of(address) as client:
        sample = client.closed(0, requests=100)
        assert sum(latency > 0.2 for latency in sample.latencies) < 25  # a closed loop does not see it


@pytest.mark.parametrize(
    ("wrong", "called"),
    [
        (ANSWER.replace(b"ok", b"no"), "wrong answer"),
        (ANSWER.replace(b"\r\n\r\n", b"\r\nIdempotency-Replayed: true\r\n\r\n"), "wrong answer"),
        (b'HTTP/1.1 503 No\r\nContent-Length: 31\r\n\r\n{"error":"usage_commit_failed"}', "503 usage_commit_failed"),
    ],
)
def test_what_is_no_right_answer_is_an_error(wrong: bytes, called: str) -> None:
    with answering(lambda number: wrong if number == 1 else ANSWER) as address, client_of(address) as client:
        sample = client.closed(0, requests=3)
    assert sample.errors == {called: 1}
    assert len(sample.latencies) == 2
