"""What a caller waits for: matches through `sepu_client`, compared with a raw socket and Python's HTTP clients.

Each caller runs in a process of its own, sends the same request with a new idempotency key each time, and reads the
JSON of each answer.
"""

import asyncio
import http.client
import json
import multiprocessing
import socket
import sys
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from contextlib import AbstractAsyncContextManager, ExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Thread
from typing import Any

from bench.load.figures import Sample

PEERS = Path(__file__).parents[2] / "build" / "peers"  # which `make load` fills; the service does not see them
WARM_UP_SECONDS = 0.3
COLOR = (200, 60, 35)
BODY = b'{"colors":[{"r":200,"g":60,"b":35}],"top":1}'


@dataclass(frozen=True, slots=True)
class Calling:
    """A caller's task: `at_a_time` calls at the same time, for `seconds`."""

    who: str
    address: str  # HOST:PORT
    api_key: str
    at_a_time: int
    seconds: float

    @property
    def url(self) -> str:
        return f"http://{self.address}"

    def headers(self) -> dict[str, str]:
        return {
            "Authorization": f"Bearer {self.api_key}",
            "Idempotency-Key": str(uuid.uuid4()),
            "Content-Type": "application/json",
        }


Call = Callable[[], None]
AsyncCall = Callable[[], Awaitable[None]]


