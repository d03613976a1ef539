"""The default worker's connection in simulated time: what was wrong once, and histories against a slow reference.

About a second by default; SEPU_WIRE_HISTORIES=5000 plays that many histories.
"""

import os
from collections import Counter
from collections.abc import Callable
from ipaddress import ip_network

import pytest
from tests.server.wire_grammar import HOSTS, NO_HOSTS, SMUGGLED
from tests.server.wire_simulation import Owner, Played, play, play_mutated

from sepu import limits

HISTORIES = int(os.environ.get("SEPU_WIRE_HISTORIES", "100"))
GET = b"GET / HTTP/1.1\r\nHost: sepu\r\n\r\n"
POST = b"POST / HTTP/1.1\r\nHost: sepu\r\nContent-Length: 2\r\n\r\n"


@pytest.mark.parametrize("part", range(1, len(POST) + 2))
@pytest.mark.parametrize("at_once", [True, False])
def test_part_of_a_request_behind_a_whole_one_has_a_deadline(part: int, at_once: bool) -> None:
    played = Played(at_once=at_once)
    played.send(GET + (POST + b"{}")[:part])
    played.owner.answer()
    played.connection.close_if_idle()  # a stopping worker waits for it
    assert played.after(limits.REQUEST_SECONDS - 1) == ["answer 0"]
    assert played.after(1) == ["answer 0", "refused 408"]


@pytest.mark.parametrize("before", [b"", GET])
def test_nobody_is_answered_who_has_asked_nothing(before: bytes) -> None:
    """An empty line begins no request; a client could take a 408 for the answer to its next one."""
    played = Played()
    answered = played.send(before)
    until = played.connection.deadline
    for _ in range(3):
        played.owner.clock.now += 1
        assert played.send(b"\r\n") == answered
    assert played.connection.deadline == until
    assert played.after(limits.IDLE_SECONDS) == answered
    assert played.wire.eof


@pytest.mark.parametrize("framing", [b"Content-Length: %d\r\n" % len(SMUGGLED), b"Transfer-Encoding: chunked\r\n"])
@pytest.mark.parametrize("more", [b"", b"Upgrade: h2c\r\nConnection: Upgrade\r\n"])
def test_nothing_behind_the_head_of_a_connect_is_a_request(framing: bytes, more: bytes) -> None:
    head = b"CONNECT sepu:80 HTTP/1.1\r\nHost: sepu\r\nExpect: 100-continue\r\n" + more + framing
    for segments in ([head + b"\r\n" + SMUGGLED], [head + b"\r\n", SMUGGLED], [GET + head, b"\r\n", SMUGGLED]):
        played = Played()
        assert played.send(*segments)[-1].endswith(" close")
        assert played.owner.asked[-1] == ("CONNECT", "sepu:80", b"")
        assert len(played.owner.asked) == 1 + segments[0].startswith(GET)


