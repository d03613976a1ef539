"""A peer that does to a connection what a list of steps says, by each way in which a client reaches its service."""

import datetime
import socket
import ssl
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cache, partial
from ipaddress import IPv4Address
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import httpx
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

MOST_SECONDS = 20.0  # a drip ends then: a client that does not give up by itself fails its test, and does not hang it
MOST_BYTES = 2**26  # of a flood


def certificate(directory: Path) -> tuple[Path, Path]:
    """Of 127.0.0.1, signed by itself; and its private key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "127.0.0.1")])
    now = datetime.datetime.now(datetime.UTC)
    day = datetime.timedelta(days=1)
    signed = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number(), now - day, now + day)
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(IPv4Address("127.0.0.1"))]), critical=False)
        .sign(key, hashes.SHA256())
    )
    paths = directory / "certificate.pem", directory / "key.pem"
    pem = serialization.Encoding.PEM
    paths[0].write_bytes(signed.public_bytes(pem))
    paths[1].write_bytes(key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()))
    return paths


@cache
def contexts() -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """The server's, and that of a client which trusts it."""
    with TemporaryDirectory() as directory:
        own, key = certificate(Path(directory))
        server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        server.load_cert_chain(own, key)
        return server, ssl.create_default_context(cafile=own)


class Peer:
    """One connection, as the peer has it."""

    def __init__(self, connection: socket.socket, ended: threading.Event) -> None:
        self.socket = connection
        self._ended = ended

    def head(self) -> None:
        """Reads to the end of a head; the body of a match may follow, and is left."""
        read = b""
        while b"\r\n\r\n" not in read:
            data = self.socket.recv(65536)
            if not data:
                raise ConnectionError
            read += data

    def send(self, data: bytes) -> None:
        self.socket.sendall(data)

    def silence(self) -> None:
        """Reads, and says nothing, until the client closes."""
        while self.socket.recv(65536):
            pass

    def drip(self, data: bytes, pause: float = 0.02) -> None:
        """Sends the same again and again."""
        for _ in range(int(MOST_SECONDS / pause)):
            self.send(data)
            if self._ended.wait(pause):
                return

    def flood(self, data: bytes) -> int:
        """Sends the same until the client closes; returns how many bytes it took."""
        sent = 0
        with suppress(OSError):
            while sent < MOST_BYTES and not self._ended.is_set():
                self.send(data)
                sent += len(data)
        return sent

    def reset(self) -> None:
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        self.socket.close()

    def tls(self) -> None:
        self.socket = contexts()[0].wrap_socket(self.socket, server_side=True)


Step = Callable[[Peer], object]


def connect_head(peer: Peer) -> None:
    """Reads a CONNECT, and lets it through."""
    peer.head()
    peer.send(b"HTTP/1.1 200 Connected\r\n\r\n")


def socks_methods(peer: Peer) -> None:
    peer.socket.recv(100)
    peer.send(b"\x05\x00")


def socks_command(peer: Peer) -> None:
    peer.socket.recv(300)
    peer.send(b"\x05\x00\x00\x01\x7f\x00\x00\x01\x00\x50")


def tls(peer: Peer) -> None:
    peer.tls()


def head(peer: Peer) -> None:
    peer.head()


def saying(data: bytes) -> Step:
    """Sends that."""

    def say(peer: Peer) -> None:
        peer.send(data)

    return say


# The steps of each way until the answer is due.
WAYS: dict[str, list[Step]] = {
    "plain": [head],
    "TLS": [tls, head],
    "Unix": [head],
    "proxy": [head],
    "CONNECT": [connect_head, tls, head],
    "TLS proxy": [tls, connect_head],  # and TLS inside, which Python's sockets cannot serve
    "SOCKS": [socks_methods, socks_command, head],
    "SOCKS, TLS": [socks_methods, socks_command, tls, head],
}


@dataclass
class Listening:
    """Where the client finds the peer, by `options`, and what became of it there."""

    options: dict[str, Any]
    connections: int = 0
    open: set[Peer] = field(default_factory=set)


def options(way: str, kind: str, at: Any) -> dict[str, Any]:
    """The arguments of a client of a `kind`, sync or async, that goes this way to the peer's address."""
    make = httpx.HTTPTransport if kind == "sync" else httpx.AsyncHTTPTransport
    made = partial(make, verify=contexts()[1])
    local = "" if way == "Unix" else f"127.0.0.1:{at[1]}"
    match way:
        case "plain":
            return {"base_url": f"http://{local}"}
        case "TLS":
            return {"base_url": f"https://{local}", "transport": made}
        case "Unix":
            return {"base_url": "http://localhost", "transport": partial(made, uds=at)}
        case "proxy":
            return {"base_url": "http://127.0.0.1:9", "transport": partial(made, proxy=f"http://{local}")}
        case "CONNECT":
            return {"base_url": "https://127.0.0.1:9", "transport": partial(made, proxy=f"http://{local}")}
        case "TLS proxy":
            proxy = httpx.Proxy(f"https://{local}", ssl_context=contexts()[1])
            return {"base_url": "https://127.0.0.1:9", "transport": partial(made, proxy=proxy)}
        case "SOCKS":
            return {"base_url": "http://127.0.0.1:9", "transport": partial(made, proxy=f"socks5://{local}")}
        case _:
            return {"base_url": "https://127.0.0.1:9", "transport": partial(made, proxy=f"socks5://{local}")}


@contextmanager
def listening(way: str, kind: str, steps: Sequence[Step]) -> Iterator[Listening]:
    """Does the steps to each connection, and closes it."""
    ended = threading.Event()

    def serve(connection: socket.socket) -> None:
        peer = Peer(connection, ended)
        found.open.add(peer)
        with suppress(OSError):
            for step in steps:
                step(peer)
        peer.socket.close()
        found.open.discard(peer)

    def accept() -> None:
        with suppress(OSError):
            while True:
                connection, _ = listener.accept()
                connection.settimeout(MOST_SECONDS)
                found.connections += 1
                threading.Thread(target=serve, args=(connection,), daemon=True).start()

    with TemporaryDirectory(prefix="sepu-") as directory:
        unix = way == "Unix"
        listener = socket.socket(socket.AF_UNIX if unix else socket.AF_INET)
        listener.bind(f"{directory}/s" if unix else ("127.0.0.1", 0))
        listener.listen(128)
        found = Listening(options(way, kind, listener.getsockname()))
        with listener:
            thread = threading.Thread(target=accept)
            thread.start()
            try:
                yield found
            finally:
                ended.set()
                listener.shutdown(socket.SHUT_RDWR)
                thread.join()
                for peer in list(found.open):
                    with suppress(OSError):
                        peer.socket.shutdown(socket.SHUT_RDWR)
