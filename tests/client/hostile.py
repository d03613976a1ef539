"""A peer that plays a list of steps on a connection, by each way in which a client reaches its service."""

import ctypes
import datetime
import itertools
import re
import socket
import ssl
import struct
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from functools import cache
from ipaddress import IPv4Address
from pathlib import Path
from random import Random
from socketserver import BaseRequestHandler, ThreadingTCPServer, ThreadingUnixStreamServer
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple, NoReturn

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from tests.endpoint import answering

MAX_SECONDS = 20.0  # a drip ends then, so that a client that never gives up fails its test instead of hanging it
MAX_BYTES = 2**26  # size of a flood


class Certificate(NamedTuple):
    """A self-signed certificate with the contexts of its server and of a client that trusts it."""

    pem: str
    server: ssl.SSLContext
    client: ssl.SSLContext


@cache
def certificate() -> Certificate:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "127.0.0.1")])
    now, day = datetime.datetime.now(datetime.UTC), datetime.timedelta(days=1)
    pem = serialization.Encoding.PEM
    names = x509.SubjectAlternativeName([x509.IPAddress(IPv4Address("127.0.0.1")), x509.DNSName("service.example")])
    signed = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number(), now - day, now + day)
        .add_extension(names, critical=False)
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

    def whole(self) -> tuple[bytes, bytes]:
        """Reads a head and its body, in large parts."""
        head, end, body = self.some(65536).partition(b"\r\n\r\n")
        while not end:
            head, end, body = (head + self.some(65536)).partition(b"\r\n\r\n")
        length = re.search(rb"\r\ncontent-length: (\d+)", head, re.IGNORECASE)
        while len(body) < (int(length[1]) if length else 0):
            body += self.some(65536)
        return head, body

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

    def vanish(self) -> None:
        """Drops what arrives from now on, unacknowledged, as a firewall does that forgot the connection. Linux only."""
        _drop_all(self.socket)

    def tls(self) -> None:
        # Stored before the handshake, so that it is closed even if that fails.
        self.socket = certificate().server.wrap_socket(self.socket, server_side=True, do_handshake_on_connect=False)
        self.socket.do_handshake()

    def connect(self) -> None:
        """Reads a CONNECT request and accepts it."""
        self.head()
        self.send(b"HTTP/1.1 200 Connected\r\n\r\n")


def _drop_all(dropping: socket.socket) -> None:
    filtered = ctypes.create_string_buffer(struct.pack("HBBI", 6, 0, 0, 0))  # a socket filter: "return 0"
    dropping.setsockopt(socket.SOL_SOCKET, 26, struct.pack("HP", 1, ctypes.addressof(filtered)))


def can_vanish() -> bool:
    """Whether `Peer.vanish` works here."""
    with socket.socket() as tried:
        try:
            _drop_all(tried)
        except OSError:
            return False
        return sys.platform == "linux"


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


Head = list[bytes]  # lines
_FOREIGN = (400, 401, 403, 404, 408, 413, 425, 429, 500, 502, 503, 504)
_IDS = (b"9f3c1b0e7f0a4a529d3a1c8e5b7d2f40", b"1-67891233-abcdef012345678912345678")


def _chunks(head: Head, body: bytes) -> bytes:
    kept = [line for line in head if not line.lower().startswith(b"content-length:")]
    chunks = b"%x \r\n%b\r\n%x;a=b\r\n%b\r\n0 \r\n\r\n" % (9, body[:9], len(body) - 9, body[9:])
    return b"\r\n".join([*kept, b"Transfer-Encoding: chunked \t", b"", chunks])


def _whole(lines: Head, body: bytes) -> bytes:
    return b"\r\n".join([*lines, b"", body])


def _beginning(prefix: bytes, head: Head) -> list[bytes]:
    return [line for line in head if line.lower().startswith(prefix)]


