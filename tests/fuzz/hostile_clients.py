"""Hostile clients against a real server, and what must hold throughout.

The answers to whole, unchanged requests must come first and in order, each its own request's; any other answer must be
complete and in the contract's form. A cut request is never charged. No worker dies or keeps anybody waiting, and in the
end nothing is left of the connections.
"""

import re
import socket
import struct
import threading
import time
import uuid
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from http.client import HTTPException
from itertools import takewhile
from operator import eq
from random import Random

import psutil
import psycopg
from tests.fuzz.seeds import Seed, mutate, seed
from tests.harness.processes import until
from tests.harness.serving import Response, Server

from sepu.admin import accounts
from sepu.admin.plans import set_plan
from sepu.admin.usage import show_usage
from sepu.http.errors import ERRORS

CLIENTS = 8
ANSWER_SECONDS = 10.0  # in which a client gets all answers to its whole requests
QUIET_SECONDS = 0.15  # a client's wait where it cannot know whether more comes
SETTLE_SECONDS = 70.0  # in which all connections must be gone; nginx keeps idle ones for 60
SPARE_DESCRIPTORS = 12  # the pools' connections come and go
SHOWN = 20
SHOWN_BYTES = 600


@dataclass
class Report:
    """The results of a campaign."""

    connections: int = 0
    requests: int = 0
    answers: Counter[str] = field(default_factory=Counter)
    deaths: int = 0
    probes: int = 0
    hangs: int = 0
    violations: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        lines = [
            f"{self.connections} connections, {self.requests} requests; answers {dict(sorted(self.answers.items()))}",
            f"{self.deaths} deaths of workers, {self.hangs} hangs in {self.probes} probes",
            f"{len(self.violations)} violations",
            *self.violations[:SHOWN],
        ]
        return "\n".join(lines)


def _answers(data: bytes) -> Iterator[Response]:
    """The final answers in the received data; raises ValueError at an incomplete one."""
    while data:
        head, end, rest = data.partition(b"\r\n\r\n")
        first, *lines = head.decode("latin-1").split("\r\n")
        status = re.match(r"HTTP/1\.[01] (\d{3}) ", first)
        if not end or not status:
            raise ValueError
        if status[1].startswith("1"):
            data = rest
            continue
        headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}
        length = int(headers.get("content-length", "-1"))
        if not 0 <= length <= len(rest):
            raise ValueError
        yield Response(int(status[1]), headers, rest[:length])
        data = rest[length:]


