"""Two service nodes on one database: what is promised holds across both, and one may die."""

import json
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import psycopg
import pytest
from tests.faults.verdict import until_stored
from tests.harness.serving import ONE_COLOUR, serving
from tests.nodes.traffic import crowded, kill, on_plan

from sepu.admin.usage import show_usage
from sepu.database.opening import service_url as as_service


@pytest.fixture
def ledger_url(own_url: str) -> str:
    """The nodes share it with nobody."""
    return own_url


def test_a_node_dies_and_the_other_goes_on(own_url: str, connection: psycopg.Connection) -> None:
    url = as_service(own_url)
    with serving("uvloop", url) as one, serving("uvloop", url) as other:

        def power_cut() -> None:
            until_stored(own_url, 300)
            kill(one)

        addresses = [one.address, other.address]
        verdict, memory = crowded(connection, addresses, 1500, meanwhile=power_cut, operated=own_url)
        assert verdict.explain() == ""
        assert memory.tally["broken connections"] > 0, "it died under load"
        assert one.process.poll() is not None
        assert other.request("GET", "/readyz").status == 200
        assert len(other.workers()) == 2


def test_the_abuse_limit_is_exact_whatever_node_is_asked(own_url: str, connection: psycopg.Connection) -> None:
    """64 connections open one minute together, and each asks until it was told that the limit is reached."""
    passes = 100
    issued = on_plan(connection, per_minute=passes)
    begin = Barrier(64)

    def ask(number: int) -> list[tuple[int, str | None]]:
        connection = (one, other)[number % 2].connect()
        answers: list[tuple[int, str | None]] = []
        connection.connect()
        begin.wait()
        while not answers or answers[-1][0] == 200:
            headers = {
                "Authorization": f"Bearer {issued.api_key}",
                "Idempotency-Key": f"raced-{number:02}-{len(answers):03}",
                "Content-Type": "application/json",
            }
            connection.request("POST", "/v1/match", ONE_COLOUR, headers)
            answer = connection.getresponse()
            answers.append((answer.status, json.loads(answer.read()).get("error")))
        connection.close()
        return answers

    url = as_service(own_url)
    with serving("uvloop", url) as one, serving("uvloop", url) as other, ThreadPoolExecutor(64) as threads:
        told = Counter(answer for answers in threads.map(ask, range(64)) for answer in answers)
    assert told == {(200, None): passes, (429, "rate_limited"): 64}
    assert show_usage(connection, issued.account_id).usage[0].committed == passes
