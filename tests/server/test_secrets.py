"""After every kind of failure, no key, Authorization header or name is where it does not belong."""

import base64
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil
import psycopg
import pytest
from psycopg import sql
from tests.harness.processes import command_line, until
from tests.harness.serving import EACH_WORKER, ONE_COLOUR, Server, free_port, serving, until_closed
from tests.keys import made_up_key

from sepu import limits
from sepu.admin import accounts
from sepu.admin.keys import IssuedKey, revoke_key
from sepu.admin.plans import set_plan
from sepu.database.opening import connect, database

IDEMPOTENCY_KEY = "secretive-order-4711"


@dataclass(frozen=True)
class Place:
    """A server with its own database, whose log can be read."""

    server: Server
    metrics: str
    connection: psycopg.Connection
    postgres_log: Path


@pytest.fixture(params=EACH_WORKER)
def place(request: pytest.FixtureRequest) -> Iterator[Place]:
    metrics = f"127.0.0.1:{free_port()}"
    with (
        tempfile.TemporaryDirectory(prefix="sepu-") as directory,
        database(None, Path(directory), create=True) as url,
        serving(request.param, url, workers=1, options=["--metrics-bind", metrics]) as server,
        connect(url) as connection,
    ):
        yield Place(server, metrics, connection, Path(directory) / "postgres.log")


def forms(api_key: str) -> list[bytes]:
    """The forms of a key, or of its secret part."""
    secret = api_key.split("_")[2]
    return [secret.encode(), secret.encode().hex().encode(), base64.b64encode(api_key.encode())]


def provoke(place: Place, issued: IssuedKey) -> tuple[set[str | None], bytes]:
    """Causes every error that a client can cause, with the key in each place where a client may put it."""
    server, key = place.server, issued.api_key
    bearer = {"Authorization": f"Bearer {key}"}
    metered = {**bearer, "Idempotency-Key": IDEMPOTENCY_KEY, "Content-Type": "application/json"}
    quoted = f'{{"colors":[{{"r":"{key}","g":0,"b":0}}]}}'.encode()
    answers = [
        server.request("POST", "/v1/match", metered, ONE_COLOUR),
        server.request("POST", "/v1/match", metered, ONE_COLOUR),
        server.request("POST", "/v1/match", metered, ONE_COLOUR.replace(b"200", b"201")),
        server.request("POST", "/v1/match", metered, quoted),
        server.request("POST", "/v1/match", metered, key.encode()),
        server.request("POST", "/v1/match", {**metered, "Content-Type": key}, ONE_COLOUR),
        server.request("POST", "/v1/match", metered, key.encode() * 400),
        server.request("POST", "/v1/match", {**metered, "Idempotency-Key": f"{key} {key}"}, ONE_COLOUR),
        server.request("GET", f"/v1/search?q={key}", metered),
        server.request("GET", f"/v1/search?{key}={key}", {**metered, "Idempotency-Key": "another-0001"}),
        server.request("GET", f"/v1/{key}?{key}", bearer),
        server.request("DELETE", f"/v1/library?{key}", bearer),
        server.request("GET", "/v1/usage", bearer),
        server.request("GET", "/v1/library", bearer),
        server.request("GET", "/v1/library", {"Authorization": f"Basic {key}"}),
        server.request("GET", "/v1/library", {"Authorization": f"Bearer {key}{key}"}),
        server.request("GET", "/v1/library", {"Authorization": f"Bearer {made_up_key(issued.account_id)}"}),
    ]
    raw = b"".join(
        exchange(server, head.replace(b"KEY", key.encode()))
        for head in (
            b"KEY\r\n\r\n",
            b"GET /v1/library KEY\r\n\r\n",
            b"GET /v1/library HTTP/9.9\r\nAuthorization: Bearer KEY\r\n\r\n",
            b"GET /KEY HTTP/1.1\r\nAuthorization : Bearer KEY\r\n\r\n",
            b"GET /KEY HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer\r\n KEY\r\n\r\n",
            b"GET /KEY HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer KEY\x00\x01\r\n\r\n",
            b"GET /KEY HTTP/1.1\r\nHost: h\r\nAuthorization: " + b"KEY" * 200 + b"\r\n\r\n",
            b"GET /" + b"KEY" * 200 + b" HTTP/1.1\r\nHost: h\r\n\r\n",
            b"POST /v1/match HTTP/1.1\r\nHost: h\r\nContent-Length: KEY\r\n\r\n",
            b"POST /v1/match HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: KEY\r\n\r\n",
            b"POST /v1/match HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\nAuthorization: Bearer KEY\r\n\r\nKEY",
        )
    )
    return {answer.error for answer in answers}, raw + b"".join(answer.body for answer in answers)


