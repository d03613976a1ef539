"""The default worker's connection in simulated time: former faults, and histories against a slow reference.

Takes about a second by default; SEPU_WIRE_HISTORIES=5000 plays that many histories.
"""

import os
from collections import Counter
from collections.abc import Callable
from ipaddress import ip_network

import pytest
from tests.server.wire_grammar import HOSTS, NO_HOSTS
from tests.server.wire_simulation import Owner, Played, play, play_mutated

from sepu import limits

HISTORIES = int(os.environ.get("SEPU_WIRE_HISTORIES", "100"))
GET = b"GET / HTTP/1.1\r\nHost: sepu\r\n\r\n"


@pytest.mark.parametrize(
    ("target", "host", "ok"),
    [
        *(("/", host, host in HOSTS) for host in HOSTS + NO_HOSTS),
        *((f"http://{name}", "sepu", name != "a@sepu/x") for name in ("sepu:80/x", "sepu", "a@sepu/x", ":80/x")),
    ],
)
def test_a_host_is_a_name_or_an_address_and_perhaps_a_port(target: str, host: str, ok: bool) -> None:
    head = f"GET {target} HTTP/1.1\r\nHost: {host}\r\n\r\n".encode("latin-1")
    assert Played().send(head) == ["answer 0" if ok else "refused 400"]


def test_an_address_has_a_share_of_the_connections_unless_it_is_a_proxys() -> None:
    owner = Owner()

    def opened(address: str | None, number: int) -> list[Played]:
        peer = "" if address is None else (address, 50_000)
        return [Played(owner=owner, peer=peer) for _ in range(number)]

    def refused(connections: list[Played]) -> int:
        return [each.came for each in connections].count(["refused 503"])

    share = limits.connections.OF_AN_ADDRESS
    silent = opened("192.0.2.1", share + 10)
    assert refused(silent) == 10
    assert refused(opened("192.0.2.2", 10)) == 0
    assert refused(opened("::ffff:192.0.2.1", 1)) == 1  # the same address
    of_two_networks = [*opened("2001:db8::1", share), *opened("2001:db8::ffff:2", 1), *opened("2001:db8:0:1::1", 1)]
    assert refused(of_two_networks) == 1
    on_one_link = [*opened("fe80::1%eth0", share), *opened("fe80::2%eth0", 1)]
    assert refused(on_one_link) == 1
    for each in (*silent, *of_two_networks, *on_one_link):
        each.wire.lose()
    assert set(owner.addresses) == {"192.0.2.2"}
    assert refused(opened("192.0.2.1", 1)) == 0
    owner.trusted_proxies = (ip_network("198.51.100.0/24"), ip_network("fd00::/8"))
    for proxy in ("127.0.0.1", "::1", "198.51.100.7", "::ffff:198.51.100.7", "fd00::1"):
        of_proxy = opened(proxy, share + 1)
        assert refused(of_proxy) == 0
        for each in of_proxy:
            each.wire.lose()
    assert len(owner.connections) <= limits.connections.OF_A_WORKER
    assert refused(opened(None, limits.connections.OF_A_WORKER - len(owner.connections) + 1)) == 1


@pytest.mark.parametrize("parts", [1, 2])
@pytest.mark.parametrize("look", ["a stopping worker", "one after a long time"])
def test_a_connection_is_not_idle_once_its_request_comes(look: str, parts: int) -> None:
    """Even if the worker checks it in the same turn of the event loop."""
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
        assert len(played.owner.asked) == number + 1  # the next request waits for this answer
        assert len(played.connection._requests) < 200
        assert len(played.connection._unparsed) <= 2 * len(played.owner.buffer)
        played.owner.answer()
        played.owner.run(played.wire)
    assert played.came[-1] == f"answer {many - 1}"


@pytest.mark.parametrize("kind", [play, play_mutated])
def test_histories(kind: Callable[[int], Counter[str]]) -> None:
    played: Counter[str] = sum(map(kind, range(HISTORIES)), Counter())
    assert played["cases"] + played["mutated"] == HISTORIES, "each compares what came"
