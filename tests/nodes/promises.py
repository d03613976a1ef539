"""What is promised across the nodes of a fixture `nodes`: they share a database here, a cluster in tests/citus."""

from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import psycopg
from tests.faults.history import History
from tests.faults.verdict import contradictory
from tests.nodes.traffic import on_plan
from tests.serving import Response, Server

from sepu.admin.keys import IssuedKey
from sepu.admin.usage import show_usage

CLIENTS = 16


def together(
    nodes: tuple[Server, Server], issued: IssuedKey, keys: list[str], connection: psycopg.Connection
) -> list[Response]:
    """One request a key, in turns at the nodes, many at a time; what they are told contradicts nothing."""

    history = History()
    with ThreadPoolExecutor(CLIENTS) as threads:
        answers = list(threads.map(lambda at: history.match(nodes[at % 2], issued, keys[at]), range(len(keys))))
    assert contradictory(connection, history) == []
    return answers


class TestAcrossNodes:
    def test_the_quota_is_exact_across_nodes(
        self, nodes: tuple[Server, Server], connection: psycopg.Connection
    ) -> None:
        issued = on_plan(connection, match_limit=100)
        found = Counter(
            (answer.status, answer.error)
            for answer in together(nodes, issued, [f"quota-{n:04}" for n in range(160)], connection)
        )
        assert found == {(200, None): 100, (429, "quota_exceeded"): 60}
        assert show_usage(connection, issued.account_id).usage[0].committed == 100

    def test_a_key_at_both_nodes_is_executed_once(
        self, nodes: tuple[Server, Server], connection: psycopg.Connection
    ) -> None:
        issued = on_plan(connection)
        keys = [f"same-{n // CLIENTS:04}" for n in range(20 * CLIENTS)]
        answers = together(nodes, issued, keys, connection)
        executed = [
            answer for answer in answers if answer.status == 200 and "idempotency-replayed" not in answer.headers
        ]
        assert len(executed) == 20
        assert {(answer.status, answer.error) for answer in answers} <= {(200, None), (409, "request_in_progress")}
        assert show_usage(connection, issued.account_id).usage[0].committed == 20
        for node in nodes:  # what one executed both replay
            assert {node.match(issued, key).headers["idempotency-replayed"] for key in set(keys)} == {"true"}

    def test_the_abuse_limit_holds_across_nodes(
        self, nodes: tuple[Server, Server], connection: psycopg.Connection
    ) -> None:
        issued = on_plan(connection, per_minute=40)
        answers = together(nodes, issued, [f"rate-{n:04}" for n in range(100)], connection)
        assert Counter((answer.status, answer.error) for answer in answers) == {
            (200, None): 40,
            (429, "rate_limited"): 60,
        }
