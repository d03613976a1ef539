"""Connections that are open and ask nothing more."""

import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from bench.load.client import TIMEOUT_SECONDS

from sepu.server.gunicorn import allow_files

_OF_AN_ADDRESS = 100  # well within the worker's limit for one address; the loopback has many
_GET = b"GET /healthz HTTP/1.1\r\nHost: sepu\r\n\r\n"


@contextmanager
def held(address: str, number: int) -> Iterator[int]:
    """Opens so many, each of which has been answered once; yields how many of them the server keeps."""
    needed = number + 200
    if allow_files(needed) < needed:
        raise SystemExit(f"{needed} open files are needed: raise `ulimit -Hn`")
    host, _, port = address.rpartition(":")
    kept = 0
    with ExitStack() as stack:
        for place in range(number):
            source = (f"127.0.0.{2 + place // _OF_AN_ADDRESS}", 0)
            opened = stack.enter_context(socket.create_connection((host, int(port)), TIMEOUT_SECONDS, source))
            opened.sendall(_GET)
            kept += opened.recv(65536).startswith(b"HTTP/1.1 200 ")
        yield kept
