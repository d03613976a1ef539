"""A hostile service against both clients: `make fuzz WHAT=client`.

Its answers come from a grammar, over real sockets and on each way to a service. Every call ends by its deadline with a
result or an error of the client's own; `sepu-client` prints no control characters; no connection stays open.
"""

import json
import resource
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from random import Random
from typing import Any

import psutil
from tests.client.blocking import CLIENTS, AnyClient
from tests.client.hostile import WAYS, Peer, Step, listening, pausing, saying
from tests.fuzz.cases import Played
from tests.fuzz.grammar import made
from tests.fuzz.seeds import chunked, mutate
from tests.harness.processes import until

import sepu_client
from sepu_client import command
from sepu_client.colors import MAX_COLORS
from sepu_client.shell import ROWS

TIMEOUT, DEADLINE = 0.2, 0.5
LATE = 10.0  # seconds; allows for a busy machine, while a hang takes 20
MAX_GROWTH_KIB = 300 << 10  # each concurrent call may read and parse a mebibyte
THREADS = 16
CALLS: dict[str, Callable[[AnyClient], object]] = {
    "match": lambda client: client.match(["#c83c23"]),
    "search": lambda client: client.search("hong"),
    "library": lambda client: client.library(),
    "usage": lambda client: client.usage(),
}
DROPS = [b" ", b"X: y\r\n", b"1\r\n \r\n", b"HTTP/1.1 100 C\r\n\r\n", b"\x16\x03\x03", b"\x05", b"\x00"]


def _answer(rng: Random, call: str) -> bytes:
    """One answer, sometimes with unexpected bytes before and after it."""
    if rng.random() < 0.2:
        return made(rng, "answer")
    content = made(rng, rng.choice([*16 * [call], *3 * ["error"], "space", "body"]))
    if rng.random() < 0.05:
        content = mutate(rng, content)
    headers = made(rng, "own headers")
    match rng.randrange(8):
        case 0 | 1 | 2 | 3:
            headers += b"Content-Length: %d\r\n" % (len(content) + rng.choice([*20 * [0], 1, -1, 10**30]))
        case 4 | 5:
            headers += b"Transfer-Encoding: chunked\r\n"
            content = chunked(rng, content)
        case _:
            pass  # ends when it closes
    status = rng.choice([*12 * [200], 201, 204, 304, 302, 307, 400, 401, 403, 408, 409, 422, 429, 500, 502, 503])
    before, after = made(rng, "interims"), made(rng, "second")
    return before + b"HTTP/1.1 %d OK\r\n" % status + headers + b"\r\n" + content + after


def _steps(rng: Random, way: str, call: str) -> list[Step]:
    """The peer's steps on a connection: those of its way, an answer in pieces, and an end."""
    steps = list(WAYS[way])
    if rng.random() < 0.25:
        steps = steps[: rng.randrange(len(steps) + 1)]
    data = _answer(rng, call)
    if rng.random() < 0.2:
        data = data[: rng.randrange(len(data) + 1)]
    at = sorted(rng.randrange(len(data) + 1) for _ in range(rng.choice([0, 0, 1, 4])))
    for start, end in zip([0, *at], [*at, len(data)], strict=True):
        steps += [saying(data[start:end]), pausing(rng.choice([0, 0, 0.001, 0.05]))]
    drop = rng.choice(DROPS)
    ends: list[Step] = [
        *3 * [pausing(0)],
        Peer.silence,
        Peer.reset,
        lambda peer: peer.drip(drop),
        lambda peer: peer.flood(drop * 5000),
    ]
    return [*steps, rng.choice(ends)]


def _case(seed: int) -> Played:
    rng = Random(seed)
    way, kind, call = rng.choice(list(WAYS)), rng.choice(list(CLIENTS)), rng.choice(list(CALLS))
    fault = None
    with listening(way, _steps(rng, way, call)) as peer:
        with CLIENTS[kind](api_key="sepu_key", timeout=TIMEOUT, deadline=DEADLINE, **peer.options) as client:
            for _ in range(rng.choice([1, 1, 2])):  # the second may use the same connection
                began = time.monotonic()
                outcome: Any = None
                try:
                    outcome = CALLS[call](client)
                except sepu_client.Error as error:
                    outcome = error
                except BaseException as error:
                    fault = f"{type(error).__name__}: {str(error)[:200]}"
                if (took := time.monotonic() - began) > DEADLINE + LATE:
                    fault = f"{took:.1f} s"
                fault = fault or _wrongly_printed(outcome)
        try:
            until(lambda: not any(map(_is_held, list(peer.open))), seconds=LATE)
        except AssertionError:
            fault = fault or "a connection was left open"
    return seed, f"{kind}, {way}", fault and f"{call}: {fault}"


def _is_held(peer: Peer) -> bool:
    """Whether the client still has its end. A client may notice a closed connection late while it is flooded."""
    try:
        end = peer.socket.getpeername()
    except OSError:
        return False
    return not end or any(found.laddr == end for found in psutil.Process().net_connections("tcp"))


def _wrongly_printed(outcome: Any) -> str | None:
    """What is wrong with the command's output, if anything."""
    if isinstance(outcome, sepu_client.Library):
        return None  # the command does not print a library
    if isinstance(outcome, Exception):
        printed = [command.printable(str(outcome))]
    else:
        given = [""] * MAX_COLORS
        printed = [line for form in (None, "tabs", *ROWS) for line in command.lines(outcome, given, form)]
        if not isinstance(json.loads(next(iter(command.lines(outcome, given, "json")))), dict):
            return "it prints no object"
    cells = "".join(printed).translate(dict.fromkeys(map(ord, "\t\n")))
    return None if cells.isprintable() else f"it prints {printed!r:.200}"


def play(numbers: Iterator[int]) -> Iterator[Played]:
    before, threads = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, threading.active_count()
    with ThreadPoolExecutor(THREADS) as pool:
        while some := list(islice(numbers, 4 * THREADS)):
            yield from pool.map(_case, some)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < MAX_GROWTH_KIB
    until(lambda: threading.active_count() <= threads, seconds=LATE, why=lambda: "threads did not end")
