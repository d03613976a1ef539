"""The clients of docs/integrate against a real service with faults on both sides: one charge for each intent."""

import gzip
import json
import os
import re
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import pytest
from tests.harness.processes import completed, until
from tests.harness.proxy import Odds, Proxy, proxied, socket_directory
from tests.harness.serving import Server, serving
from tests.http.contract import IDEMPOTENCY_KEY, World
from tests.integrate.clients import CLIENTS, CODE, DEADLINE, TIMEOUT, Said, run
from tests.integrate.faulty import (
    Between,
    Exchange,
    Fault,
    between,
    cut_after,
    cut_before,
    cut_within,
    saying,
    slow_body,
    too_slow,
)
from tests.programs import program

from sepu.admin import accounts
from sepu.admin.audit import audit
from sepu.admin.keys import issue_key, revoke_key
from sepu.database.opening import connect, database
from sepu.http.replies import error
from sepu.limits.plans import PLANNED_UNITS

pytestmark = pytest.mark.slow

# An answer that expands to 16 MiB, although no client accepts compression.
BOMB = saying(200, gzip.compress(b'{"a":"' + b" " * 2**24 + b'"}', 1), Content_Encoding="gzip")
# The service's own answer to too many requests, with a shorter wait.
LIMITED = saying(429, error("rate_limited").render("6f1f1a2c-7f6e-4f0e-9f5b-2d1c7b0f8a35"), Retry_After="1")
# A gateway has its own form of errors and of `Retry-After`.
GATEWAY = saying(503, b'{"error":{"message":"upstream"}}', Retry_After="Wed, 21 Oct 2026 07:28:00 GMT")
# A page, such as a login page.
PAGE = saying(200, b"<html>login</html>\n")
MATCH = ("match", "200", "60", "35")


@dataclass
class Place:
    """A service, and the proxy between it and its Postgres."""

    url: str
    proxy: Proxy
    server: Server


@pytest.fixture(scope="module")
def place() -> Iterator[Place]:
    with ExitStack() as stack:
        directory = stack.enter_context(socket_directory())
        url = stack.enter_context(database(None, directory, create=True))
        proxy = stack.enter_context(proxied(directory / "socket"))
        yield Place(url, proxy, stack.enter_context(serving("uvloop", proxy.url, workers=1)))
        with connect(url) as connection:
            assert audit(connection).differences == ()


@pytest.fixture
def world(place: Place) -> Iterator[World]:
    with connect(place.url) as connection:
        world = World(place.url, connection, accounts.create_account(connection, "standard"))
        with world.running:
            yield world


