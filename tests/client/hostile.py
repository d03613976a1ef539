"""A peer that plays a list of steps on a connection, by each way in which a client reaches its service."""

import datetime
import re
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from functools import cache
from ipaddress import IPv4Address
from pathlib import Path
from socketserver import BaseRequestHandler, ThreadingTCPServer, ThreadingUnixStreamServer
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from tests.endpoint import answering

MAX_SECONDS = 20.0  # a drip ends then, so that a client that never gives up fails its test instead of hanging it
MAX_BYTES = 2**26  # size of a flood


class Certificate(NamedTuple):
    """A self-signed certificate for 127.0.0.1, with the contexts of its server and of a client that trusts it."""

    pem: str
    server: ssl.SSLContext
    client: ssl.SSLContext


@cache
def certificate() -> Certificate:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "127.0.0.1")])
    now, day = datetime.datetime.now(datetime.UTC), datetime.timedelta(days=1)
    pem = serialization.Encoding.PEM
    signed = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number(), now - day, now + day)
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(IPv4Address("127.0.0.1"))]), critical=False)
        .sign(key, hashes.SHA256())
        .public_bytes(pem)
    )
    private = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    with TemporaryDirectory() as directory:
        both = Path(directory, "both.pem")
        both.write_bytes(private + signed)
        server.load_cert_chain(both)
    return Certificate(signed.decode(), server, ssl.create_default_context(cadata=signed.decode()))


class Peer:
    """The peer's end of a connection. Each method without an argument is a step."""

    def __init__(self, connection: socket.socket, ended: threading.Event) -> None:
        self.socket: Any = connection
        self._ended = ended

    def head(self) -> bytes:
        """Reads a head, and no more."""
        read = b""
        while not read.endswith(b"\r\n\r\n"):
            read += self.some(1)
        return read

    def body(self, head: bytes) -> None:
        """Reads the body that this head announces."""
        length = re.search(rb"\r\ncontent-length: (\d+)\r\n", head, re.IGNORECASE)
        left = int(length[1]) if length else 0
        while left:
            left -= len(self.some(left))

    def request(self) -> None:
        self.body(self.head())

    def some(self, most: int = 300) -> bytes:
        """Reads what has arrived, at most `most` bytes."""
        data: bytes = self.socket.recv(most)
        if not data:
            raise ConnectionError
        return data

    def send(self, data: bytes) -> None:
        self.socket.sendall(data)

    def silence(self) -> None:
        """Reads without answering until the client closes."""
        while self.socket.recv(65536):
            pass

    def drip(self, data: bytes, pause: float = 0.02) -> None:
        """Sends the data again and again, with a pause between."""
        for _ in range(int(MAX_SECONDS / pause)):
            self.send(data)
            if self._ended.wait(pause):
                return

    def flood(self, data: bytes) -> None:
        """Sends the data again and again until the client closes."""
        for _ in range(MAX_BYTES // len(data)):
            self.send(data)

    def reset(self) -> None:
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        self.socket.close()

    def tls(self) -> None:
        # Stored before the handshake, so that it is closed even if that fails.
        self.socket = certificate().server.wrap_socket(self.socket, server_side=True, do_handshake_on_connect=False)
        self.socket.do_handshake()

    def connect(self) -> None:
        """Reads a CONNECT request and accepts it."""
        self.head()
        self.send(b"HTTP/1.1 200 Connected\r\n\r\n")


Step = Callable[[Peer], object]


def saying(data: bytes) -> Step:
    return lambda peer: peer.send(data)


def pausing(seconds: float) -> Step:
    return lambda _: time.sleep(seconds)


# A well-formed answer, that of the library.
ANSWER = (
    b'{"version":"1.0.0","recordCount":161,"sourceProjectionVersion":"1.0.0","sourceProjectionSha256":"",'
    b'"rightsManifestSha256":"","librarySha256":"","mode":"commercial"}'
)
REQUEST_ID = "00000000-0000-0000-0000-000000000000"
HEAD = f"HTTP/1.1 200 OK\r\nX-Request-Id: {REQUEST_ID}\r\nContent-Length: {len(ANSWER)}\r\n\r\n".encode()
ANSWERED = saying(HEAD + ANSWER)


def answering_each(peer: Peer) -> None:
    """Answers every request of the connection."""
    while True:
        peer.request()
        peer.send(HEAD + ANSWER)


# The steps of each way before the answer.
WAYS: dict[str, list[Step]] = {
    "plain": [Peer.request],
    "TLS": [Peer.tls, Peer.request],
    "Unix": [Peer.request],
    "proxy": [Peer.request],
    "CONNECT": [Peer.connect, Peer.tls, Peer.request],
    "TLS proxy": [Peer.tls, Peer.connect],  # Python's sockets cannot serve TLS within TLS
}


@dataclass
class Listening:
    """The client's `options` to reach the peer, and the peer's connections."""

    options: dict[str, Any]
    connections: int = 0
    open: set[Peer] = field(default_factory=set)

    @property
    def url(self) -> str:
        """The peer's URL, if plain or TLS."""
        url: str = self.options["base_url"]
        return url


def _options(way: str, at: Any) -> dict[str, Any]:
    """The client's arguments to reach the peer's address this way."""
    trusted = certificate().client
    local = "" if way == "Unix" else f"127.0.0.1:{at[1]}"
    options: dict[str, dict[str, Any]] = {
        "plain": {"base_url": f"http://{local}"},
        "TLS": {"base_url": f"https://{local}", "ssl_context": trusted},
        "Unix": {"base_url": f"unix:{at}"},
        "proxy": {"base_url": "http://127.0.0.1:9", "proxy": f"http://{local}"},
        "CONNECT": {"base_url": "https://127.0.0.1:9", "proxy": f"http://{local}", "ssl_context": trusted},
        "TLS proxy": {"base_url": "https://127.0.0.1:9", "proxy": f"https://{local}", "ssl_context": trusted},
    }
    return options[way]


@contextmanager
def listening(way: str, steps: Sequence[Step]) -> Iterator[Listening]:
    """Plays the steps on each connection, then closes it."""
    ended = threading.Event()

    class Handler(BaseRequestHandler):
        def handle(self) -> None:
            self.request.settimeout(MAX_SECONDS)
            peer = Peer(self.request, ended)
            found.connections += 1
            found.open.add(peer)
            with suppress(OSError):
                for step in steps:
                    step(peer)
            peer.socket.close()
            found.open.discard(peer)

    class Threads(ThreadingUnixStreamServer if way == "Unix" else ThreadingTCPServer):  # type: ignore[misc]
        daemon_threads = True
        request_queue_size = 128

    with TemporaryDirectory(prefix="sepu-") as directory:
        server = Threads(f"{directory}/s" if way == "Unix" else ("127.0.0.1", 0), Handler)
        found = Listening(_options(way, server.server_address))
        with answering(server):
            try:
                yield found
            finally:
                ended.set()
                for peer in list(found.open):
                    with suppress(OSError):
                        peer.socket.shutdown(socket.SHUT_RDWR)


@contextmanager
def dropping() -> Iterator[int]:
    """The port of a listener with a full backlog: it drops further connections' packets, as a firewall may."""
    with ExitStack() as stack:
        listener = stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=0))
        for _ in range(3):
            filling = stack.enter_context(socket.socket())
            filling.setblocking(False)
            filling.connect_ex(listener.getsockname())
        yield listener.getsockname()[1]
