"""The asgi worker's protocol by itself, where the order of two events of one moment matters."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest
from gunicorn.config import Config
from gunicorn.glogging import Logger

from sepu.server.asgi import Protocol


async def app(scope: dict[str, Any], receive: object, send: Any) -> None:
    assert scope["type"] == "http"
    assert receive
    await send({"type": "http.response.start", "status": 204, "headers": []})
    await send({"type": "http.response.body", "body": b""})


class _Stopped(Protocol):
    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self.close_if_idle()


class _LongIdle(Protocol):
    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._keepalive_timeout()


@pytest.mark.parametrize("parts", [1, 2])
@pytest.mark.parametrize("protocol", [_Stopped, _LongIdle])
def test_a_connection_is_not_idle_once_its_request_comes(protocol: type[Protocol], parts: int) -> None:
    request = b"GET / HTTP/1.1\r\nHost: sepu\r\n\r\n"

    async def scene() -> bytes:
        loop = asyncio.get_running_loop()
        cfg = Config()
        worker: Any = SimpleNamespace(
            cfg=cfg, log=Logger(cfg), asgi=app, loop=loop, nr_conns=0, worker_connections=10, protocols=set(), nr=0,
            max_requests=100, alive=True, state={},
        )  # fmt: skip
        server = await loop.create_server(lambda: protocol(worker), "127.0.0.1", 0)
        async with server:
            reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
            if parts == 2:
                writer.write(request[:9])
                await asyncio.sleep(0.1)
            writer.write(request[9:] if parts == 2 else request)
            answer = await asyncio.wait_for(reader.read(100), 10)
            writer.close()
        return answer

    assert asyncio.run(scene()).startswith(b"HTTP/1.1 204 ")