@pytest.fixture(scope="module", params=CLIENTS)
def command(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    directory: Path = tmp_path_factory.mktemp(request.param)
    return CLIENTS[request.param](directory)


@dataclass
class Client:
    """A client of an account, possibly behind faults. It never prints its API key."""

    command: list[str]
    place: Place
    world: World

    def between(self, *faults: Fault, keeps: bool = False) -> AbstractContextManager[Between]:
        return between(self.place.server.address, faults, keeps=keeps)

    def run(self, url: str, *given: str, api_key: str | None = None, key: str = "", deadline: int = DEADLINE) -> Said:
        own = self.world.issued.api_key
        said = run(self.command, url, own if api_key is None else api_key, *given, key=key, deadline=deadline)
        assert own not in said.out + said.err
        return said

    @property
    def url(self) -> str:
        return f"http://{self.place.server.address}"


@pytest.fixture
def client(command: list[str], place: Place, world: World) -> Client:
    return Client(command, place, world)


def too_long(exchange: Exchange) -> None:
    """An endless answer; `given_up` counts its mebibytes."""
    exchange.wfile.write(b"HTTP/1.1 200 OK\r\n\r\n{")
    with suppress(OSError):
        while exchange.between.given_up < 64:
            exchange.wfile.write(b" " * 2**20)
            exchange.between.given_up += 1
    exchange.close_connection = True


def hinting_at_a_second(exchange: Exchange) -> None:
    """A `Retry-After` that the deadline allows."""
    answer = exchange.ask()
    exchange.answer(replace(answer, headers={**answer.headers, "Retry-After": "1"}))


def postgres_cut(odds: Odds, proxy: Proxy, exchange: Exchange) -> None:
    """The service loses its connection to Postgres and answers 503."""
    proxy.odds = odds
    answer = exchange.ask()
    proxy.odds = Odds()
    exchange.answer(answer)


# The first attempt's fault, the service's statuses up to the final one, whether that one is a replay, and the minimum
# seconds before the second attempt.
TROUBLES: dict[str, tuple[Fault | Odds, list[int], bool, float]] = {
    "cut before the commit": (cut_before, [200], False, 0),
    "cut after the commit": (cut_after, [200, 200], True, 0),
    "cut in the answer": (cut_within, [200, 200], True, 0),
    "answer too slow": (too_slow, [200, 200], True, 0),
    "body too slow": (slow_body, [200, 200], True, 0),
    "502 of a proxy": (saying(502, b"<html>sorry</html>\n"), [200], False, 0),
    "503 of a gateway": (GATEWAY, [200], False, 0),
    "429": (LIMITED, [200], False, 1),
    "503, not committed": (Odds(before=1), [503, 200], False, 1),
    "503, committed": (Odds(after=1), [503, 200], True, 1),
}


def check_one_charge(client: Client, said: Said, found: Between, *, replayed: bool = False) -> None:
    assert said.code == 0, said.err
    assert {attempt.key for attempt in found.attempts} == {said.key}
    assert len({(attempt.line, attempt.body) for attempt in found.attempts}) == 1
    stored = client.place.server.match(client.world.issued, said.key)
    assert (stored.headers["idempotency-replayed"], stored.json) == ("true", said.body)
    assert said.told == f"{'replayed' if replayed else 'charged'} {said.key}: 1999 of 2000 color_match remain"
    [charged] = client.world.connection.execute(
        "select (select sum(committed) from sepu.usage where account_id = %(account)s),"
        " (select count(*) from sepu.stored_result where account_id = %(account)s)",
        {"account": client.world.account_id},
    ).fetchall()
    assert charged == (1, 1)


@pytest.mark.parametrize("name", TROUBLES)
def test_a_spoiled_attempt_is_repeated_and_charged_once(client: Client, name: str) -> None:
    trouble, statuses, replayed, waits = TROUBLES[name]
    fault = partial(postgres_cut, trouble, client.place.proxy) if isinstance(trouble, Odds) else trouble
    with client.between(fault) as found:
        said = client.run(found.url, *MATCH)
        if trouble in (too_slow, slow_body):
            until(lambda: found.given_up == 1)
    # If the disk delays the ledger past its deadline, the service answers 503 once more, and may have charged.
    *before, last = found.statuses
    assert (before[: len(statuses) - 1], last) == (statuses[:-1], statuses[-1])
    late = before[len(statuses) - 1 :]
    assert set(late) <= {503}
    check_one_charge(client, said, found, replayed=replayed or (bool(late) and said.told.startswith("replayed")))
    first, second = found.attempts[:2]
    assert second.begun - first.begun >= waits


def test_a_connection_that_the_service_has_just_closed(client: Client) -> None:
    # Twice: Node may send its first attempt before it gets back the connection of the usage request.
    with client.between(cut_before, cut_before, keeps=True) as found:
        said = client.run(found.url, *MATCH)
    check_one_charge(client, said, found)
    *spoiled, last = [attempt.port in found.unmetered_ports for attempt in found.attempts]
    assert any(spoiled) is ("sepu.sh" not in client.command[-1])  # one curl per request keeps no connection
    assert not last


def test_the_original_request_is_still_running(client: Client) -> None:
    def the_original_fails(exchange: Exchange) -> None:
        client.world.without_end()
        exchange.answer(exchange.ask())
        client.world.running.close()

    with client.between(the_original_fails) as found:
        said = client.run(found.url, *MATCH, key=IDEMPOTENCY_KEY)
    check_one_charge(client, said, found)
    assert found.statuses == [409, 200]
    assert found.attempts[1].begun - found.attempts[0].begun >= 1


def test_each_intent_has_a_key_of_its_own(client: Client) -> None:
    first, other = (client.run(client.url, *MATCH) for _ in range(2))
    again = client.run(f"{client.url}/", *MATCH, key=first.key)
    assert first.key != other.key
    assert [said.told.partition(" ")[0] for said in (first, other, again)] == ["charged", "charged", "replayed"]
    assert again.out == first.out
    usage = json.loads(again.err.splitlines()[0])
    meters = usage["usage"] if isinstance(usage, dict) else usage
    assert [(meter["meter"], meter["committed"], meter["remaining"]) for meter in meters] == [
        ("color_match", 2, 1998),
        ("color_search", 0, 1000),
    ]


def test_a_search_and_fractions(client: Client) -> None:
    client.world.plan(search=PLANNED_UNITS)
    assert client.run(client.url, "search", "桃红 t&h=1").body["count"] == 0
    found = client.run(client.url, "search", "桃红")
    assert [color["name"]["zh"] for color in found.body["results"]] == ["桃红"]
    assert found.told == f"charged {found.key}: {PLANNED_UNITS - 2} of {PLANNED_UNITS} color_search remain"
    [result] = client.run(client.url, "match", "200", "60.25", "36.5").body["results"]
    assert result["input"] == {"r": 200, "g": 60.25, "b": 36.5}


@pytest.mark.parametrize(
    ("code", "status", "given", "at"),
    [
        ("invalid_rgb", 422, ("match", "200", "256", "35"), " at /colors/0/g"),
        ("invalid_q", 422, ("search", "a"), " at /q"),
        ("idempotency_key_invalid", 400, MATCH, ""),
        ("idempotency_conflict", 409, MATCH, ""),
        ("quota_exceeded", 429, MATCH, ""),
        ("rate_limited", 429, MATCH, ""),
    ],
)
def test_a_refusal_is_not_repeated(client: Client, code: str, status: int, given: tuple[str, ...], at: str) -> None:
    if code == "quota_exceeded":
        client.world.plan(match=0)
    if code == "rate_limited":  # for a minute, past the deadline; the request for usage counts too
        client.world.plan(minute=1)
    if code == "idempotency_conflict":
        client.world.completed("color_search")
    with client.between(*([hinting_at_a_second] if code == "quota_exceeded" else [])) as found:
        key = {"idempotency_key_invalid": "short", "idempotency_conflict": IDEMPOTENCY_KEY}.get(code, "")
        said = client.run(found.url, *given, key=key)
    assert said.code == 1
    assert re.search(rf"^{status} {code}{at} \(request id [0-9a-f-]{{36}}\)", said.err, re.MULTILINE), said.err
    assert said.key == found.attempts[0].key
    assert found.statuses == [status]


@pytest.mark.parametrize(("code", "status"), [("unauthorized", 401), ("account_unavailable", 403)])
def test_an_unusable_key(client: Client, code: str, status: int) -> None:
    world = client.world
    revoke_key(world.connection, world.issued.key_id)
    if status == 403:
        world.issued = issue_key(world.connection, world.account_id)
        accounts.set_status(world.connection, world.account_id, "suspended")
    with at_once():
        said = client.run(client.url, *MATCH, deadline=60)
    assert said.code == 1
    assert f"{status} {code} (request id " in said.err


@contextmanager
def at_once() -> Iterator[None]:
    """A retry would last until the deadline, a minute."""
    began = time.monotonic()
    yield
    assert time.monotonic() - began < 50


def test_at_the_deadline_the_key_is_printed_and_can_be_used_again(client: Client) -> None:
    with client.between(*[cut_after] * 100) as found:
        began = time.monotonic()
        said = client.run(found.url, *MATCH, deadline=3)
        assert time.monotonic() - began < 3 + TIMEOUT + 5
    assert said.code == 1
    assert "no answer (" in said.err
    assert len(found.attempts) > 2
    with client.between() as found:
        again = client.run(found.url, *MATCH, key=said.key)
    check_one_charge(client, again, found, replayed=True)


@pytest.mark.parametrize("given", [(), ("match", "200", "60"), ("search",), ("search", "tao", "hong"), ("-",), MATCH])
def test_wrong_arguments_print_the_usage(client: Client, given: tuple[str, ...]) -> None:
    said = client.run(client.url, *given, api_key="" if given == MATCH else None)
    assert (said.code, said.out) == (2, "")
    assert said.err.startswith("SEPU_URL=")
    assert said.err.count("\n") == 1


def test_an_invalid_address_is_reported_immediately(client: Client) -> None:
    for url in (f"file://{client.place.server.address}", client.world.issued.api_key):
        with at_once():
            assert client.run(url, *MATCH, deadline=60).code != 0


@pytest.mark.parametrize("key", ["order-8812\r\nX-Evil: 1", "order-8812\n"])
def test_an_idempotency_key_adds_no_header(client: Client, key: str) -> None:
    with client.between() as found, at_once():
        assert client.run(found.url, *MATCH, key=key, deadline=60).code != 0
    assert found.attempts == []


def test_an_api_key_with_a_line_break(client: Client) -> None:
    """A trailing line break of the key's file is ignored. Any other is refused, without printing the key."""
    key = client.world.issued.api_key
    for given, allowed in ((f"{key}\n", True), (f"{key}\nX-Evil: 1", False)):
        with at_once():
            said = client.run(client.url, *MATCH, api_key=given, deadline=60)
        assert (said.code == 0) is allowed, said.err


@pytest.mark.parametrize("fault", [too_long, BOMB, PAGE])
def test_an_answer_that_is_not_the_services_is_not_taken(client: Client, fault: Fault) -> None:
    with client.between(fault) as found:
        said = client.run(found.url, *MATCH)
    assert (said.code, said.out, said.key) == (1, "", found.attempts[0].key)
    assert len(found.attempts) == 1
    assert found.given_up < 32  # including the system's buffers


def test_after_an_unusable_retry_after_there_is_a_pause(client: Client) -> None:
    faults = [
        saying(503, b'{"error":"\\u001b[2J"}', Retry_After=value, X_Request_Id="\x9b2J", X_Error_Pointer="/\x9b2J")
        for value in ("-5", "9223372036854775807", "Fri, 31 Dec 99999999999 23:59:59 GMT")
    ]
    with client.between(*faults * 100) as found:
        said = client.run(found.url, *MATCH, deadline=6)
    assert said.code == 1
    assert said.key == found.attempts[0].key
    assert all(char.isprintable() for line in said.err.splitlines() for char in line)
    assert len(found.attempts) < 30  # without pauses there are hundreds


PRINTING = {
    "sepu.mjs": """
        const made = new Sepu("http://h", "sepu_secret");
        console.log(made, `${made}`, JSON.stringify(made));
    """,
    "sepu.go": """
        func main() {
            made := NewClient("http://h", "sepu_secret")
            fmt.Printf("%v %+v %#v %s %+v", made, made, made, made, *made)
            told, _ := json.Marshal(made)
            fmt.Printf("%s", told)
        }
    """,
    "sepu.php": """
        $made = new Sepu("http://h", "sepu_secret");
        print_r($made);
        var_dump($made);
        echo json_encode($made);
    """,
}


@pytest.mark.parametrize(
    ("file", "command", "packages"),
    [("sepu.mjs", ["node"], "nodejs"), ("sepu.go", ["go", "run"], "golang-go"), ("sepu.php", ["php"], "php-cli")],
)
def test_a_client_is_printed_without_its_api_key(file: str, command: list[str], packages: str, tmp_path: Path) -> None:
    code = (CODE / file).read_text("utf-8").partition("// An example")[0].replace('\t"os"\n', "")
    (tmp_path / file).write_text(code + PRINTING[file], "utf-8")
    found = [program(command[0], packages), *command[1:], str(tmp_path / file)]
    done = completed(found, env={**os.environ, "GO111MODULE": "off", "GOCACHE": str(tmp_path / "cache")})
    assert done.returncode == 0, done.stderr
    assert "http://h" in done.stdout
    assert "secret" not in done.stdout


def test_node_refuses_unknown_options(place: Place, world: World, tmp_path: Path) -> None:
    node, file = CLIENTS["node"](tmp_path)
    copy = Path(file).read_text("utf-8").partition("// An example")[0]
    wrong = f"""
        const sepu = new Sepu("http://{place.server.address}", "{world.issued.api_key}");
        for (const call of [
          () => sepu.match([[200, 60, 35]], {{ idempotencyKey: "order-8812" }}),
          () => sepu.search("tao hong", {{ limt: 1 }}),
          () => new Sepu("http://localhost", "", {{ timout: 1 }}),
        ]) try {{ call(); console.log("went through"); }} catch (error) {{ console.log(error.message); }}
    """
    (tmp_path / "copy.mjs").write_text(copy + wrong, "utf-8")
    said = completed([node, tmp_path / "copy.mjs"]).stdout
    assert said.splitlines() == [f"there is no option {name}" for name in ("idempotencyKey", "limt", "timout")]


def test_the_page_has_each_client() -> None:
    page = (CODE / "clients.md").read_text("utf-8")
    files = {path.name for path in CODE.iterdir() if path.suffix != ".md"}
    assert set(re.findall(r"^\[([\w.]+)\]\(\1\)$", page, re.MULTILINE)) == files
    assert set(re.findall(r": `[\w ]+ (\w+\.\w+) match 200 60 35`$", page, re.MULTILINE)) == files
    assert len(files) == len(CLIENTS)
