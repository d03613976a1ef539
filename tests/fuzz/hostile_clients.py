"""Hostile clients against a real server, and what must hold all the while.

The answers to what was sent whole and unchanged must come first, in order, each its own request's; whatever else is
answered must be whole and in the contract's form. A cut request is never charged. No worker dies, none keeps anybody
waiting, and in the end nothing is left of the connections.
"""

import json
import os
import socket
import struct
import threading
import time
import uuid
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.client import HTTPException
from pathlib import Path
from random import Random

import psycopg
from tests.fuzz.seeds import Seed, mutate, seed
from tests.serving import Server

from sepu.admin import accounts
from sepu.admin.plans import set_plan
from sepu.admin.usage import show_usage
from sepu.http.errors import ERRORS

CLIENTS = 8
ANSWER_SECONDS = 10.0  # in which a client has all answers to what it sent whole
QUIET_SECONDS = 0.15  # a client that cannot know whether more comes waits so long for it
SETTLE_SECONDS = 70.0  # in which all that the clients left behind must be gone; nginx keeps idle connections for 60
SPARE_DESCRIPTORS = 12  # the pools' connections come and go
SHOWN = 20
SHOWN_BYTES = 600


class _BrokenError(Exception):
    """An answer that is none."""


@dataclass
class Report:
    """What happened."""

    connections: int = 0
    requests: int = 0
    answers: Counter[str] = field(default_factory=Counter)
    resets: int = 0  # by the server, or by its death
    deaths: int = 0
    probes: int = 0
    hangs: int = 0
    slowest: float = 0.0
    descriptors: dict[int, tuple[int, int]] = field(default_factory=dict)
    violations: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        statuses = ", ".join(f"{status}: {count}" for status, count in sorted(self.answers.items()))
        kinds = Counter(text.split(" b", 1)[0][:30] for text in self.violations)
        lines = [
            f"{self.connections} connections, {self.requests} requests; answers {statuses}",
            f"{self.deaths} deaths of workers, {self.resets} connections reset by the server",
            f"{self.probes} probes, {self.hangs} hangs, the slowest {self.slowest:.2f} s",
            f"descriptors of each worker before and after: {list(self.descriptors.values())}",
            f"{len(self.violations)} violations {dict(kinds)}",
            *self.violations[:SHOWN],
        ]
        return "\n".join(lines)


@dataclass
class _Answer:
    status: int
    headers: dict[str, str]
    body: bytes


def _answers(data: bytes) -> Iterator[_Answer]:
    """The final answers in what came back; raises _BrokenError at one that is not whole."""
    while data:
        head, end, rest = data.partition(b"\r\n\r\n")
        lines = head.decode("latin-1").split("\r\n")
        version, _, status = lines[0].partition(" ")
        if not end or version not in {"HTTP/1.1", "HTTP/1.0"} or not status[:3].isdigit():
            raise _BrokenError
        headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines[1:])}
        if status.startswith("1"):
            data = rest
            continue
        length = int(headers.get("content-length", "-1"))
        if not 0 <= length <= len(rest):
            raise _BrokenError
        yield _Answer(int(status[:3]), headers, rest[:length])
        data = rest[length:]


