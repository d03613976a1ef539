"""HTTP without a socket: each answer split anywhere, against a plain reference, and bytes that are not an answer."""

import ssl
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sepu_client import Answer, Request
from sepu_client.address import Route
from sepu_client.messages import MAX_BODY, Conversation, Lost
from sepu_client.protocol import MAX_HEAD, Link
from sepu_client.proxies import Proxy

ROUTE = Route("http://localhost", "localhost", "localhost", 80)
REQUEST = Request("POST", "http://localhost/v1/match", {"Host": "localhost"}, b"{}", 10)
OK = b"HTTP/1.1 200 OK\r\n"
ANY = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
END: Any = b""
BROKEN: Any = None


def played(conversation: Conversation[Any], received: Sequence[bytes | None]) -> tuple[Any, list[bytes]]:
    """Returns a conversation's result and what it sent; fails if it asks for more input."""
    sent = [next(conversation)]
    for part in received:
        try:
            sent.append(conversation.send(part))
        except StopIteration as ended:
            return ended.value, [each for each in sent if each]
    raise AssertionError("it wants more")


def exchanged(*received: bytes | None) -> tuple[Answer, bool]:
    found, sent = played(Link(ROUTE).exchange(REQUEST), received)
    assert sent == [b"POST /v1/match HTTP/1.1\r\nHost: localhost\r\n\r\n{}"]  # in one write
    answer, stays = found
    return answer, stays


BODY = b'{"a":1}\r\n\r\n'
LENGTH = b"Content-Length: %d\r\n" % len(BODY)
CHUNKS = b'4;x="y"\r\n{"a"\r\n7\r\n:1}\r\n\r\n\r\n0\r\nTrailer: t\r\n\r\n'
INTERIM = b"HTTP/1.1 100 C\r\n\r\n"
CHUNKED = b"Transfer-Encoding: chunked\r\n"
# Each complete answer, its body, and whether the connection stays open after it.
ANSWERS: dict[str, tuple[bytes, bytes, bool]] = {
    "a length": (OK + LENGTH + b"\r\n" + BODY, BODY, True),
    "no body": (OK + b"Content-Length: 0\r\n\r\n", b"", True),
    "204": (b"HTTP/1.1 204 No\r\nContent-Length: 5\r\n\r\n", b"", True),
    "chunks": (OK + CHUNKED + b"\r\n" + CHUNKS, BODY, True),
    "only the last chunk": (OK + CHUNKED + b"\r\n0\r\n\r\n", b"", True),
    "informational answers": (INTERIM + b"HTTP/1.1 103 E\r\nA: b\r\n\r\n" + OK + LENGTH + b"\r\n" + BODY, BODY, True),
    "close": (OK + LENGTH + b"Connection: x, Close\r\n\r\n" + BODY, BODY, False),
    "HTTP/1.0": (b"HTTP/1.0 200 OK\r\nConnection: keep-alive\r\n" + LENGTH + b"\r\n" + BODY, BODY, False),
}  # fmt: skip
SURPLUS = [b"x", b"\r", b"\n", b"\r\n", b"\r\n\r\n", OK + b"\r\n"]


@pytest.mark.parametrize("name", ANSWERS)
@given(data=st.data())
def test_an_answer_in_any_pieces(name: str, data: st.DataObject) -> None:
    whole, body, stays = ANSWERS[name]
    cuts = sorted(data.draw(st.sets(st.integers(1, len(whole) - 1), max_size=6)))
    pieces = [whole[start:end] for start, end in pairwise([0, *cuts, len(whole)])]
    answer, may_stay = exchanged(*pieces)
    assert (answer.status, answer.body, may_stay) == (204 if name == "204" else 200, body, stays)


@pytest.mark.parametrize("name", ANSWERS)
@pytest.mark.parametrize("surplus", SURPLUS)
def test_any_byte_behind_an_answer_ends_the_connection(name: str, surplus: bytes) -> None:
    whole, body, _ = ANSWERS[name]
    answer, stays = exchanged(whole + surplus)
    assert (answer.body, stays) == (body, False)


@pytest.mark.parametrize("name", ANSWERS)
def test_an_answer_that_breaks_off_is_none(name: str) -> None:
    whole, _, _ = ANSWERS[name]
    for ending in (END, BROKEN):
        for cut in range(len(whole)):
            with pytest.raises(Lost) as raised:
                exchanged(*([whole[:cut]] if cut else []), ending)
            assert raised.value.unanswered == (cut == 0)


