"""Workers are killed (-9) under load: no charge is lost or doubled, no key is stuck."""

import os
import random
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPException

import psycopg
import pytest
from tests.serving import WORKERS, Response, Server, serving, why_not

from sepu.metering import accounts

CLIENTS = 6
REQUESTS = 25  # of each client
KILLS = 6


def ask(server: Server, api_key: str, idempotency_key: str, body: bytes) -> Response:
    """One logical request, retried by the interface's rules until it is answered."""
    headers = {
        "Authorization": f"Bearer {api_key}",
        "Idempotency-Key": idempotency_key,
        "Content-Type": "application/json",
    }
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        try:
            response = server.request("POST", "/v1/match", headers, body)
        except (OSError, HTTPException):
            pass  # the worker died on us
        else:
            if response.status == 200:
                return response
            assert response.error in {"request_in_progress", "usage_commit_failed"}
        time.sleep(0.02)
    pytest.fail(f"{idempotency_key} was never answered")


@pytest.mark.parametrize("worker", WORKERS)
def test_killed_workers_lose_no_charge_and_leave_no_key_stuck(
    worker: str, service_url: str, connection: psycopg.Connection
) -> None:
    if reason := why_not(worker):
        pytest.skip(reason)
    accounts.set_plan(connection, "crash", match_limit=10**6, search_limit=0, requests_per_minute=10**6)
    issued = accounts.create_account(connection, "crash")
    done = threading.Event()
    with serving(worker, service_url, workers=2) as server:

        def kill() -> int:
            killed = 0
            while killed < KILLS or not done.is_set():
                time.sleep(0.15)
                if victims := server.workers():
                    os.kill(random.choice(victims), signal.SIGKILL)
                    killed += 1
                if killed >= KILLS:
                    break
            return killed

        def client(number: int) -> dict[str, bytes]:
            answered = {}
            for turn in range(REQUESTS):
                body = f'{{"colors":[{{"r":{number},"g":{turn},"b":0}}]}}'.encode()
                key = f"crash-{number}-{turn}"
                answered[key] = ask(server, issued.api_key, key, body).body
                time.sleep(0.02)
            return answered

        with ThreadPoolExecutor(CLIENTS + 1) as threads:
            killer = threads.submit(kill)
            seen = [threads.submit(client, number) for number in range(CLIENTS)]
            answered = {key: body for part in seen for key, body in part.result().items()}
            done.set()
            assert killer.result() == KILLS

    stored: dict[str, bytes] = dict(
        connection.execute(
            "select idempotency_key, body from sepu.stored_result where account_id = %s", [issued.account_id]
        ).fetchall()
    )
    assert answered == stored
    usage = accounts.show_usage(connection, issued.account_id).usage[0]
    assert usage.committed == len(answered) == CLIENTS * REQUESTS
