"""Postgres goes away and comes back: clear refusals meanwhile, and nothing to restart afterwards."""

import os
import signal
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.serving import WORKERS, Server, serving, why_not

from sepu.cli.database import connect, database
from sepu.metering import accounts
from sepu.server.embedded import embedded_postgres

ONE = b'{"colors":[{"r":200,"g":60,"b":35}]}'


@pytest.fixture
def state_dir() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="sepu-") as directory:
        yield Path(directory)


def stop_postgres(state_dir: Path) -> None:
    pid_file = state_dir / "postgres" / "postmaster.pid"
    pid = int(pid_file.read_text().splitlines()[0])
    os.kill(pid, signal.SIGQUIT)  # an immediate stop: as good as a crash
    while pid_file.exists():
        time.sleep(0.02)


def answers(server: Server, headers: dict[str, str]) -> dict[str, tuple[int, str | None]]:
    metered = {**headers, "Idempotency-Key": "outage-0001"}
    found = {
        "library": server.request("GET", "/v1/library", headers),
        "usage": server.request("GET", "/v1/usage", headers),
        "search": server.request("GET", "/v1/search?q=hong", {**metered, "Idempotency-Key": "outage-0002"}),
        "match": server.request("POST", "/v1/match", {**metered, "Content-Type": "application/json"}, ONE),
        "refused": server.request("POST", "/v1/match", {**metered, "Content-Type": "application/json"}, b"{"),
        "ready": server.request("GET", "/readyz"),
        "healthy": server.request("GET", "/healthz"),
    }
    for name, response in found.items():
        assert ("retry-after" in response.headers) == (response.status == 503), name
        assert "x-request-id" in response.headers
    return {name: (response.status, response.error) for name, response in found.items()}


@pytest.mark.parametrize("worker", WORKERS)
def test_requests_are_refused_while_the_database_is_away_and_served_when_it_is_back(
    worker: str, state_dir: Path
) -> None:
    if reason := why_not(worker):
        pytest.skip(reason)
    with database(None, state_dir) as url, serving(worker, url, workers=1) as server:
        with connect(url) as connection:
            issued = accounts.create_account(connection, "standard")
        headers = {"Authorization": f"Bearer {issued.api_key}"}
        good = {
            "library": (200, None),
            "usage": (200, None),
            "search": (200, None),
            "match": (200, None),
            "refused": (400, "invalid_json"),
            "ready": (200, None),
            "healthy": (200, None),
        }
        assert answers(server, headers) == good

        stop_postgres(state_dir)
        away = (503, "usage_commit_failed")
        internal = (500, "internal_error")
        for _ in range(2):  # with the broken connections, then with none
            assert answers(server, headers) == {
                "library": internal,
                "usage": internal,
                "search": away,
                "match": away,
                "refused": away,
                "ready": (503, "not_ready"),
                "healthy": (200, None),
            }

        with embedded_postgres(state_dir):
            deadline = time.monotonic() + 20
            while answers(server, headers)["ready"] != (200, None):
                assert time.monotonic() < deadline, "the server did not come back"
            assert answers(server, headers) == good
            replay = server.request(
                "POST",
                "/v1/match",
                {**headers, "Idempotency-Key": "outage-0001", "Content-Type": "application/json"},
                ONE,
            )
            assert (replay.headers["idempotency-replayed"], replay.headers["x-usage-committed"]) == ("true", "1")
        assert "sepu_" not in server.log.read_text()