def test_an_answer_without_a_length_needs_a_proper_end() -> None:
    answer, stays = exchanged(OK + b"\r\n", BODY, BODY, END)
    assert (answer.body, stays) == (2 * BODY, False)
    with pytest.raises(Lost):
        exchanged(OK + b"\r\n", BODY, BROKEN)


@pytest.mark.parametrize(
    "wrong",
    [
        b"HTTP/2.0 200 OK\r\n\r\n", b"HTTP/1.1 2000 OK\r\n\r\n", b"ICY 200 OK\r\n\r\n", b"\r\n\r\n" + OK + b"\r\n",
        b"\x16\x03\x01\r\n\r\n", OK + b"a b: c\r\n\r\n", OK + b"a: \x00\r\n\r\n",
        OK.replace(b"\r\n", b"\n") + b"\r\n\r\n",
        OK + LENGTH + CHUNKED + b"\r\n" + CHUNKS,
        OK + b"Content-Length: +1\r\n\r\nx", OK + b"Content-Length: 99999999999999999999999\r\n\r\nx",
        OK + b"Transfer-Encoding: gzip, chunked\r\n\r\n" + CHUNKS, OK + b"Transfer-Encoding: gzip\r\n\r\n",
        OK + CHUNKED + b"\r\nx\r\n\r\n", b"HTTP/1.1 101 Switching\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n",
        OK + b"X: " + MAX_HEAD * b"x" + b"\r\n\r\n", OK + MAX_HEAD * b"x", (MAX_HEAD // 16) * INTERIM + OK + b"\r\n",
        OK + CHUNKED + b"\r\n" + (5 * MAX_BODY // 106) * (b"1;" + 100 * b"x" + b"\r\ny\r\n"),
    ],
    ids=lambda wrong: repr(wrong[:60]),
)  # fmt: skip
def test_what_is_no_answer_is_lost(wrong: bytes) -> None:
    with pytest.raises(Lost) as raised:
        exchanged(wrong, END)
    assert not raised.value.unanswered


@pytest.mark.parametrize("framing", [b"", CHUNKED, b"Content-Length: %d\r\n" % (2 * MAX_BODY)])
def test_no_more_than_the_bound_is_read_of_a_body(framing: bytes) -> None:
    part = 65_536 * b"x"
    chunk = b"%x\r\n%b\r\n" % (len(part), part) if framing == CHUNKED else part
    answer, stays = exchanged(OK + framing + b"\r\n", *(MAX_BODY // len(part) + 1) * [chunk])
    assert (MAX_BODY < len(answer.body) <= MAX_BODY + len(part), stays) == (True, False)


def test_a_coded_body_is_not_read() -> None:
    answer, stays = exchanged(OK + LENGTH + b"Content-Encoding: gzip\r\n\r\n")
    assert (answer.headers["content-encoding"], answer.body, stays) == ("gzip", b"", False)


def tunnel(*received: bytes | None) -> bytes:
    route = Route("https://[::1]", "[::1]", "::1", 443, tls=ANY, proxy=Proxy("proxy", 80, False, "Basic eDp5"))
    conversation = Link(route).open()
    sent = next(conversation)
    hello = [conversation.send(part) for part in received][-1]
    assert hello[:2] == b"\x16\x03"  # a TLS handshake record
    return sent


CONNECTED = b"HTTP/1.1 200 Connected\r\n"


@pytest.mark.parametrize("lengths", [b"", b"Content-Length: 5\r\n", CHUNKED])
def test_the_lengths_in_an_answer_to_connect_mean_nothing(lengths: bytes) -> None:
    sent = tunnel(CONNECTED + lengths, b"\r\n")
    assert sent == b"CONNECT [::1]:443 HTTP/1.1\r\nHost: [::1]:443\r\nProxy-Authorization: Basic eDp5\r\n\r\n"


@pytest.mark.parametrize(
    ("answer", "reason", "final"),
    [
        (b"HTTP/1.1 407 Denied\r\n\r\n", "the proxy answered 407 to CONNECT", True),
        (b"HTTP/1.1 502 Bad\r\nContent-Length: 3\r\n\r\nbad", "the proxy answered 502 to CONNECT", False),
        (b"HTTP/1.1 200 OK\r\n\r\nx", "the proxy sent more", False),
        (b"nonsense\r\n\r\n", "not HTTP", False),
        (END, "the proxy closed the connection", False),
    ],
)
def test_a_proxy_that_makes_no_tunnel(answer: bytes, reason: str, final: bool) -> None:
    with pytest.raises(Lost, match=reason) as raised:
        tunnel(answer)
    assert raised.value.final == final