class Campaign:
    """Clients over one server, until the time is up."""

    def __init__(self, server: Server, connection: psycopg.Connection, seed_: int, hang: float) -> None:
        """A probe that takes longer than `hang` seconds is one."""
        self.report = Report()
        self._hang = hang
        self._server = server
        self._connection = connection
        self._seed = seed_
        self._lock = threading.Lock()
        self._request_ids: set[str] = set()
        self._cut: set[tuple[str, str]] = set()  # account and idempotency key that must not be charged
        self._charged: set[tuple[str, str]] = set()  # and that must
        set_plan(connection, "fuzz", {"color_match": 10**8, "color_search": 10**8}, requests_per_minute=10**8)
        self._accounts = [accounts.create_account(connection, "fuzz") for _ in range(CLIENTS + 1)]

    def run(self, seconds: float) -> Report:
        """Runs all clients and the probe, then looks at what they left."""
        self._probe()
        time.sleep(1)  # the first worker makes the server ready; the others are about to be
        before = self._descriptors()
        end = time.monotonic() + seconds
        clients = [threading.Thread(target=self._client, args=(number, end)) for number in range(CLIENTS)]
        watch = threading.Thread(target=self._watch, args=(end,))
        for thread in (*clients, watch):
            thread.start()
        for thread in (*clients, watch):
            thread.join()
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
            seeds = []
            for place in range(count):
                made += 1
                seeds.append(seed(rng, account.api_key, account.account_id, made, last=place == count - 1))
            whole = b"".join(one.data for one in seeds)
            sent = mutate(rng, whole) if rng.random() < 0.8 else whole
            try:
                self._converse(rng, account.account_id, seeds, whole, sent)
            except Exception as error:
                self._violation(f"client {number}: {error!r} after {sent[:SHOWN_BYTES]!r}")

    def _converse(self, rng: Random, account_id: str, seeds: list[Seed], whole: bytes, data: bytes) -> None:
        manner = rng.choice(["whole", "whole", "pieces", "drip", "half-close", "half-close", "close", "reset", "deaf"])
        if manner in {"close", "reset"} and rng.random() < 0.7:
            data = data[: rng.randrange(len(data) + 1)]
        same = next(
            (at for at, (a, b) in enumerate(zip(whole, data, strict=False)) if a != b), min(len(whole), len(data))
        )
        answer, torn = b"", False
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
        except OSError:
            torn = True
            with self._lock:
                self.report.resets += 1
        self._judge(account_id, seeds, whole, data, same, answer, watched=manner not in {"close", "reset"} and not torn)

    def _send(self, rng: Random, raw: socket.socket, data: bytes, manner: str) -> None:
        sizes = {"pieces": rng.randint(1, 200), "drip": 1}
        size = sizes.get(manner, len(data))
        at = 0
        for _ in range(60):
            raw.sendall(data[at : at + size])
            at += size
            if at >= len(data):
                return
            time.sleep(0.001)
        raw.sendall(data[at:])

    def _judge(
        self, account_id: str, seeds: list[Seed], whole: bytes, data: bytes, same: int, came: bytes, *, watched: bool
    ) -> None:
        answers: list[_Answer] = []
        try:
            for answer in _answers(came):
                answers.append(answer)
                self._check(answer)
        except (_BrokenError, ValueError):
            if watched:
                self._violation(f"a broken answer {came[-600:]!r} to {data[:SHOWN_BYTES]!r}")
        position = 0
        for place, one in enumerate(seeds):
            position += len(one.data)
            if position > same:
                if one.idempotency_key is not None and len(data) == same and position - len(one.data) <= same:
                    self._cut.add((account_id, one.idempotency_key))
                break
            if place < len(answers):
                found = answers[place]
                if found.status >= 500:
                    continue  # the ledger was late; counted
                if found.status != one.status or one.mark not in found.body:
                    self._violation(
                        f"answer {place} is {found.status} {found.body[:300]!r} to {one.data[:SHOWN_BYTES]!r}"
                    )
                elif found.status == 200 and one.idempotency_key is not None:
                    self._charged.add((account_id, one.idempotency_key))
            elif watched and data == whole:
                self._violation(f"no answer {place} to {one.data[:SHOWN_BYTES]!r}")

    def _check(self, answer: _Answer) -> None:
        with self._lock:
            self.report.answers[str(answer.status)] += 1
        request_id = answer.headers.get("x-request-id", "")
        problems = []
        if (
            answer.headers.get("content-type") != "application/json"
            or answer.headers.get("cache-control") != "no-store"
        ):
            problems.append("headers")
        if str(uuid.UUID(request_id)) != request_id:
            problems.append("request id")
        with self._lock:
            if request_id in self._request_ids:
                problems.append("an answer twice")
            self._request_ids.add(request_id)
        if answer.status >= 400:
            body = json.loads(answer.body)
            if body != {"error": body["error"], "requestId": request_id}:
                problems.append("error body")
            if ERRORS[body["error"]].status != answer.status:
                problems.append("code")
            if body["error"] == "internal_error" and "ledger unavailable" not in self._server.log.read_text():
                problems.append("a 500")
        if problems:
            self._violation(f"{problems} in {answer}")

    # --- the watch

    def _probe(self) -> None:
        start = time.monotonic()
        headers = {"Authorization": f"Bearer {self._accounts[-1].api_key}"}
        try:
            answered = self._server.request("GET", "/v1/library", headers).status in {200, 500}
        except (OSError, HTTPException):
            answered = False
        took = time.monotonic() - start
        self.report.probes += 1
        self.report.hangs += not answered or took > self._hang
        self.report.slowest = max(self.report.slowest, took)

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
        if not Path("/proc/self/fd").exists():
            return {}
        return {pid: len(os.listdir(f"/proc/{pid}/fd")) for pid in self._server.workers()}  # noqa: PTH208

    def _settle(self, before: dict[int, int]) -> None:
        deadline = time.monotonic() + SETTLE_SECONDS
        while True:
            after = self._descriptors()
            left = [pid for pid in before if pid in after and after[pid] > before[pid] + SPARE_DESCRIPTORS]
            if not left or time.monotonic() > deadline:
                break
            time.sleep(0.5)
        self.report.descriptors = {pid: (before[pid], after[pid]) for pid in before if pid in after}
        if left:
            self._violation(f"descriptors stay open: {self.report.descriptors}")

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
