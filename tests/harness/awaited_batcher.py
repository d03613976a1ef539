"""A batcher to await, for tests and benchmarks; the service itself uses callbacks."""

import asyncio
from typing import Any, Self, TypeVar

from sepu.metering.batcher import Batcher
from sepu.metering.commands import Command

T = TypeVar("T")


class AwaitedBatcher(Batcher):
    """A batcher of an event loop, by default the running one. It may be closed by `async with`."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def run(self, command: Command[T]) -> T:
        answered: asyncio.Future[T] = asyncio.get_running_loop().create_future()

        def done(answer: Any) -> None:
            if answered.done():  # cancelled
                return
            if isinstance(answer, Exception):
                answered.set_exception(answer)
            else:
                answered.set_result(answer)

        self.submit(command, done)
        return await answered

    async def ready(self) -> bool:
        answered: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self.probe(answered.set_result)
        return await answered