# What servers in between do to an answer, which stays the same answer.
CHANGES: dict[str, Callable[[Head, bytes], bytes]] = {
    "nothing": _whole,
    "white space": lambda head, body: _whole([head[0], *(line + b" \t" for line in head[1:])], body),
    "folded": lambda head, body: _whole([head[0], *(line.replace(b": ", b":\r\n\t", 1) for line in head[1:])], body),
    "two lengths": lambda head, body: _whole(head + _beginning(b"content-length", head), body),
    "all twice": lambda head, body: _whole(head + head[1:], body),
    "their request id": lambda head, body: _whole([*head, b"X-Request-ID: " + _IDS[0]], body),
    "only their request id": lambda head, body: _whole(
        [*(line for line in head if line not in _beginning(b"x-request-id", head)), b"X-Request-Id: " + _IDS[1]], body
    ),
    "no usage": lambda head, body: _whole([line for line in head if line not in _beginning(b"x-usage", head)], body),
    "chunks": _chunks,
    "informational": lambda head, body: b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n" + _whole(head, body),
    "upgrade": lambda head, body: _whole([*head, b"Upgrade: h2c", b"Connection: Upgrade"], body),
    "surplus": lambda head, body: _whole(head, body) + b"\r\n",
    "two answers": lambda head, body: _whole(head, body) * 2,
}


class Between:
    """A server between the client and the service, as a step: forwards requests, and disturbs many of them."""

    def __init__(self, service: str, seed: int) -> None:
        host, _, port = service.rpartition(":")
        self._service = (host, int(port))
        self._seeds = itertools.count(seed)
        self.played = Counter[str]()
        self.forwarded = Counter[str]()  # attempts that reached the service, by key

    def __call__(self, peer: Peer) -> None:
        rng = Random(next(self._seeds))
        if rng.random() < 0.05:
            self._play(peer, "reset")
        with socket.create_connection(self._service, MAX_SECONDS) as connected:
            service = Peer(connected, threading.Event())
            while True:
                head, body = peer.whole()
                if rng.random() < 0.12:
                    self._disturb(peer, rng)
                    continue
                key = re.search(rb"Idempotency-Key: (\S+)", head)
                assert key
                self.forwarded[key[1].decode()] += 1
                service.send(head + b"\r\n\r\n" + body)
                head, body = service.whole()
                if rng.random() < 0.12:
                    self._disturb(peer, rng, head + b"\r\n\r\n" + body)
                    continue
                change = rng.choice(list(CHANGES))
                self.played[change] += 1
                peer.send(CHANGES[change](head.split(b"\r\n"), body))

    def _disturb(self, peer: Peer, rng: Random, answer: bytes = b"") -> None:
        """Does anything but answer, before or after the service has answered."""
        match rng.choice(["cut", "reset", "silence", "foreign", "foreign", "truncated", "pieces", "late"]):
            case "foreign":
                self.played["foreign"] += 1
                start = b"HTTP/1.1 %d Any\r\nContent-Length: 6\r\n" % rng.choice(_FOREIGN)
                peer.send(start + rng.choice([b"", b"Retry-After: 0\r\n"]) + b"\r\n<html>")
            case "pieces" if answer:
                self.played["pieces"] += 1
                for cut in range(0, len(answer), 200):
                    peer.send(answer[cut : cut + 200])
                    time.sleep(0.001)
            case "late" if answer:
                self.played["late"] += 1
                time.sleep(1.2)
                peer.send(answer)
            case "truncated":
                peer.send(answer[: rng.randrange(len(answer) + 1)])
                self._play(peer, rng.choice(["cut", "reset"]))
            case kind:
                self._play(peer, kind)

    def _play(self, peer: Peer, kind: str) -> NoReturn:
        self.played[kind] += 1
        if kind == "reset":
            peer.reset()
        elif kind == "silence":
            peer.silence()
        raise ConnectionError


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
        "proxy": {"base_url": "http://service.example:9", "proxy": f"http://{local}"},
        "CONNECT": {"base_url": "https://service.example:9", "proxy": f"http://{local}", "ssl_context": trusted},
        "TLS proxy": {"base_url": "https://service.example:9", "proxy": f"https://{local}", "ssl_context": trusted},
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