class Campaign:
    """Clients against one server, until time is up."""

    def __init__(self, server: Server, connection: psycopg.Connection, seed_: int, hang: float) -> None:
        """A probe that takes longer than `hang` seconds counts as a hang."""
        self.report = Report()
        self._hang = hang
        self._server = server
        self._connection = connection
        self._seed = seed_
        self._lock = threading.Lock()
        self._request_ids: set[str] = set()
        self._cut: set[tuple[str, str]] = set()  # account and idempotency key, must not be charged
        self._charged: set[tuple[str, str]] = set()  # must be charged
        set_plan(connection, "fuzz", {"color_match": 10**8, "color_search": 10**8}, requests_per_minute=10**8)
        self._accounts = [accounts.create_account(connection, "fuzz") for _ in range(CLIENTS + 1)]

    def run(self, seconds: float) -> Report:
        """Runs all clients and the probe, then checks what they left."""
        self._probe()
        time.sleep(1)  # the server is ready with its first worker; the others follow
        before = self._descriptors()
        end = time.monotonic() + seconds
        with ThreadPoolExecutor(CLIENTS + 1) as threads:
            done = [threads.submit(self._client, number, end) for number in range(CLIENTS)]
            done.append(threads.submit(self._watch, end))
        for each in done:
            each.result()
        self._settle(before)
        self._audit()
        log = self._server.log.read_text(errors="replace")
        if "Traceback" in log:
            self._violation("a traceback in the log: " + log[log.index("Traceback") :][:2000])
        if any(account.api_key in log for account in self._accounts):
            self._violation("an API key in the log")
        return self.report

    def _violation(self, text: str) -> None:
        for account in self._accounts:
            text = text.replace(account.api_key, "KEY")
        with self._lock:
            self.report.violations.append(text)

    # --- clients

    def _client(self, number: int, end: float) -> None:
        rng = Random(f"{self._seed}/{number}")
        account = self._accounts[number]
        made = number << 20
        while time.monotonic() < end:
            count = rng.choice([1, 1, 1, 2, 3, 4])
            made += count
            seeds = [
                seed(rng, account.api_key, account.account_id, made - left, last=left == 0)
                for left in reversed(range(count))
            ]
            whole = b"".join(one.data for one in seeds)
            sent = mutate(rng, whole) if rng.random() < 0.8 else whole
            try:
                self._converse(rng, account.account_id, seeds, sent)
            except Exception as error:
                self._violation(f"client {number}: {error!r} after {sent[:SHOWN_BYTES]!r}")

    def _converse(self, rng: Random, account_id: str, seeds: list[Seed], data: bytes) -> None:
        whole = b"".join(one.data for one in seeds)
        manner = rng.choice(["whole", "whole", "pieces", "drip", "half-close", "half-close", "close", "reset", "deaf"])
        watched = manner not in {"close", "reset"}
        if not watched and rng.random() < 0.7:
            data = data[: rng.randrange(len(data) + 1)]
        answer = b""
        with self._lock:
            self.report.connections += 1
            self.report.requests += len(seeds)
        try:
            with self._server.socket() as raw:
                raw.settimeout(ANSWER_SECONDS)
                self._send(rng, raw, data, manner)
                if manner == "reset":
                    raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                elif manner != "close":
                    if manner == "half-close":
                        raw.shutdown(socket.SHUT_WR)
                    elif data != whole:
                        raw.settimeout(QUIET_SECONDS)
                    if manner == "deaf":
                        time.sleep(QUIET_SECONDS)
                    while part := raw.recv(65536):
                        answer += part
        except TimeoutError:
            if data == whole:
                self._violation(f"no end of answers to {whole[:SHOWN_BYTES]!r}")
        except OSError:  # the server reset the connection, or died
            watched = False
        self._judge(account_id, seeds, data, answer, watched=watched)

    def _send(self, rng: Random, raw: socket.socket, data: bytes, manner: str) -> None:
        size = {"pieces": rng.randint(1, 200), "drip": 1}.get(manner, len(data) + 1)
        for at in range(0, min(len(data), 60 * size), size):
            raw.sendall(data[at : at + size])
            if size <= len(data):
                time.sleep(0.001)
        raw.sendall(data[60 * size :])

    def _judge(self, account_id: str, seeds: list[Seed], data: bytes, came: bytes, *, watched: bool) -> None:
        answers: list[Response] = []
        try:
            for answer in _answers(came):
                answers.append(answer)
                self._check(answer)
        except ValueError:
            if watched:
                self._violation(f"a broken answer {came[-600:]!r} to {data[:SHOWN_BYTES]!r}")
        whole = b"".join(one.data for one in seeds)
        same = sum(1 for _ in takewhile(bool, map(eq, whole, data)))
        end = 0
        for place, one in enumerate(seeds):
            begin, end = end, end + len(one.data)
            if end > same:
                if one.idempotency_key is not None and len(data) == same >= begin:
                    self._cut.add((account_id, one.idempotency_key))
                break
            if place < len(answers):
                found = answers[place]
                if found.status >= 500:
                    continue  # the ledger was late; the report counts it
                if found.status != one.status or one.mark not in found.body:
                    self._violation(f"answer {place} is {found} to {one.data[:SHOWN_BYTES]!r}")
                elif found.status == 200 and one.idempotency_key is not None:
                    self._charged.add((account_id, one.idempotency_key))
            elif watched and data == whole:
                self._violation(f"no answer {place} to {one.data[:SHOWN_BYTES]!r}")

    def _check(self, answer: Response) -> None:
        request_id, error = answer.headers.get("x-request-id", ""), answer.error
        named = (answer.headers.get("content-type"), answer.headers.get("cache-control"))
        with self._lock:
            self.report.answers[str(answer.status)] += 1
            is_new = request_id not in self._request_ids
            self._request_ids.add(request_id)
        sound = is_new and str(uuid.UUID(request_id)) == request_id and named == ("application/json", "no-store")
        if error:
            form = {"error": error, "requestId": request_id}
            sound = sound and answer.json == form and ERRORS[error].status == answer.status
        if not sound or (error == "internal_error" and "ledger unavailable" not in self._server.log.read_text()):
            self._violation(f"an answer that cannot be: {answer}")

    # --- the watch

    def _probe(self) -> None:
        start = time.monotonic()
        headers = {"Authorization": f"Bearer {self._accounts[-1].api_key}"}
        try:
            answered = self._server.request("GET", "/v1/library", headers).status in {200, 500}
        except (OSError, HTTPException):
            answered = False
        self.report.probes += 1
        self.report.hangs += not answered or time.monotonic() - start > self._hang

    def _watch(self, end: float) -> None:
        alive = set(self._server.workers())
        while time.monotonic() < end:
            self._probe()
            now = set(self._server.workers())
            self.report.deaths += len(alive - now)
            alive = now
            time.sleep(0.1)
        self._probe()

    def _descriptors(self) -> dict[int, int]:
        return {pid: psutil.Process(pid).num_fds() for pid in self._server.workers()}

    def _settle(self, before: dict[int, int]) -> None:
        def all_are_closed() -> bool:
            now = self._descriptors()
            return all(count <= before.get(pid, count) + SPARE_DESCRIPTORS for pid, count in now.items())

        try:
            until(all_are_closed, seconds=SETTLE_SECONDS)
        except AssertionError:
            self._violation(f"descriptors stay open: {before}, now {self._descriptors()}")

    def _audit(self) -> None:
        stored: set[tuple[str, str]] = set()
        for account in self._accounts:
            rows = self._connection.execute(
                "select idempotency_key, units from sepu.stored_result where account_id = %s", [account.account_id]
            ).fetchall()
            stored |= {(account.account_id, key) for key, _ in rows}
            usage = show_usage(self._connection, account.account_id).usage
            if sum(meter.committed for meter in usage) != sum(units for _, units in rows):
                self._violation(f"charged {usage}, but stored {len(rows)} results")
        if lost := self._charged - stored:
            self._violation(f"answered and not charged: {sorted(lost)[:5]}")
        if undue := self._cut & stored:
            self._violation(f"charged for half a request: {sorted(undue)[:5]}")
