"""Speaks TLS without I/O, so that both clients do it alike, also within TLS, and see how a connection ends."""

import os
import re
import ssl
from pathlib import Path

from sepu_client.messages import Conversation, Lost, T

_PART = 65536
# Alerts about a certificate (RFC 8446, 6.2), as OpenSSL and Python call them.
_REFUSAL = re.compile("(?i)alert[ _](.*certificate|unknown[ _]ca|access[ _]denied|decrypt[ _]error)")


def system_context() -> ssl.SSLContext:
    """Returns a context that trusts the system's certificates. Raises ValueError if there are none.

    OpenSSL itself ignores an SSL_CERT_FILE that it cannot read, and looks into directories only when it verifies.
    """
    context = ssl.create_default_context()
    file = os.environ.get("SSL_CERT_FILE")
    if file:
        try:
            context.load_verify_locations(file)
        except OSError as error:  # as is an SSLError
            reason = getattr(error, "reason", None) or error.strerror
            raise ValueError(f"SSL_CERT_FILE is {file!r}, from which no certificates can be read: {reason}") from None
    listed = os.environ.get("SSL_CERT_DIR") or ssl.get_default_verify_paths().openssl_capath
    directories = [Path(name) for name in listed.split(os.pathsep) if Path(name).is_dir()]
    if not directories and os.environ.get("SSL_CERT_DIR"):
        raise ValueError(f"SSL_CERT_DIR is {listed!r}, which names no directory")
    if not context.cert_store_stats()["x509_ca"] and not any(any(each.iterdir()) for each in directories):
        raise ValueError(
            "Python finds no certificates to verify the service with: install the system's (Debian: ca-certificates), "
            "set SSL_CERT_FILE to a file with certificates, or pass ssl_context"
        )
    return context


class Tls:
    """The client's side of a TLS connection."""

    def __init__(self, context: ssl.SSLContext, host: str) -> None:
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._object = context.wrap_bio(self._incoming, self._outgoing, server_hostname=host.rstrip("."))
        self.ended = False  # by the other side's close_notify
        self._has_received = False

    @property
    def is_quiet(self) -> bool:
        """Returns whether no part of a record is waiting, nor the end."""
        return not self.ended and not self._incoming.pending

    def handshake(self) -> Conversation[None]:
        """Shakes hands. Raises a final Lost if TLS is refused, for instance for a wrong certificate."""
        while True:
            try:
                self._object.do_handshake()
            except ssl.SSLWantReadError:
                pass
            except ssl.SSLError as error:
                raise Lost(f"{type(error).__name__}: {error}", final=True) from None
            else:
                return  # the last flight goes with the first request
            received = yield self._outgoing.read()
            if not received:
                raise Lost("the connection broke in the TLS handshake")
            self._incoming.write(received)

    def decrypted(self, received: bytes) -> bytes:
        """Returns the records' content, which may be empty; sets `ended`."""
        self._incoming.write(received)
        parts = []
        try:
            while part := self._object.read(_PART):
                parts.append(part)
            self.ended = True
        except ssl.SSLWantReadError:
            pass
        except ssl.SSLError as error:
            # TLS 1.3 ends the client's handshake before the server has seen the client's certificate.
            is_refused = not self._has_received and bool(_REFUSAL.search(str(error)))
            reason = f"{type(error).__name__}: {error.reason or error}"
            raise Lost(reason, final=is_refused, unsent=is_refused) from None
        self._has_received = self._has_received or bool(parts)
        return b"".join(parts)

    def encrypted(self, data: bytes | memoryview) -> bytes:
        """Encrypts the data; returns it after what TLS itself has to send."""
        if data:
            self._object.write(data)
        return self._outgoing.read()

    def carrying(self, inner: Conversation[T]) -> Conversation[T]:
        """Runs the conversation within TLS. It sees an end only if the other side sent close_notify."""
        try:
            sending = next(inner)
            while True:
                received = yield self.encrypted(sending)
                sending = b""
                plain = self.decrypted(received or b"")
                if plain:
                    sending = inner.send(plain)
                if self.ended:
                    sending = inner.send(b"")
                elif not received:
                    sending = inner.send(None)
        except StopIteration as ended:
            result: T = ended.value
            return result
