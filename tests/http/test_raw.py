"""Requests that no client library would send: bodies in chunks, broken and cut off."""

import socket

import psycopg
from tests.serving import Server

from sepu.metering import accounts

ONE = b'{"colors":[{"r":200,"g":60,"b":35}]}'


def exchange(server: Server, issued: accounts.IssuedKey, framing: bytes, body: bytes, *, gone: bool = False) -> bytes:
    """Sends a match framed as told, and closes our side if `gone`; returns all that comes back."""
    head = (
        b"POST /v1/match HTTP/1.1\r\nHost: sepu\r\nConnection: close\r\nContent-Type: application/json\r\n"
        b"Idempotency-Key: raw-request-1\r\nAuthorization: Bearer %b\r\n%b\r\n\r\n"
    )
    answer = b""
    with server.socket() as raw:
        raw.sendall(head % (issued.api_key.encode(), framing) + body)
        if gone:
            raw.shutdown(socket.SHUT_WR)
        try:
            while part := raw.recv(65536):
                answer += part
        except ConnectionResetError:
            pass
    return answer


def chunked(*parts: bytes) -> bytes:
    return b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in (*parts, b""))


def committed(connection: psycopg.Connection, issued: accounts.IssuedKey) -> int:
    return accounts.show_usage(connection, issued.account_id).usage[0].committed


def test_a_body_in_chunks(server: Server, issued: accounts.IssuedKey, connection: psycopg.Connection) -> None:
    answer = exchange(server, issued, b"Transfer-Encoding: chunked", chunked(ONE[:7], ONE[7:]))
    assert answer.startswith(b"HTTP/1.1 200")
    assert b'"slug":"fei-hong"' in answer
    assert committed(connection, issued) == 1


def test_the_limit_holds_for_chunks_too(
    server: Server, issued: accounts.IssuedKey, connection: psycopg.Connection
) -> None:
    answer = exchange(server, issued, b"Transfer-Encoding: chunked", chunked(ONE, b" " * 9000, b" " * 9000))
    assert answer.startswith(b"HTTP/1.1 413")
    assert b'{"error":"payload_too_large","requestId":' in answer
    assert committed(connection, issued) == 0


def test_broken_chunks_are_the_clients_fault(
    server: Server, issued: accounts.IssuedKey, connection: psycopg.Connection
) -> None:
    answer = exchange(server, issued, b"Transfer-Encoding: chunked", b"zz\r\n" + ONE + b"\r\n0\r\n\r\n")
    assert answer[:12] in {b"HTTP/1.1 400", b"HTTP/1.0 400"}
    assert committed(connection, issued) == 0
    assert "Traceback" not in server.log.read_text()


def test_a_body_that_was_cut_off_charges_nothing(
    server: Server, issued: accounts.IssuedKey, connection: psycopg.Connection
) -> None:
    # What arrives is whole JSON; but who declared more has not finished, and is gone.
    answer = exchange(server, issued, b"Content-Length: 100", ONE, gone=True)
    assert not answer.startswith(b"HTTP/1.1 200")
    assert b"internal_error" not in answer
    assert committed(connection, issued) == 0
