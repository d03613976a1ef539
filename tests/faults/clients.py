"""Clients that ask and retry by the interface's rules, and remember what they were told."""

import asyncio
import itertools
import json
import random
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from urllib.parse import quote

TIMEOUT_SECONDS = 5.0  # seconds that a client waits for an answer
QUERIES = ("hong", "tao hong", "桃红", "石青", "lan", "zh", "crimson", "moon white", "xyzzy")


@dataclass(frozen=True, slots=True)
class Holder:
    """An account, as its customer sees it."""

    account_id: str
    api_key: str = field(repr=False)
    weight: int
    raced: bool = False  # two clients ask each request of this account at the same time


@dataclass(frozen=True, slots=True)
class Ask:
    """A logical request: what is sent again, unchanged, until it is answered."""

    holder: Holder
    key: str
    meter: str
    units: int
    message: bytes = field(repr=False)

    @property
    def name(self) -> tuple[str, str]:
        return self.holder.account_id, self.key


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def error(self) -> str:
        code: str = json.loads(self.body)["error"]
        return code


def asks(holders: Sequence[Holder], rng: random.Random) -> Iterator[Ask]:
    """Logical requests without end: four matches of one to five colours to a search."""
    weights = [holder.weight for holder in holders]
    for number in itertools.count():
        (holder,) = rng.choices(holders, weights)
        key = f"soak-{number:08}"
        if rng.random() < 0.2:
            target = f"/v1/search?q={quote(rng.choice(QUERIES))}&limit={rng.randint(1, 10)}"
            yield Ask(holder, key, "color_search", 1, _message("GET", target, holder, key, b""))
        else:
            colors = [{channel: rng.randrange(256) for channel in "rgb"} for _ in range(rng.randint(1, 5))]
            body = json.dumps({"colors": colors, "top": rng.randint(1, 3)}).encode()
            yield Ask(holder, key, "color_match", len(colors), _message("POST", "/v1/match", holder, key, body))


def _message(method: str, target: str, holder: Holder, key: str, body: bytes) -> bytes:
    lines = [
        f"{method} {target} HTTP/1.1",
        "Host: localhost",
        f"Authorization: Bearer {holder.api_key}",
        f"Idempotency-Key: {key}",
    ]
    if body:
        lines += ["Content-Type: application/json", f"Content-Length: {len(body)}"]
    return "\r\n".join([*lines, "", ""]).encode() + body


@dataclass
class Memory:
    """What all clients were told."""

    answered: dict[tuple[str, str], bytes] = field(default_factory=dict)  # the body of every 200
    refused: set[tuple[str, str]] = field(default_factory=set)  # ended by quota_exceeded
    stuck: set[tuple[str, str]] = field(default_factory=set)  # neither, in time
    tally: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)  # what no client should ever see

    def learn(self, ask: Ask, answer: Answer) -> bool:
        """Whether the answer ends the logical request; anything but an answer by the rules is noted as wrong."""
        what = str(answer.status) if answer.status == 200 else f"{answer.status} {answer.error}"
        self.tally[what] += 1
        match what:
            case "200":
                if answer.headers.get("idempotency-replayed") == "true":
                    self.tally["replays"] += 1
                if self.answered.setdefault(ask.name, answer.body) != answer.body:
                    self.wrong.append(f"{ask}: two answers, {self.answered[ask.name]!r} and {answer.body!r}")
            case "429 quota_exceeded":
                self.refused.add(ask.name)
            case "503 usage_commit_failed" | "409 request_in_progress":
                if "retry-after" not in answer.headers:
                    self.wrong.append(f"{ask}: {what} without Retry-After")
                return False
            case "500 internal_error":
                return False
            case _:
                self.wrong.append(f"{ask}: {what}")
        if int(answer.headers.get("x-usage-committed", 0)) > int(answer.headers.get("x-usage-limit", 0)):
            self.wrong.append(f"{ask}: committed beyond the limit")
        if ask.name in self.refused and ask.name in self.answered:
            self.wrong.append(f"{ask}: answered and refused")
        return True


class Client:
    """One connection at a time, one request at a time. Each new connection goes to the next of the nodes."""

    def __init__(self, addresses: Sequence[str], memory: Memory, rng: random.Random) -> None:
        self._addresses = itertools.cycle(addresses)
        self._memory = memory
        self._random = rng
        self._kept: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def settle(self, ask: Ask) -> None:
        """Asks until the answer is final."""
        for attempt in itertools.count():
            self._memory.tally["attempts"] += 1
            pause = min(2.0, 0.05 * 2**attempt)
            try:
                async with asyncio.timeout(TIMEOUT_SECONDS):
                    answer = await self._ask(ask.message)
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
            await asyncio.sleep(pause * self._random.uniform(1, 1.5))

    def close(self) -> None:
        if self._kept is not None:
            self._kept[1].close()
            self._kept = None

    async def _ask(self, message: bytes) -> Answer:
        if self._kept is None or self._kept[1].is_closing():
            self._kept = await self._connect()
        reader, writer = self._kept
        writer.write(message)
        status, *lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").splitlines()
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines if line)}
        body = await reader.readexactly(int(headers["content-length"]))
        if headers.get("connection", "").lower() == "close":
            self.close()
        return Answer(int(status.split()[1]), headers, body)

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        address = next(self._addresses)
        if address.startswith("unix:"):
            return await asyncio.open_unix_connection(address[5:])
        host, _, port = address.rpartition(":")
        return await asyncio.open_connection(host, int(port))
