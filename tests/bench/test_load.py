"""The load tool's own arithmetic, and that its client sees what goes wrong."""

import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from threading import Thread

import pytest
from bench.load.client import Client, Job, run
from bench.load.figures import Figures, Sample, percentile
from bench.load.holders import open_accounts
from bench.load.neighbours import CASES, Case, beside
from bench.load.report import Cell, targets
from bench.load.scenarios import SCENARIOS, Ask, bare_insert, first_executions, pgbench_scripts
from tests.serving import Server, serving

from sepu.database.opening import connect, service_url

pytestmark = pytest.mark.slow

SEED = "seed"


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


def test_a_bare_insert_is_of_a_whole_row(database_url: str, loaded: Server) -> None:  # noqa: ARG001
    ((script, _),) = bare_insert("bare").values()
    with connect(database_url) as owner:
        owner.execute("create temporary table bare (like sepu.stored_result including indexes)")
        inserted = owner.execute(script.splitlines()[-1].replace(":n", "1").replace(":a", "1").encode())
        assert inserted.rowcount == 1


@pytest.mark.parametrize("case", [replace(case, connections=20) for case in (*CASES, Case("healthz", 20, None))])
def test_a_flood_goes_on_while_the_customer_is_measured(loaded: Server, case: Case) -> None:
    case = replace(case, customer=replace(case.customer, accounts=1000))  # there are no more
    sample, answers = beside(case, loaded.address, SEED, f"test-{case.name}", 0.5)
    assert sample.latencies
    assert not sample.errors
    if case.name == "limited-account":
        assert answers.pop("200") in {120, 240}  # of one minute, or of two
        assert answers["429"] > 200
    else:
        assert answers["401" if case.name.startswith("made-up") else "200"] > 200
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


def test_a_target_that_is_missed_is_told_and_a_percentile_is_the_nearest_rank() -> None:
    assert [percentile(range(1, 1001), share) for share in (0, 50, 99, 99.95, 100)] == [1, 500, 990, 1000, 1000]
    figures = Figures.of([Sample(1.0, 100, [latency] * 100) for latency in (1.0, 2.0, 9.0)])
    slower = replace(figures, p50=3 * figures.p50)
    found = targets({Cell("match-1", 1, "pgbench"): figures, Cell("match-1", 1, "sepu"): slower})
    assert [(target.figure, target.reached) for target in found] == [(3.0, False)]


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
