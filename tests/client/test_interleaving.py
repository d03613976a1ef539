"""No call receives another's answer: peers answer early, twice, late or in parts, and calls are cancelled.

Each answer names its request: the request id is the idempotency key.
"""

import asyncio
import itertools
import os
import re
import socket
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing, suppress
from random import Random
from typing import Any

import pytest
from tests.client.blocking import AWAITED, Open
from tests.client.hostile import Peer, listening

from sepu_client import NoAnswerError, new_idempotency_key

CALLS = int(os.environ.get("SEPU_FUZZ_SECONDS", "0")) * 100 or 150  # per client; a hundred take about a second
AT_A_TIME = 6
NO_KEY = b"00000000-0000-0000-0000-000000000000"
PAUSE = 0.05
KINDS = ["parts", "twice", "and a byte", "late", "half", "silent", "early close", "reset"]
BODY = b'{"datasetVersion":"1","count":0,"results":[]}'


def answer_to(head: bytes, body: bytes = BODY) -> bytes:
    """A complete answer whose request id is the request's key."""
    key = re.search(rb"Idempotency-Key: ([0-9a-f-]{36})", head)
    request_id = key[1] if key else NO_KEY
    return b"HTTP/1.1 200 OK\r\nX-Request-Id: %b\r\nContent-Length: %d\r\n\r\n%b" % (request_id, len(body), body)


class Mischief:
    """Answers each request of a connection in a different way."""

    def __init__(self, seed: int) -> None:
        self._seeds = itertools.count(seed)
        self.played = Counter[str]()

    def __call__(self, peer: Peer) -> None:
        rng = Random(next(self._seeds))
        while True:
            head = peer.head()
            answer = answer_to(head)
            kind = rng.choice(["well"] * 5 + KINDS)
            self.played[kind] += 1
            match kind:
                case "well":
                    peer.send(answer)
                case "parts":
                    for start in range(0, len(answer), 50):
                        peer.send(answer[start : start + 50])
                        time.sleep(0.001)
                case "twice":
                    peer.send(answer * 2)
                case "and a byte":
                    peer.send(answer + b"\n")
                case "late":  # after the attempt timed out
                    time.sleep(0.15)
                    peer.send(answer)
                case "half":
                    peer.send(answer[: rng.randrange(1, len(answer))])
                    return
                case "silent":
                    peer.silence()
                case "early close":
                    return
                case _:
                    peer.reset()
                    return


def test_many_calls(kind: str) -> None:
    """In threads, or in tasks of which some are cancelled."""
    rng, answered = Random(4), 0

    async def calls(client: Any) -> None:
        nonlocal answered
        for _ in range(CALLS // AT_A_TIME):
            key = new_idempotency_key()
            call = asyncio.create_task(client.search("hong", idempotency_key=key))
            if kind == "async" and rng.random() < 0.3:
                await asyncio.sleep(rng.choice([0, 0.0005, 0.002]))
                call.cancel()
            with suppress(NoAnswerError, asyncio.CancelledError):
                assert (await call).request_id == key, "an answer of another call"
                answered += 1

    async def run(url: str) -> None:
        asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(AT_A_TIME))
        async with aclosing(AWAITED[kind](url, "sepu_key", timeout=0.1, deadline=1)) as client:
            await asyncio.gather(*(calls(client) for _ in range(AT_A_TIME)))

    mischief = Mischief(4000)
    with listening("plain", [mischief]) as peer:
        asyncio.run(run(peer.url))
    assert answered > CALLS // 10
    assert len(mischief.played) > 5


@pytest.mark.parametrize("early", [b"\r\n", b"HTTP/1.1 408 Request Timeout\r\nContent-Length: 0\r\n\r\n", BODY, b""])
@pytest.mark.parametrize("when", ["with the answer", "later"])
def test_what_comes_between_two_calls_ends_the_connection(kind: str, early: bytes, when: str) -> None:
    """An end of the connection too (b""): the client notices it before it uses the connection again."""
    connections = itertools.count()
    read, sent = threading.Event(), threading.Event()

    def answer(peer: Peer) -> None:
        is_first = not next(connections)
        while True:
            whole = answer_to(peer.head())
            peer.send(whole + early if is_first and when == "with the answer" else whole)
            if is_first:
                read.wait(10)
                if when == "later" and early:
                    peer.send(early)
                if not early:
                    peer.socket.shutdown(socket.SHUT_RDWR)
                sent.set()

    async def calls(url: str) -> None:
        async with aclosing(AWAITED[kind](url, "sepu_key")) as client:
            await client.search("hong")
            read.set()
            await asyncio.to_thread(sent.wait, 10)
            await asyncio.sleep(PAUSE)  # lets the loop read
            await client.search("hong")

    with listening("plain", [answer]) as peer:
        asyncio.run(calls(peer.url))
        assert peer.connections == 2


@pytest.mark.parametrize("begun", [b"", b"HTTP/1.1 2"])
def test_a_kept_connection_that_breaks_without_an_answer_is_replaced_at_once(
    open_client: Open, begun: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    """The same key is sent again without a wait. This counts (and is logged) as a retry only if an answer began."""
    keys: list[bytes] = []
    requests = itertools.count()

    def answer(peer: Peer) -> None:
        while True:
            head = peer.head()
            keys.extend(re.findall(rb"Idempotency-Key: (\S+)", head))
            if next(requests) == 1:
                peer.send(begun)
                return
            peer.send(answer_to(head))

    with listening("plain", [answer]) as peer, caplog.at_level("INFO", "sepu_client"):
        with open_client(peer.url, "sepu_key") as client:
            client.search("hong")
            client.search("hong", idempotency_key="the-one-key")
        assert peer.connections == 2
    assert keys[1:] == [b"the-one-key"] * 2
    assert len([record for record in caplog.records if record.name == "sepu_client"]) == len(begun[:1])
