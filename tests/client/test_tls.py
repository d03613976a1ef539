"""TLS over real sockets: where an answer ends, and bytes between two calls."""

import socket
import ssl
import time
from contextlib import suppress
from unittest.mock import Mock

import pytest
from tests.client.blocking import Open
from tests.client.hostile import ANSWER, ANSWERED, WAYS, Peer, Step, certificate, listening, saying

from sepu_client import NoAnswerError
from sepu_client.address import Route
from sepu_client.messages import Lost
from sepu_client.protocol import Link

UNTIL_THE_END = b"HTTP/1.1 200 OK\r\n\r\n" + ANSWER


def close_notify(peer: Peer) -> None:
    """Ends TLS properly; the connection stays open for a while."""
    with suppress(OSError):
        peer.socket.settimeout(0.3)
        peer.socket.unwrap()


def cut(peer: Peer) -> None:
    """Closes the connection without ending TLS."""
    raw: socket.socket = socket.socket(fileno=peer.socket.detach())
    raw.close()


@pytest.mark.parametrize(("way", "end"), [("TLS", close_notify), ("TLS", cut), ("plain", Peer.reset)])
def test_an_answer_without_a_length_ends_with_tls(open_client: Open, way: str, end: Step) -> None:
    """Anybody on the way can cut the connection, and so hide the rest. Without TLS, a reset shows it."""
    steps = [*WAYS[way], saying(UNTIL_THE_END), end]
    with listening(way, steps) as peer, open_client(api_key="sepu_key", deadline=0.4, **peer.options) as client:
        if end is close_notify:
            assert client.library().record_count == 161
        else:
            with pytest.raises(NoAnswerError):
                client.library()


@pytest.mark.parametrize(("between", "connections"), [("nothing", 1), ("close_notify", 2), ("data", 2)])
def test_what_comes_between_two_calls(open_client: Open, between: str, connections: int) -> None:
    def converse(peer: Peer) -> None:
        peer.tls()
        peer.request()
        ANSWERED(peer)
        if between == "close_notify" and listed.connections == 1:
            close_notify(peer)
            return
        if between == "data" and listed.connections == 1:
            peer.send(b"\r\n")
        peer.request()
        ANSWERED(peer)

    with listening("TLS", [converse]) as listed:
        with open_client(api_key="sepu_key", deadline=5, **listed.options) as client:
            assert client.library().record_count == 161
            time.sleep(0.1)
            assert client.library().record_count == 161
        assert listed.connections == connections


def test_tickets_between_two_calls_are_no_reason_to_leave_a_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    """Session tickets make the socket readable. The host is an absolute name, whose certificate has no last dot."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    server = certificate().server.wrap_bio(incoming, outgoing, server_side=True)
    host = "service.example."
    link = Link(Route(f"https://{host}", host, host, 443, tls=certificate().client))
    opening = link.open()
    incoming.write(next(opening))
    with pytest.raises(ssl.SSLWantReadError):
        server.do_handshake()
    with pytest.raises(StopIteration):
        opening.send(outgoing.read())
    incoming.write(link._layers[0]._outgoing.read())  # otherwise sent with the first request
    server.do_handshake()
    tickets = outgoing.read()
    assert tickets
    assert link.stays_open_after(tickets)
    server.write(b"HTTP/1.1 408 Request Timeout\r\n\r\n")
    assert not link.stays_open_after(outgoing.read())
    alert = ssl.SSLError("tlsv1 alert access denied")
    alert.reason = "TLSV1_ALERT_ACCESS_DENIED"
    monkeypatch.setattr(link._layers[0]._object, "read", Mock(side_effect=alert))
    with pytest.raises(Lost) as raised:
        link._layers[0].decrypted(b"")
    assert (raised.value.final, raised.value.unsent) == (False, False), "the service may have read the request"
