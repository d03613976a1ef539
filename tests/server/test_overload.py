"""More requests than the ledger can serve in time: the surplus is refused at once, the rest is answered."""

import selectors
import socket
import sys
import time
from collections import Counter
from contextlib import ExitStack

import psycopg
from tests.serving import serving

from sepu.cli.database import connect
from sepu.metering import accounts
from sepu.metering.async_ledger import MAX_WAITING

# Who waits for the ledger here waits long, so what is refused soon was refused for the crowd. (Or for the lock that the
# test holds: the database gives up on that itself, for the few that are in it, after most of a second.)
PATIENT = """\
from sepu.metering import shuttle
shuttle.CONNECTION_SECONDS = 60
from sepu.cli.main import main
main()
"""
ROOM = 1 + MAX_WAITING
SURPLUS = 100
BODY = b'{"colors":[{"r":200,"g":60,"b":35}]}'
MATCH = (
    b"POST /v1/match HTTP/1.1\r\nHost: sepu\r\nConnection: close\r\nContent-Type: application/json\r\n"
    b"Idempotency-Key: overload-%d\r\nAuthorization: Bearer %b\r\nContent-Length: %d\r\n\r\n%b"
)
USAGE = b"GET /v1/usage HTTP/1.1\r\nHost: sepu\r\nConnection: close\r\nAuthorization: Bearer %b\r\n\r\n"


def collect(waiting: selectors.BaseSelector, count: int, seconds: float) -> Counter[bytes]:
    """Status and error code of so many answers, as they come; fewer if time is up."""
    answers: Counter[bytes] = Counter()
    deadline = time.monotonic() + seconds
    while answers.total() < count and time.monotonic() < deadline:
        for key, _ in waiting.select(0.1):
            raw = key.fileobj
            assert isinstance(raw, socket.socket)
            waiting.unregister(raw)
            answer = b""
            while part := raw.recv(65536):
                answer += part
            answers[(answer[9:12] + b" " + answer.partition(b'{"error":"')[2].partition(b'"')[0]).strip()] += 1
            assert (b"\r\nretry-after: 1\r\n" in answer.lower()) == answer.startswith(b"HTTP/1.1 503")
    return answers


def test_the_surplus_is_refused_at_once(database_url: str, connection: psycopg.Connection) -> None:
    accounts.set_plan(connection, "overload", match_limit=10**6, search_limit=0, requests_per_minute=10**6)
    issued = accounts.create_account(connection, "overload")
    key = issued.api_key.encode()
    with ExitStack() as stack:
        server = stack.enter_context(serving("asgi", database_url, workers=1, program=[sys.executable, "-c", PATIENT]))
        holder = stack.enter_context(connect(database_url))
        holder.autocommit = False
        holder.execute("lock table sepu.api_key in access exclusive mode")
        waiting = stack.enter_context(selectors.DefaultSelector())
        for number in range(ROOM + SURPLUS):
            raw = stack.enter_context(server.socket())
            raw.sendall(USAGE % key if number % 4 == 0 else MATCH % (number, key, len(BODY), BODY))
            waiting.register(raw, selectors.EVENT_READ)
        surplus = collect(waiting, SURPLUS * 4 // 5, 8)
        assert set(surplus) == {b"503 usage_commit_failed", b"500 internal_error"}
        assert surplus.total() >= SURPLUS * 4 // 5  # by the lock alone it were 40
        holder.rollback()
        rest = collect(waiting, ROOM + SURPLUS - surplus.total(), 30)
        assert surplus.total() + rest.total() == ROOM + SURPLUS
        assert rest[b"200"] > ROOM * 3 // 4
        # What was refused was not charged, and who comes back is served.
        charged = accounts.show_usage(connection, issued.account_id).usage[0].committed
        assert charged <= rest[b"200"]
        headers = {"Authorization": f"Bearer {issued.api_key}"}
        assert server.request("GET", "/v1/usage", headers).status == 200
