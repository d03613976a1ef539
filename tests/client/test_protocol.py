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
    sent = [bytes(next(conversation))]
    for part in received:
        try:
            sent.append(bytes(conversation.send(part)))
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
    for status in (200, 399):
        with pytest.raises(Lost):
            exchanged(b"HTTP/1.1 %d OK\r\n\r\n" % status, BODY, BROKEN)
    for status in (400, 407):  # as tinyproxy refuses a POST
        answer, stays = exchanged(b"HTTP/1.0 %d Denied\r\n\r\n" % status, BODY, BROKEN)
        assert (answer.status, answer.body, stays) == (status, BODY, False)


# What a client accepts and refuses, by section of RFC 9112 (or of RFC 9110, where it is named). Most are the responses
# of llhttp's test suite (test/response, MIT licence) and of h11's (test_io.py, MIT licence). None is a refusal.
Read = tuple[int, bytes] | None
SOME, ANY_BODY = b"Content-Length: 2\r\n\r\nok", (200, b"ok")
IN_CHUNKS = OK + CHUNKED + b"\r\n"
CHECKLIST: dict[str, dict[bytes, Read]] = {
    "2.2 line ends and white space": {
        b"\r\n" + OK + SOME: ANY_BODY,
        b"\r\n\r\n" + OK + SOME: None,
        OK + b" Host: foo\r\n" + SOME: None,
        (OK + SOME).replace(b"\r\n", b"\n"): None,
        OK.replace(b"\r\n", b"\n") + SOME: None,
        b"HTTP/1.1 200 OK\rContent-Length: 2\r\n\r\nok": None,
        b"HTTP/1.1 200 OK\r\rContent-Length: 4\r\n\r\nEvil": None,
        OK + b"Foo: 1\rBar: 2\r\n" + SOME: None,
    },
    "2.3 version": {
        **{line + b" 200 OK\r\n" + SOME: None for line in (
            b"HTTP/0.9", b"HTTP/2.0", b"HTTP/5.6", b"HTTP/01.1", b"HTTP/11.1", b"HTTP/1.01", b"HTTP/1.2", b"http/1.1",
            b"HTP/1.1", b"HTTPER/1.1", b"RTSP/1.1", b"ICE/1.1", b"ICY", b"\x16\x03\x01",
        )},
        b"HTTP/1.0 200 OK\r\n" + SOME: ANY_BODY,
    },
    "4 status line": {
        b"HTTP/1.1\t200 OK\r\n" + SOME: None,
        b"HTTP/1.1  200 OK\r\n" + SOME: None,
        b"HTTP/1.1 2 OK\r\n" + SOME: None,
        b"HTTP/1.1 2000 OK\r\n" + SOME: None,
        b"HTTP/1.1 -20 OK\r\n" + SOME: None,
        b"HTTP/1.1 200\r\n" + SOME: ANY_BODY,
        b"HTTP/1.1 200 \r\n" + SOME: ANY_BODY,
        b"HTTP/1.1 200  OK\r\n" + SOME: ANY_BODY,
        b"HTTP/1.1 500 Ori\xc3\xabntatieprobleem\r\n" + SOME: (500, b"ok"),
        b"HTTP/1.1 099 OK\r\n" + SOME: (99, b"ok"),  # counts as 5xx (RFC 9110, 15)
        b"HTTP/1.1 600 OK\r\n" + SOME: (600, b"ok"),
    },
    "5.1 fields": {
        **{OK + line + b"\r\n" + SOME: ANY_BODY for line in (
            b"Header2:\t Value2", b"A: b  ", b"A:", b"Pragma: ", b"X-$PrototypeBI-Version: 1", b"DCLK_imp: v7;x",
            b".et-Cookie: a", b"A: \xe9\x80", b"Content-Length-X: 0", b"A: b\r\nA: c",
        )},
        **{OK + line + b"\r\n" + SOME: None for line in (
            b"en-US Content-Type: text/xml", b"A : b", b"no colon", b": no name", b"A: \x00", b"A: \x01", b"A\x00: b",
        )},
    },
    "5.2 folded lines": {
        OK + b"A: b\r\n c\r\n" + SOME: ANY_BODY,
        OK + b"A: b \r\n\t \tc\r\n  d\r\n" + SOME: ANY_BODY,
        OK + b"A:\r\n b\r\n" + SOME: ANY_BODY,
        OK + b"Content-Length:\r\n 2\r\n\r\nok": ANY_BODY,
        OK + b"Transfer-Encoding: chunked\r\n  abc\r\n\r\n" + b"2\r\nok\r\n0\r\n\r\n": None,
    },
    "6.1 transfer coding": {
        OK + b"transfer-encoding: \t Chunked \t\r\n\r\n2\r\nok\r\n0\r\n\r\n": ANY_BODY,
        b"HTTP/1.0 200 OK\r\n" + CHUNKED + b"\r\n2\r\nok\r\n0\r\n\r\n": ANY_BODY,
        **{OK + line + b"\r\n\r\n2\r\nok\r\n0\r\n\r\n": None for line in (
            b"Transfer-Encoding: chunked, deflate", b"Transfer-Encoding: gzip, chunked", b"Transfer-Encoding: gzip",
            b"Transfer-Encoding: chunkedchunked", b"Transfer-Encoding: chunked, chunked", b"Transfer-Encoding:",
            CHUNKED + b"Transfer-Encoding: chunked", CHUNKED + b"Transfer-Encoding: identity",
            CHUNKED + b"Content-Length: 2",
        )},
    },
    "6.2 length, and RFC 9110, 8.6": {
        **{OK + line + b"\r\n\r\nok": ANY_BODY for line in (
            b"Content-Length:\t2\t", b"Content-Length:  2  ", b"Content-Length: 2\r\ncontent-length: 2",
            b"Content-Length: 2, 2", b"Content-Length: 2\r\nA: b\r\nContent-Length: 2 ,\t2",
        )},
        **{OK + line + b"\r\n\r\nok": None for line in (
            b"Content-Length: 2\r\nContent-Length: 3", b"Content-Length: 2, 3", b"Content-Length: 2,",
            b"Content-Length:", b"Content-Length: +2", b"Content-Length: -2", b"Content-Length: 0x2",
            b"Content-Length: +2\r\nContent-Length: +2", b"Content-Length: 2 2", b"Content-Length: \xb2",
            b"Content-Length: 99999999999999999999999",
        )},
    },
    "6.3 end of a body": {
        b"HTTP/1.1 204 No content\r\nContent-Length: 2\r\n\r\n": (204, b""),
        b"HTTP/1.1 304 Not Modified\r\nTransfer-Encoding: chunked\r\n\r\n": (304, b""),
        OK + b"Content-Type: text/plain\r\n\r\nok": ANY_BODY,
        OK + b"Connection: close\r\n\r\nok": ANY_BODY,
        b"HTTP/1.0 200 OK\r\nConnection: keep-alive\r\n\r\nok": ANY_BODY,
        OK + b"Content-Length: 3\r\n\r\nok": None,
    },
    "7.1 chunks": {
        **{IN_CHUNKS + chunks: ANY_BODY for chunks in (
            b"2  \r\nok\r\n0  \r\n\r\n", b"2 ;x=y\r\nok\r\n0\r\n\r\n", b"2;ilovew3;a=b\r\nok\r\n0\r\n\r\n",
            b'2;a="I love; extensions";b="c";d\r\nok\r\n0\r\n\r\n', b"0002\r\nok\r\n000\r\n\r\n",
            b"2\r\nok\r\n0\r\nVary: *\r\nContent-Type: text/plain\r\n\r\n",
        )},
        **{IN_CHUNKS + chunks: None for chunks in (
            b"2 erfrferferf\r\nok\r\n0 rrrr\r\n\r\n", b"2;\r\nok\r\n0\r\n\r\n", b"2; a=b\r\nok\r\n0\r\n\r\n",
            b'2;a="b\r\nok\r\n0\r\n\r\n', b"2\r\nokay\r\n0\r\n\r\n", b"2\nok\n0\n\n", b"x\r\n\r\n", b"-2\r\nok",
            b"0x2\r\nok\r\n0\r\n\r\n", b"fffffffffffffffff\r\nok", b"2\r\nok\r\n", b"2\r\nok\r\n0\r\n",
            b"2\r\nok\r\n0\r\nContent-Length: 2\r\n\r\n", b"2\r\nok\r\n0\r\nno colon\r\n\r\n",
        )},
    },
    "9 connections, and RFC 9110, 7.8 and 15.2": {
        INTERIM + b"HTTP/1.1 404 Not Found\r\n" + SOME: (404, b"ok"),
        b"HTTP/1.1 103 Early Hints\r\nLink: </a.css>\r\n\r\n" + OK + SOME: ANY_BODY,
        b"HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: h2c\r\n\r\n": None,
        OK + b"Upgrade: h2,h2c\r\nConnection: Upgrade, Keep-Alive\r\n" + SOME: ANY_BODY,  # Apache's
        OK + b"Upgrade: h2c\r\nConnection: upgrade\r\n" + CHUNKED + b"\r\n2\r\nok\r\n0\r\n\r\n": ANY_BODY,
        OK + b"Proxy-Connection: keep-alive\r\n" + SOME: ANY_BODY,
    },
    "our bounds": {
        OK + b"X: " + MAX_HEAD * b"x" + b"\r\n" + SOME: None,
        OK + MAX_HEAD * b"x": None,
        (MAX_HEAD // 16) * INTERIM + OK + SOME: None,
        IN_CHUNKS + (5 * MAX_BODY // 106) * (b"1;" + 100 * b"x" + b"\r\ny\r\n"): None,
    },
}  # fmt: skip


@pytest.mark.parametrize("section", CHECKLIST)
def test_what_a_client_accepts_and_refuses(section: str) -> None:
    for response, expected in CHECKLIST[section].items():
        found: Read = None
        try:
            try:
                answer, _ = exchanged(response)
            except AssertionError:  # it wants more
                answer, _ = exchanged(response, END)
            found = (answer.status, answer.body)
        except Lost as lost:
            assert (lost.unanswered, lost.unsent) == (False, False)
        assert found == expected, response[:100]


@pytest.mark.parametrize(
    ("lines", "name", "value"),
    [
        (b"A: b \r\n", "a", "b"),
        (b"A: b \t\r\n", "a", "b"),
        (b"A: b\xa0\r\n", "a", "b\xa0"),  # no white space of HTTP
        (b"A: b \r\n\t c\r\n", "a", "b c"),
        (b"A: b\r\nA: c\r\n", "a", "b, c"),
        (b"A: b\r\nA: b \r\n", "a", "b"),
        (b"Content-Length: 0\r\nContent-Length: 0\r\n", "content-length", "0"),
    ],
)
def test_the_value_of_a_field(lines: bytes, name: str, value: str) -> None:
    answer, _ = exchanged(OK + lines + b"\r\n", END)
    assert answer.headers[name] == value


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
    link = Link(route)
    conversation = link.open()
    sent = bytes(next(conversation))
    hello = [conversation.send(part) for part in received][-1]
    assert hello[:2] == b"\x16\x03"  # a TLS handshake record
    assert b"Basic" not in bytes(next(link.exchange(REQUEST))), "the service sees no password of the proxy"
    return sent


CONNECTED = b"HTTP/1.1 200 Connected\r\n"


@pytest.mark.parametrize("lengths", [b"", b"Content-Length: 5\r\n", CHUNKED])
@pytest.mark.parametrize("before", [b"", INTERIM])
def test_the_lengths_in_an_answer_to_connect_mean_nothing(lengths: bytes, before: bytes) -> None:
    sent = tunnel(before + CONNECTED + lengths, b"\r\n")
    assert sent == b"CONNECT [::1]:443 HTTP/1.1\r\nHost: [::1]:443\r\nProxy-Authorization: Basic eDp5\r\n\r\n"


@pytest.mark.parametrize(
    ("answer", "reason", "final"),
    [
        (b"HTTP/1.1 407 Denied\r\n\r\n", "the proxy answered 407 to CONNECT", True),
        (b"HTTP/1.1 403 Denied\r\n\r\n", "the proxy answered 403 to CONNECT", True),
        *(
            (b"HTTP/1.1 %d Later\r\n\r\n" % status, f"the proxy answered {status} to CONNECT", False)
            for status in (408, 425, 429, 500, 503)
        ),
        (b"HTTP/1.1 429 Later\r\nRetry-After: 7\r\n\r\n", "the proxy answered 429 to CONNECT", False),
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
    assert raised.value.retry_after == (7 if b"Retry-After" in answer else None)
