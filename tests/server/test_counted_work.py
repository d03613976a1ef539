"""A request costs one statement."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from psycopg import sql
from tests.harness.postgres import empty_database
from tests.harness.processes import until
from tests.harness.serving import Server, free_port, serving, why_not, with_limits
from tests.http.conftest import OTHERS
from tests.metrics import sample

from sepu.admin import accounts
from sepu.admin.plans import set_plan
from sepu.database.migrate import migrate
from sepu.database.opening import connect
from sepu.database.opening import service_url as as_service

REQUESTS = 6
WARM_UP = 8  # connects, and lets a driver prepare its statements
MATCH = json.dumps({"colors": [{"r": 200, "g": 60, "b": 35}] * 5, "top": 3}).encode()


class Served(NamedTuple):
    server: Server
    log: Path
    api_key: str

    def statements(self) -> int:
        """The number of statements in Postgres's log, for this database alone."""
        return len(re.findall(r"LOG:  (?:execute|statement)\b", self.log.read_text()))


@pytest.fixture(scope="module", params=["uvloop", *OTHERS[:-1]])
def served(request: pytest.FixtureRequest, database_url: str) -> Iterator[Served]:
    """One worker process of each kind, on a Postgres that logs its statements."""
    if reason := why_not(request.param):
        pytest.skip(reason)
    with empty_database(database_url) as url, connect(url) as connection:
        migrate(connection)
        set_plan(connection, "counted", {"color_match": 10_000, "color_search": 10_000}, requests_per_minute=10_000)
        issued = accounts.create_account(connection, "counted")
        database = sql.Identifier(connection.info.dbname)
        connection.execute(sql.SQL("alter database {} set log_statement = 'all'").format(database))
        (directory,) = connection.execute("show data_directory").fetchone() or ("",)
        metrics = f"127.0.0.1:{free_port()}"
        program = with_limits(probes={"LOOK_SECONDS": 10.0**6})  # only one probe of its own
        options = ["--metrics-bind", metrics]
        with serving(request.param, as_service(url), workers=1, program=program, options=options) as server:
            until(lambda: sample(metrics, "sepu_workers", database="answers"))
            yield Served(server, Path(directory).with_name("postgres.log"), issued.api_key)


@pytest.mark.parametrize(
    ("method", "target", "body", "status", "fresh"),
    [
        ("POST", "/v1/match", MATCH, 200, True),
        ("POST", "/v1/match", MATCH, 200, False),  # replayed
        ("POST", "/v1/match", MATCH[:-1], 400, True),
        ("GET", "/v1/search?q=hong", None, 200, True),
        ("GET", "/v1/usage", None, 200, False),
        ("GET", "/v1/library", None, 200, False),
    ],
    ids=["match", "replay", "refused", "search", "usage", "library"],
)
def test_a_request_is_one_statement(
    served: Served, method: str, target: str, body: bytes | None, status: int, fresh: bool
) -> None:
    def ask(name: str) -> None:
        headers = {
            "Authorization": f"Bearer {served.api_key}",
            "Idempotency-Key": f"{name}-{target}-{status}".translate(str.maketrans("/?=", "...")),
            "Content-Type": "application/json",
        }
        assert served.server.request(method, target, headers, body, keep=True).status == status

    for number in range(WARM_UP):
        ask(f"warm-{number}" if fresh else "counted")
    before = served.statements()
    for number in range(REQUESTS):
        ask(f"counted-{number}" if fresh else "counted")
    assert served.statements() == before + REQUESTS