def measure(calling: Calling) -> Sample:
    """Runs a caller in a new process, and waits for it."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        return pool.submit(_run, calling).result()


def _run(calling: Calling) -> Sample:
    sys.path.append(str(PEERS))
    if calling.who in ASYNC:
        return asyncio.run(_tasks(calling))
    with ExitStack() as stack:
        open_calls = stack.enter_context(BLOCKING[calling.who](calling))
        latencies: list[list[float]] = [[] for _ in range(calling.at_a_time)]

        def repeat(call: Call, until: float, mine: list[float]) -> None:
            while (started := time.perf_counter()) < until:
                call()
                mine.append(time.perf_counter() - started)

        def all_at_once(seconds: float) -> None:
            end = time.perf_counter() + seconds
            threads = [
                Thread(target=repeat, args=(call, end, mine)) for call, mine in zip(calls, latencies, strict=True)
            ]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()

        calls = [open_calls() for _ in range(calling.at_a_time)]
        all_at_once(WARM_UP_SECONDS)
        for mine in latencies:
            mine.clear()
        cpu = time.process_time()
        all_at_once(calling.seconds)
        return _sample(calling, [one for mine in latencies for one in mine], time.process_time() - cpu)


async def _tasks(calling: Calling) -> Sample:
    async with ASYNC[calling.who](calling) as call:
        latencies: list[float] = []

        async def repeat(until: float) -> None:
            while (started := time.perf_counter()) < until:
                await call()
                latencies.append(time.perf_counter() - started)

        async def all_at_once(seconds: float) -> None:
            end = time.perf_counter() + seconds
            await asyncio.gather(*(repeat(end) for _ in range(calling.at_a_time)))

        await all_at_once(WARM_UP_SECONDS)
        latencies.clear()
        cpu = time.process_time()
        await all_at_once(calling.seconds)
        return _sample(calling, latencies, time.process_time() - cpu)


def _sample(calling: Calling, latencies: list[float], cpu: float) -> Sample:
    return Sample(calling.seconds, len(latencies), sorted(latencies), cpu={"caller": cpu})


def _check(status: int, body: bytes) -> None:
    assert status == 200, body
    assert json.loads(body)["results"][0]["matches"][0]["hex"] == "#C83C23"


@contextmanager
def _raw_socket(calling: Calling) -> Iterator[Callable[[], Call]]:
    """Sends bytes that are ready but for the key, and reads once: the floor."""
    host, _, port = calling.address.rpartition(":")
    lines = "".join(f"{name}: {value}\r\n" for name, value in calling.headers().items() if name != "Idempotency-Key")
    head = f"POST /v1/match HTTP/1.1\r\nHost: {host}\r\n{lines}Content-Length: {len(BODY)}\r\n".encode()
    with ExitStack() as stack:

        def open_call() -> Call:
            opened = stack.enter_context(socket.create_connection((host, int(port))))
            opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

            def call() -> None:
                opened.sendall(b"%bIdempotency-Key: %b\r\n\r\n%b" % (head, str(uuid.uuid4()).encode(), BODY))
                answer = opened.recv(65_536)
                assert answer.startswith(b"HTTP/1.1 200 "), answer
                assert b"#C83C23" in answer

            return call

        yield open_call


@contextmanager
def _http_client(calling: Calling) -> Iterator[Callable[[], Call]]:
    def open_call() -> Call:
        opened = http.client.HTTPConnection(calling.address)

        def call() -> None:
            opened.request("POST", "/v1/match", BODY, calling.headers())
            answer = opened.getresponse()
            _check(answer.status, answer.read())

        return call

    yield open_call


@contextmanager
def _urllib3(calling: Calling) -> Iterator[Callable[[], Call]]:
    import urllib3

    with urllib3.PoolManager(maxsize=calling.at_a_time) as pool:

        def call() -> None:
            answer = pool.request("POST", f"{calling.url}/v1/match", body=BODY, headers=calling.headers())
            _check(answer.status, answer.data)

        yield lambda: call


@contextmanager
def _httpx2(calling: Calling) -> Iterator[Callable[[], Call]]:
    import httpx2  # type: ignore[import-not-found, unused-ignore]

    with httpx2.Client() as client:

        def call() -> None:
            answer = client.post(f"{calling.url}/v1/match", content=BODY, headers=calling.headers())
            _check(answer.status_code, answer.content)

        yield lambda: call


@contextmanager
def _client(calling: Calling) -> Iterator[Callable[[], Call]]:
    from sepu_client import Client

    with Client(calling.url, calling.api_key) as client:

        def call() -> None:
            assert client.match([COLOR]).results[0].matches[0].hex == "#C83C23"

        yield lambda: call


@asynccontextmanager
async def _async_client(calling: Calling) -> AsyncIterator[AsyncCall]:
    from sepu_client import AsyncClient

    async with AsyncClient(calling.url, calling.api_key) as client:

        async def call() -> None:
            assert (await client.match([COLOR])).results[0].matches[0].hex == "#C83C23"

        yield call


@asynccontextmanager
async def _httpx2_async(calling: Calling) -> AsyncIterator[AsyncCall]:
    import httpx2  # type: ignore[import-not-found, unused-ignore]

    async with httpx2.AsyncClient() as client:

        async def call() -> None:
            answer = await client.post(f"{calling.url}/v1/match", content=BODY, headers=calling.headers())
            _check(answer.status_code, answer.content)

        yield call


@asynccontextmanager
async def _aiohttp(calling: Calling) -> AsyncIterator[AsyncCall]:
    import aiohttp

    async with aiohttp.ClientSession() as session:

        async def call() -> None:
            async with session.post(f"{calling.url}/v1/match", data=BODY, headers=calling.headers()) as answer:
                _check(answer.status, await answer.read())

        yield call


RAW = "raw socket"
OURS = ("sepu_client.Client", "sepu_client.AsyncClient")
BLOCKING: Mapping[str, Callable[[Calling], Any]] = {
    RAW: _raw_socket,
    OURS[0]: _client,
    "http.client": _http_client,
    "urllib3": _urllib3,
    "httpx2": _httpx2,
}
ASYNC: Mapping[str, Callable[[Calling], AbstractAsyncContextManager[AsyncCall]]] = {
    OURS[1]: _async_client,
    "httpx2, asyncio": _httpx2_async,
    "aiohttp": _aiohttp,
}
CALLERS = (*BLOCKING, *ASYNC)
