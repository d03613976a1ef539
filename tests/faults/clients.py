"""Clients that send and retry by the interface's rules, and remember their answers."""

import asyncio
import itertools
import json
import random
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from urllib.parse import quote

from tests.faults.history import UNANSWERED, History, Request, digest, told_by
from tests.harness.serving import Response

TIMEOUT_SECONDS = 5.0  # a client's wait for an answer
QUERIES = ("hong", "tao hong", "桃红", "石青", "lan", "zh", "crimson", "moon white", "xyzzy")


@dataclass(frozen=True, slots=True)
class Holder:
    """An account, as its customer sees it."""

    account_id: str
    api_key: str = field(repr=False)
    weight: float
    raced: bool = False  # two clients send each request of this account at the same time
    careless: bool = False  # it reuses keys for other requests
    changes: str = ""  # the operator moves it to other plans, or varies its plan


@dataclass(frozen=True, slots=True)
class Ask:
    """A logical request and its message, which is sent unchanged until it is answered."""

    holder: Holder
    request: Request
    message: bytes = field(repr=False)


def asks(holders: Sequence[Holder], rng: random.Random) -> Iterator[Ask]:
    """Endless logical requests: matches of one to five colours, some searches, and calls of usage and library."""
    weights = list(itertools.accumulate(holder.weight for holder in holders))
    for number in itertools.count():
        (holder,) = rng.choices(holders, cum_weights=weights)
        key = f"soak-{number // 100 if holder.careless else number:08}"
        if rng.random() < 0.1:
            name = rng.choice(("usage", "library"))
            yield _ask(holder, f"unmetered-{number:08}", name, 0, "GET", f"/v1/{name}", b"")
        elif rng.random() < 0.2:
            target = f"/v1/search?q={quote(rng.choice(QUERIES))}&limit={rng.randint(1, 10)}"
            yield _ask(holder, key, "color_search", 1, "GET", target, b"")
        else:
            colors = [{channel: rng.randrange(256) for channel in "rgb"} for _ in range(rng.randint(1, 5))]
            body = json.dumps({"colors": colors, "top": rng.randint(1, 3)}).encode()
            yield _ask(holder, key, "color_match", len(colors), "POST", "/v1/match", body)


def _ask(holder: Holder, key: str, meter: str, units: int, method: str, target: str, body: bytes) -> Ask:
    lines = [f"{method} {target} HTTP/1.1", "Host: localhost", f"Authorization: Bearer {holder.api_key}"]
    if units:
        lines.append(f"Idempotency-Key: {key}")
    if body:
        lines += ["Content-Type: application/json", f"Content-Length: {len(body)}"]
    request = Request(holder.account_id, key, meter, units, digest(target.encode() + body))
    return Ask(holder, request, "\r\n".join([*lines, "", ""]).encode() + body)


@dataclass
class Memory:
    """The answers to all clients."""

    history: History = field(default_factory=History)
    settled: set[Request] = field(default_factory=set)  # answered 200 or refused finally
    stuck: set[Request] = field(default_factory=set)  # neither in time
    tally: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)  # answers that no client should see

    def learn(self, ask: Ask, answer: Response) -> bool:
        """Whether the answer ends the logical request; records an answer against the rules as wrong."""
        what = str(answer.status) if answer.status == 200 else f"{answer.status} {answer.error}"
        self.tally[what] += 1
        match what:
            case "200":
                self.tally["replays"] += answer.headers.get("idempotency-replayed") == "true"
            case "429 quota_exceeded" | "429 rate_limited" | "409 idempotency_conflict":
                pass  # the history decides whether it is justified
            case "503 usage_commit_failed" | "409 request_in_progress":
                if "retry-after" not in answer.headers:
                    self.wrong.append(f"{ask}: {what} without Retry-After")
                return False
            case "500 internal_error":
                return False
            case _:
                self.wrong.append(f"{ask}: {what}")
        self.settled.add(ask.request)
        return True


class Client:
    """One connection, one request at a time. Each new connection goes to the next node."""

    def __init__(self, addresses: Sequence[str], memory: Memory, rng: random.Random) -> None:
        self._addresses = itertools.cycle(addresses)
        self._memory = memory
        self._random = rng
        self._kept: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def settle(self, ask: Ask) -> None:
        """Sends the request until the answer is final."""
        for attempt in itertools.count():
            self._memory.tally["attempts"] += 1
            pause = min(2.0, 0.05 * 2**attempt)
            start, told = time.monotonic(), [UNANSWERED]
            try:
                async with asyncio.timeout(TIMEOUT_SECONDS):
                    answer = await self._ask(ask.message)
                told = told_by(ask.request, answer)
            except TimeoutError:
                self._memory.tally["time-outs"] += 1
                self.close()
            except (OSError, EOFError):
                self._memory.tally["broken connections"] += 1
                self.close()
            else:
                if self._memory.learn(ask, answer):
                    return
                pause = max(pause, float(answer.headers.get("retry-after", 0)))
            finally:
                self._memory.history.add(ask.request, start, time.monotonic(), *told)
            await asyncio.sleep(pause * self._random.uniform(1, 1.5))

    def close(self) -> None:
        if self._kept is not None:
            self._kept[1].close()
            self._kept = None

    async def _ask(self, message: bytes) -> Response:
        if self._kept is None or self._kept[1].is_closing():
            self._kept = await self._connect()
        reader, writer = self._kept
        writer.write(message)
        status, *lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").splitlines()
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines if line)}
        body = await reader.readexactly(int(headers["content-length"]))
        if headers.get("connection", "").lower() == "close":
            self.close()
        return Response(int(status.split()[1]), headers, body)

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        address = next(self._addresses)
        if address.startswith("unix:"):
            return await asyncio.open_unix_connection(address[5:])
        host, _, port = address.rpartition(":")
        return await asyncio.open_connection(host, int(port))
