"""A hostile service against both clients: `make fuzz WHAT=client`. A single case: `python -m tests.fuzz.client SEED`.

Its answers come from a grammar, over real sockets and on each way to a service. Every call ends by its deadline with a
result or an error of the client's own; what `sepu-client` would print commands no terminal; nothing stays open.
"""

import json
import resource
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from random import Random
from typing import Any

import psutil
from tests.client.blocking import CLIENTS, AnyClient
from tests.client.hostile import WAYS, Peer, Step, listening
from tests.fuzz.hostile_endpoint import answer, header
from tests.fuzz.outcome import Outcome
from tests.fuzz.seeds import chunked
from tests.processes import until

import sepu_client
from sepu_client import command

TIMEOUT, DEADLINE = 0.2, 0.5
LATE = 5.0  # seconds after the deadline; the machine may be busy, and what hangs takes 20
MOST_GROWTH = 300 * 2**20  # bytes; each of the calls at a time may read a mebibyte and parse it
THREADS = 16
CALLS: dict[str, Callable[[AnyClient], object]] = {
    "match": lambda client: client.match(["#c83c23"]),
    "search": lambda client: client.search("hong"),
    "library": lambda client: client.library(),
    "usage": lambda client: client.usage(),
}

_HOSTILE = ["\x1b[2J", "\x1b]0;x\x07", "\x9b31m", "\u202e", "\u2028\x00", "\ud800", "\U000e0041", "红", "", "x" * 5000]
_NUMBERS = ["0", "-1", "1e999", "-1e308", "1" * 5000, "NaN", "-Infinity", "1.5", "00", "0x1", "true", '"1"', "null"]
_COLOR = {"slug": "a", "name": {"zh": "红", "en": "red", "pinyin": "hóng"}, "hex": "#FF0000", "reliability": "verified"}
_METER = {"period": "2026-11", "meter": "color_match", "limit": 9, "committed": 1, "reserved": 0, "remaining": 8}
_BODIES: dict[str, dict[str, Any]] = {
    "match": {
        "datasetVersion": "1",
        "results": [{"input": {"r": 1, "g": 2, "b": 3}, "matches": [{**_COLOR, "deltaE": 0.5, "similarity": 0.9}]}],
    },
    "search": {"datasetVersion": "1", "count": 1, "results": [_COLOR]},
    "library": {
        "version": "1", "recordCount": 161, "sourceProjectionVersion": "1", "sourceProjectionSha256": "0",
        "rightsManifestSha256": "0", "librarySha256": "0", "mode": "commercial",
    },
    "usage": {"accountId": "a", "planId": "b", "status": "active", "usage": [_METER, _METER]},
}  # fmt: skip