def exchange(server: Server, request: bytes) -> bytes:
    with server.socket() as raw:
        raw.sendall(request)
        raw.shutdown(1)
        return until_closed(raw)


def everything_stored(connection: psycopg.Connection) -> bytes:
    """Every row of every table as text, and the sessions' current queries."""
    tables = connection.execute("select tablename from pg_tables where schemaname = 'sepu'").fetchall()
    parts = []
    for (table,) in tables:
        with connection.cursor().copy(sql.SQL("copy sepu.{} to stdout").format(sql.Identifier(table))) as rows:
            parts += [bytes(part) for part in rows]
    parts += [query.encode() for (query,) in connection.execute("select query from pg_stat_activity where query <> ''")]
    return b"".join(parts)


def titles(server: Server) -> bytes:
    """The command lines of the server's processes, as visible to every user."""
    lines = [command_line(psutil.Process(pid)) for pid in (server.process.pid, *server.workers())]
    assert all(lines)
    return "\n".join(lines).encode()


def test_no_secret_is_left_anywhere(place: Place) -> None:
    issued = accounts.create_account(place.connection, "standard")
    connection = place.connection

    seen, said = provoke(place, issued)
    assert seen >= {
        None, "idempotency_conflict", "invalid_rgb", "invalid_json", "unsupported_media_type", "payload_too_large",
        "idempotency_key_invalid", "invalid_q", "unknown_parameter", "not_found", "method_not_allowed", "unauthorized",
    }  # fmt: skip

    def again(error: str) -> None:
        nonlocal said
        seen, more = provoke(place, issued)
        assert error in seen
        said += more

    set_plan(connection, "narrow", {"color_match": 0, "color_search": 0}, requests_per_minute=6)
    connection.execute("update sepu.account set plan_id = 'narrow' where account_id = %s", [issued.account_id])
    connection.execute("delete from sepu.stored_result")
    connection.execute("delete from sepu.request_rate")
    again("quota_exceeded")
    again("rate_limited")
    set_plan(connection, "narrow", {"color_match": 9999, "color_search": 9999}, requests_per_minute=9999)
    time.sleep(limits.batches.REFUSED_SECONDS)  # a worker caches a limited key's refusal this long

    # A row that the database refuses and quotes; and a missing function.
    connection.execute("alter table sepu.stored_result add constraint nothing check (units < 0) not valid")
    again("usage_commit_failed")
    connection.execute("alter table sepu.stored_result drop constraint nothing")
    connection.execute("alter function sepu.admit(text, bytea, timestamptz) rename to gone")
    again("internal_error")
    connection.execute("alter function sepu.gone(text, bytea, timestamptz) rename to admit")

    accounts.set_status(connection, issued.account_id, "suspended")
    again("account_unavailable")
    revoke_key(connection, issued.key_id)
    again("unauthorized")

    with urllib.request.urlopen(f"http://{place.metrics}/metrics", timeout=30) as scrape:
        metrics = scrape.read()
    until(lambda: b"ledger unavailable: CheckViolation 23514" in place.server.log.read_bytes())  # written later
    time.sleep(0.2)
    log, postgres_log = place.server.log.read_bytes(), place.postgres_log.read_bytes()
    assert b"nothing" in postgres_log
    searched = {
        "log": log,
        "Postgres's log": postgres_log,
        "tables": everything_stored(connection),
        "answers": said,
        "titles": titles(place.server),
        "metrics": metrics,
    }
    assert [where for where, text in searched.items() for form in forms(issued.api_key) if form in text] == []
    for text in (log, said, searched["titles"], metrics):
        assert b"Bearer " not in text
        assert IDEMPOTENCY_KEY.encode() not in text
    assert issued.account_id.encode() in log  # public, and useless without the secret
    assert issued.account_id.encode() not in searched["titles"] + metrics
