"""Connections that send again as soon as they are answered, in a separate process. Counts only the statuses."""

import asyncio
import multiprocessing
import re
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection as Pipe

import uvloop

from sepu.server.gunicorn import allow_files

_SECONDS = 30.0
_LENGTH = re.compile(rb"\r\ncontent-length: (\d+)", re.IGNORECASE)
Make = Callable[[], Callable[[], bytes]]  # makes the requests' generator in the other process, so pickle must take it


@contextmanager
def flooded(address: str, connections: int, make: Make) -> Iterator[Counter[str]]:
    """Yields the answers by status, complete once the block has ended."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    flooding = context.Process(target=_flood, args=(address, connections, make, theirs), daemon=True)
    flooding.start()
    theirs.close()
    answers: Counter[str] = Counter()
    try:
        ours.recv()  # returns when all are connected
        yield answers
        ours.send(None)
        answers.update(ours.recv())
    finally:
        ours.close()
        flooding.join(_SECONDS)
        flooding.kill()


def _flood(address: str, connections: int, make: Make, control: Pipe) -> None:
    allow_files(connections + 100)
    host, _, port = address.rpartition(":")
    request, answers = make(), Counter[str]()

    async def ask_again(opened: tuple[asyncio.StreamReader, asyncio.StreamWriter]) -> None:
        while True:
            reader, writer = opened
            with suppress(OSError, asyncio.IncompleteReadError):
                while True:
                    writer.write(request())
                    head = await reader.readuntil(b"\r\n\r\n")
                    if length := _LENGTH.search(head):
                        await reader.readexactly(int(length[1]))
                    answers[head[9:12].decode()] += 1
            writer.close()
            while True:
                with suppress(OSError):
                    opened = await asyncio.open_connection(host, port)
                    break
                await asyncio.sleep(0.01)

    async def flood() -> None:
        opened = [await asyncio.open_connection(host, port) for _ in range(connections)]
        asking = [asyncio.create_task(ask_again(each)) for each in opened]
        control.send(None)
        await asyncio.to_thread(control.recv)
        for each in asking:
            each.cancel()

    uvloop.run(flood())
    control.send(answers)