class Grammar:
    """Makes what a peer says, by one generator of random numbers."""

    def __init__(self, rng: Random) -> None:
        self._rng = rng

    def json(self, node: Any) -> str:
        """A document of that form, mostly, with what is hostile in places."""
        rng = self._rng
        roll = rng.random()
        if roll < 0.01:
            return rng.choice(_NUMBERS)
        if roll < 0.015:
            return "[" * 100_000 if rng.random() < 0.3 else "[]"
        if isinstance(node, dict):
            members = [f"{json.dumps(name)}:{self.json(value)}" for name, value in node.items() if rng.random() < 0.995]
            return "{" + ",".join(members) + "}"
        if isinstance(node, list):
            return "[" + ",".join(self.json(item) for item in node * rng.choice([1, 1, 1, 0, 3, 30])) + "]"
        if isinstance(node, str) and rng.random() < 0.3:
            return json.dumps(node + rng.choice(_HOSTILE), ensure_ascii=rng.random() < 0.5)
        return json.dumps(node)

    def body(self, call: str) -> bytes:
        rng = self._rng
        roll = rng.random()
        if roll < 0.75:
            content = self.json(_BODIES[call]).encode("utf-8", "surrogatepass")
        elif roll < 0.9:
            content = f'{{"error":{self.json(rng.choice(["rate_limited", "quota_exceeded", "x"]))}}}'.encode(
                "utf-8", "surrogatepass"
            )
        elif roll < 0.95:
            content = rng.randbytes(rng.choice([0, 1, 100, 70_000]))
        else:
            content = b" " * rng.choice([2**20 - 10, 2**20 + 10, 3 * 2**20]) + b"{}"
        if rng.random() < 0.05:
            at = rng.randrange(len(content) + 1)
            content = content[:at] + rng.randbytes(rng.randint(0, 3)) + content[at + rng.randint(0, 3) :]
        return content

    def headers(self) -> bytes:
        """Those that the service sends, mostly, and others that ask something of the client."""
        rng = self._rng
        hostile = ["\x1b[2J", "\x9b", "é", "9" * 5000, "-1", "", "\x00", "a\r\n b", "x" * rng.choice([10, 90_000])]
        usual = {
            "X-Request-Id": "00000000-0000-0000-0000-000000000000",
            **{f"X-Usage-{name.title()}": str(value) for name, value in _METER.items()},
            "Idempotency-Replayed": "true",
            "X-Error-Pointer": "/colors/2/g",
        }
        found = [
            f"{name}: {rng.choice(hostile) if rng.random() < 0.02 else value}\r\n".encode("latin-1")
            for name, value in usual.items()
            if rng.random() < 0.99
        ]
        found += [header(rng) for _ in range(rng.choice([0, 0, 0, 1, 2]))]
        if rng.random() < 0.02:
            found += [b"X: y\r\n"] * rng.choice([200, 50_000])
        rng.shuffle(found)
        return b"".join(found)

    def answer(self, call: str) -> bytes:
        """One answer, and perhaps what nobody asked for before and after it."""
        rng = self._rng
        if rng.random() < 0.2:
            return answer(rng)
        content = self.body(call)
        headers = self.headers()
        status = rng.choice([200] * 12 + [201, 204, 304, 302, 307, 400, 401, 403, 408, 409, 422, 429, 500, 502, 503])
        match rng.randrange(8):
            case 0 | 1 | 2 | 3:
                headers += b"Content-Length: %d\r\n" % (len(content) + rng.choice([0] * 20 + [1, -1, 10**30]))
            case 4 | 5:
                headers += b"Transfer-Encoding: chunked\r\n"
                content = chunked(rng, content)
            case _:
                pass  # until it closes
        before = rng.choice([b""] * 9 + [b"HTTP/1.1 100 Continue\r\n\r\n" * rng.choice([1, 3000]), b"\r\n"])
        after = rng.choice([b""] * 9 + [b"HTTP/1.1 408 Late\r\nContent-Length: 0\r\n\r\n", rng.randbytes(9)])
        return before + b"HTTP/1.1 %d OK\r\n" % status + headers + b"\r\n" + content + after

    def steps(self, way: str, call: str) -> list[Step]:
        """What the peer does to a connection: the steps of its way, an answer in pieces, and an end."""
        rng = self._rng
        steps = list(WAYS[way])
        if rng.random() < 0.25:
            steps = steps[: rng.randrange(len(steps) + 1)]
        data = self.answer(call) if rng.random() < 0.95 else rng.randbytes(rng.choice([1, 20, 5000]))
        if rng.random() < 0.2:
            data = data[: rng.randrange(len(data) + 1)]
        at = sorted(rng.randrange(len(data) + 1) for _ in range(rng.choice([0, 0, 1, 4])))
        for start, end in zip([0, *at], [*at, len(data)], strict=True):
            steps.append(_sending(data[start:end]))
            if rng.random() < 0.3:
                steps.append(_pausing(rng.choice([0.001, 0.05])))
        drop = rng.choice(
            [b" ", b"X: y\r\n", b"1\r\n \r\n", b"HTTP/1.1 100 C\r\n\r\n", b"\x16\x03\x03", b"\x05", b"\x00"]
        )
        ends: list[Step] = [
            lambda _: None, lambda _: None, lambda _: None, Peer.silence, Peer.reset,
            lambda peer: peer.drip(drop), lambda peer: peer.flood(drop * 5000),
        ]  # fmt: skip
        return [*steps, rng.choice(ends)]