@pytest.mark.parametrize("version", [b"1.0", b"1.1"])
@pytest.mark.parametrize("option", [b"upgrade, close", b"close, Upgrade", b"Upgrade"])
@pytest.mark.parametrize("parts", [1, 2, 400])
def test_the_body_beside_an_upgrade_is_a_body_on_the_last_request_too(
    version: bytes, option: bytes, parts: int
) -> None:
    head = b"POST / HTTP/%b\r\nHost: sepu\r\nUpgrade: h2c\r\nConnection: %b\r\n" % (version, option)
    framed = {b"Content-Length: %d\r\n\r\n" % len(SMUGGLED): SMUGGLED}
    if version == b"1.1":
        framed[b"Transfer-Encoding: chunked\r\n\r\n"] = b"5\r\n%b\r\n%x\r\n%b\r\n0\r\nA: b\r\n\r\n" % (
            SMUGGLED[:5],
            len(SMUGGLED) - 5,
            SMUGGLED[5:],
        )
    for framing, body in framed.items():
        played = Played()
        data = head + framing + body + GET
        size = -(-len(data) // parts)
        came = played.send(*(data[at : at + size] for at in range(0, len(data), size)))
        asked = [("POST", "/", SMUGGLED)]
        if (version, option) == (b"1.1", b"Upgrade"):
            assert (came, played.owner.asked) == (["answer 0", "answer 1"], [*asked, ("GET", "/", b"")])
        else:
            assert (came, played.owner.asked) == (["answer 0 close"], asked)


@pytest.mark.parametrize(("host", "ok"), [*((host, True) for host in HOSTS), *((host, False) for host in NO_HOSTS)])
def test_a_host_is_a_name_or_an_address_and_perhaps_a_port(host: str, ok: bool) -> None:
    assert Played().send(b"GET / HTTP/1.1\r\nHost: %b\r\n\r\n" % host.encode("latin-1")) == [
        "answer 0" if ok else "refused 400"
    ]


@pytest.mark.parametrize(
    ("target", "ok"),
    [(b"http://sepu:80/x", True), (b"http://sepu", True), (b"http://a@sepu/x", False), (b"http://:80/x", True)],
)
def test_a_target_in_absolute_form_names_a_host(target: bytes, ok: bool) -> None:
    assert Played().send(b"GET %b HTTP/1.1\r\nHost: sepu\r\n\r\n" % target) == ["answer 0" if ok else "refused 400"]


def test_a_client_is_told_to_continue_when_it_is_its_turn() -> None:
    played = Played(at_once=False)
    post = POST.replace(b"\r\n\r\n", b"\r\nExpect: 100-continue\r\n\r\n")
    assert played.send(GET + post) == []
    played.owner.answer()
    assert played.came == ["answer 0", "100"]
    played.send(b"{", b"}" + post + b"{}")  # there the body is here already
    played.owner.answer()
    played.owner.answer()
    assert played.came == ["answer 0", "100", "answer 1", "answer 2"]


def test_an_application_that_never_answers_holds_nobody_for_ever() -> None:
    played = Played(at_once=False)
    played.send(GET)
    assert played.after(limits.APPLICATION_SECONDS) == ["refused 500"]
    played.owner.answer()  # late
    assert played.came == ["refused 500"]


def test_an_address_has_a_share_of_the_connections_unless_it_is_a_proxys() -> None:
    owner = Owner()

    def opened(address: str | None, number: int) -> list[Played]:
        peer = "" if address is None else (address, 50_000)
        return [Played(owner=owner, peer=peer) for _ in range(number)]

    def refused(connections: list[Played]) -> int:
        return [each.came for each in connections].count(["refused 503"])

    share = limits.ADDRESS_CONNECTIONS
    silent = opened("192.0.2.1", share + 10)
    assert refused(silent) == 10
    assert refused(opened("192.0.2.2", 10)) == 0
    assert refused(opened("::ffff:192.0.2.1", 1)) == 1  # the same
    of_one_network = [*opened("2001:db8::1", share), *opened("2001:db8::2", 1)]
    assert refused(of_one_network) == 1
    for each in (*silent, *of_one_network):
        each.wire.lose()
    assert set(owner.addresses) == {"192.0.2.2"}
    assert refused(opened("192.0.2.1", 1)) == 0
    owner.trusted_proxies = (ip_network("198.51.100.0/24"),)
    for proxy in ("127.0.0.1", "::1", "198.51.100.7"):
        assert refused(opened(proxy, share + 1)) == 0
    assert len(owner.connections) <= limits.CONNECTIONS
    assert refused(opened(None, limits.CONNECTIONS - len(owner.connections) + 1)) == 1


@pytest.mark.parametrize("parts", [1, 2])
@pytest.mark.parametrize("look", ["a stopping worker", "one after a long time"])
def test_a_connection_is_not_idle_once_its_request_comes(look: str, parts: int) -> None:
    """Even if the worker looks at it in the same turn of the event loop."""
    played = Played(at_once=False)
    idle = played.connection.deadline
    if parts == 2:
        played.send(GET[:9])
    played.wire.sent += GET[9:] if parts == 2 else GET
    played.wire.pump()
    if look == "a stopping worker":
        played.connection.close_if_idle()
    else:
        assert played.connection.deadline > idle
        played.connection.check(idle)
    played.owner.run(played.wire)
    played.owner.answer()
    assert played.came == ["answer 0"]


def test_pipelined_requests_are_bounded_in_memory() -> None:
    played, many = Played(at_once=False), 20_000
    played.send(GET * many)
    for number in range(many):
        assert len(played.owner.asked) == number + 1  # the next is not asked before this one is answered
        assert len(played.connection._requests) < 200
        assert len(played.connection._unparsed) <= 2 * len(played.owner.buffer)
        played.owner.answer()
        played.owner.run(played.wire)
    assert played.came[-1] == f"answer {many - 1}"


@pytest.mark.parametrize("kind", [play, play_mutated])
def test_histories(kind: Callable[[int], Counter[str]]) -> None:
    for seed in range(HISTORIES):
        kind(seed)