def _sending(data: bytes) -> Step:
    return lambda peer: peer.send(data)


def _pausing(seconds: float) -> Step:
    return lambda _: time.sleep(seconds)


def case(seed: int, late: float = LATE) -> tuple[str, str | None]:
    """Plays one case; returns what it tried, and its fault if there is one."""
    rng = Random(seed)
    way, kind, call = rng.choice(list(WAYS)), rng.choice(list(CLIENTS)), rng.choice(list(CALLS))
    tried = f"{kind}, {way}"
    grammar = Grammar(rng)
    fault = None
    with listening(way, kind, grammar.steps(way, call)) as peer:
        with CLIENTS[kind](api_key="sepu_key", timeout=TIMEOUT, deadline=DEADLINE, **peer.options) as client:
            for _ in range(rng.choice([1, 1, 2])):  # the second perhaps on the same connection
                began = time.monotonic()
                outcome: Any = None
                try:
                    outcome = CALLS[call](client)
                except sepu_client.Error as error:
                    outcome = error
                except BaseException as error:
                    fault = f"{type(error).__name__}: {str(error)[:200]}"
                took = time.monotonic() - began
                if took > DEADLINE + late:
                    fault = f"{took:.1f} s"
                fault = fault or _printed(outcome)
        try:
            until(lambda: not any(map(_is_held, list(peer.open))), seconds=late)
        except AssertionError:
            fault = fault or "a connection was left open"
    return tried, fault and f"{tried}, {call}: {fault}; python -m tests.fuzz.client {seed}"


def _is_held(peer: Peer) -> bool:
    """Whether the client still has its end. One that floods a closed end may learn of that only after a while."""
    try:
        end = peer.socket.getpeername()
    except OSError:
        return False
    return not end or any(found.laddr == end for found in psutil.Process().net_connections("tcp"))


def _printed(outcome: Any) -> str | None:
    """What is wrong with what the command prints, if anything is."""
    if isinstance(outcome, sepu_client.Library):
        return None  # it does not print that
    lines = [str(outcome)] if isinstance(outcome, Exception) else list(command.lines(outcome, as_json=False))
    as_json = [] if isinstance(outcome, Exception) else list(command.lines(outcome, as_json=True))
    shown = [command.printable(line) for line in lines + as_json]
    if not all(line.isprintable() for line in shown):
        return f"it prints {shown!r:.200}"
    if as_json and not isinstance(json.loads(shown[-1]), dict):
        return "it prints no object"
    return None


def fuzz(seconds: float, seed: int, *, cases: int = 10**6, late: float = LATE) -> Outcome:
    """Plays cases from `seed * 10**6` on."""
    outcome = Outcome()
    before, end = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024, time.monotonic() + seconds
    threads = threading.active_count()

    ahead, lock = iter(range(seed * 10**6, seed * 10**6 + cases)), threading.Lock()

    def play() -> None:
        while time.monotonic() < end:
            with lock:
                number = next(ahead, None)
            if number is None:
                return
            tried, fault = case(number, late)
            with lock:
                outcome.tried[tried] += 1
                outcome.faults += [fault] if fault else []

    with ThreadPoolExecutor(THREADS) as pool:
        for played in [pool.submit(play) for _ in range(THREADS)]:
            played.result()
    growth = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 - before
    if growth > MOST_GROWTH:
        outcome.faults.append(f"memory grew by {growth >> 20} MiB")
    try:
        until(lambda: threading.active_count() <= threads, seconds=late)
    except AssertionError:
        outcome.faults.append(f"{threading.active_count() - threads} threads did not end")
    return outcome


if __name__ == "__main__":
    sys.stdout.write(f"{case(int(sys.argv[1]))}\n")
