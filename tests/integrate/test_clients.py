"""The clients of docs/integrate against a real service with faults on both sides: one charge for each intent."""

import gzip
import json
import os
import re
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest
from tests.faults.proxy import Odds, Proxy, proxied, socket_directory
from tests.http.contract import IDEMPOTENCY_KEY, World, running_match
from tests.integrate.clients import CLIENTS, CODE, DEADLINE, TIMEOUT, Said, run
from tests.integrate.faulty import Between, Exchange, Fault, between
from tests.processes import completed, until
from tests.programs import program
from tests.serving import Response, Server, serving

from sepu.admin import accounts
from sepu.admin.audit import audit
from sepu.admin.keys import issue_key, revoke_key
from sepu.cli.database import connect, database
from sepu.http.replies import error

pytestmark = pytest.mark.slow

BOMB = gzip.compress(b'{"a":"' + b" " * 2**24 + b'"}', 1)
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
        yield world
        for session in world.held:
            session.close()


@pytest.fixture(scope="module", params=CLIENTS)
def command(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    directory: Path = tmp_path_factory.mktemp(request.param)
    return CLIENTS[request.param](directory)


def cut_before(exchange: Exchange) -> None:
    """The service never hears of the request."""
    exchange.cut()


def cut_after(exchange: Exchange) -> None:
    """The request was charged, and its answer is lost."""
    exchange.ask()
    exchange.cut()


def cut_within(exchange: Exchange) -> None:
    """The answer ends early."""
    exchange.cut()
    exchange.answer(exchange.ask(), most=50)


def too_slow(exchange: Exchange) -> None:
    """The request was charged, and its answer comes too late."""
    exchange.ask()
    exchange.until_given_up()


def slow_body(exchange: Exchange) -> None:
    """The head of the answer comes in time, its body too late."""
    exchange.answer(exchange.ask(), most=50)
    exchange.until_given_up()


def proxy_refuses(exchange: Exchange) -> None:
    """A proxy that knows nothing of the interface is between."""
    exchange.answer(Response(502, {"Content-Length": "19"}, b"<html>sorry</html>\n"))


def gateway_refuses(exchange: Exchange) -> None:
    """A gateway between has a form of errors and of `Retry-After` of its own."""
    body = b'{"error":{"message":"upstream"}}'
    date = "Wed, 21 Oct 2026 07:28:00 GMT"
    exchange.answer(Response(503, {"Content-Length": str(len(body)), "Retry-After": date}, body))


def portal_answers(exchange: Exchange) -> None:
    """A page with 200, such as one to log in."""
    exchange.answer(Response(200, {"Content-Length": "19"}, b"<html>login</html>\n"))


def too_long(exchange: Exchange) -> None:
    """An answer without an end; `given_up` counts its mebibytes."""
    exchange.wfile.write(b"HTTP/1.1 200 OK\r\n\r\n{")
    with suppress(OSError):
        while exchange.between.given_up < 64:
            exchange.wfile.write(b" " * 2**20)
            exchange.between.given_up += 1
    exchange.cut()


def compressed(exchange: Exchange) -> None:
    """An answer that expands to 16 MiB, though nobody accepted that."""
    exchange.answer(Response(200, {"Content-Length": str(len(BOMB)), "Content-Encoding": "gzip"}, BOMB))


def hostile_wait(value: str, exchange: Exchange) -> None:
    """An error of a gateway that would have the client wait for a time that is none."""
    body = b'{"error":"\\u001b[2J"}'
    named = {
        "Content-Length": str(len(body)),
        "Retry-After": value,
        "X-Request-Id": "\x9b2J",
        "X-Error-Pointer": "/\x9b2J",
    }
    exchange.answer(Response(503, named, body))


def limited(exchange: Exchange) -> None:
    """The service's own answer to too many requests, with a shorter time to wait."""
    body = error("rate_limited").render("6f1f1a2c-7f6e-4f0e-9f5b-2d1c7b0f8a35")
    exchange.answer(Response(429, {"Content-Length": str(len(body)), "Retry-After": "1"}, body))


def hints_at_a_second(exchange: Exchange) -> None:
    """A `Retry-After` that the deadline allows."""
    answer = exchange.ask()
    exchange.answer(Response(answer.status, {**answer.headers, "Retry-After": "1"}, answer.body))


def postgres_cut(odds: Odds, proxy: Proxy, exchange: Exchange) -> None:
    """The service loses its connection to Postgres and answers 503."""
    proxy.odds = odds
    answer = exchange.ask()
    proxy.odds = Odds()
    exchange.answer(answer)


@dataclass(frozen=True)
class Trouble:
    """What happens to the first attempt, and what the service answers to attempts, until the one that passes."""

    fault: Fault | Odds
    statuses: tuple[int, ...]
    replayed: bool
    waits: float = 0  # seconds before the second attempt, at least


TROUBLES = {
    "cut before the commit": Trouble(cut_before, (200,), False),
    "cut after the commit": Trouble(cut_after, (200, 200), True),
    "cut in the answer": Trouble(cut_within, (200, 200), True),
    "answer too slow": Trouble(too_slow, (200, 200), True),
    "body too slow": Trouble(slow_body, (200, 200), True),
    "502 of a proxy": Trouble(proxy_refuses, (200,), False),
    "503 of a gateway": Trouble(gateway_refuses, (200,), False),
    "429": Trouble(limited, (200,), False, 1),
    "503, not committed": Trouble(Odds(before=1), (503, 200), False, 1),
    "503, committed": Trouble(Odds(after=1), (503, 200), True, 1),
}


def asked_directly(place: Place, world: World, key: str) -> Response:
    """What the service stored for a key. It is free."""
    answer = place.server.match(world.issued, key)
    assert answer.headers.get("idempotency-replayed") == "true"
    return answer


def check_one_charge(place: Place, world: World, said: Said, found: Between, *, replayed: bool = False) -> None:
    assert said.code == 0, said.err
    assert {attempt.key for attempt in found.attempts} == {said.key}
    assert len({(attempt.line, attempt.body) for attempt in found.attempts}) == 1
    assert said.body == asked_directly(place, world, said.key).json
    done = "replayed" if replayed else "charged"
    assert said.told == f"{done} {said.key}: 1999 of 2000 color_match remain"
    [(committed, keys)] = world.connection.execute(
        "select (select sum(committed) from sepu.usage where account_id = %(account)s),"
        " (select count(*) from sepu.stored_result where account_id = %(account)s)",
        {"account": world.account_id},
    ).fetchall()
    assert (committed, keys) == (1, 1)


@pytest.mark.parametrize("name", TROUBLES)
def test_a_spoiled_attempt_is_repeated_and_charged_once(
    command: list[str], name: str, place: Place, world: World
) -> None:
    trouble = TROUBLES[name]
    is_odds = isinstance(trouble.fault, Odds)
    fault: Fault = partial(postgres_cut, trouble.fault, place.proxy) if is_odds else trouble.fault  # type: ignore[arg-type,assignment]
    with between(place.server.address, [fault]) as found:
        said = run(command, found.url, world.issued.api_key, *MATCH)
        if trouble.fault in (too_slow, slow_body):
            until(lambda: found.given_up == 1)
    check_one_charge(place, world, said, found, replayed=trouble.replayed)
    assert tuple(found.statuses) == trouble.statuses
    first, second = found.attempts
    assert second.begun - first.begun >= trouble.waits


def test_a_connection_that_the_service_has_just_closed(command: list[str], place: Place, world: World) -> None:
    # Twice: Node's first attempt may come before it takes back the connection of the request for usage.
    with between(place.server.address, [cut_before] * 2, keeps=True) as found:
        said = run(command, found.url, world.issued.api_key, *MATCH)
    check_one_charge(place, world, said, found)
    *spoiled, last = [attempt.port in found.unmetered_ports for attempt in found.attempts]
    assert any(spoiled) is ("sepu.sh" not in command[-1])  # a curl for each request keeps no connection
    assert not last


def test_the_original_request_is_still_running(command: list[str], place: Place, world: World) -> None:
    def the_original_fails(exchange: Exchange) -> None:
        running_match(world)
        exchange.answer(exchange.ask())
        world.held[0].close()

    with between(place.server.address, [the_original_fails]) as found:
        said = run(command, found.url, world.issued.api_key, *MATCH, key=IDEMPOTENCY_KEY)
    check_one_charge(place, world, said, found)
    assert found.statuses == [409, 200]
    assert found.attempts[1].begun - found.attempts[0].begun >= 1


def test_each_intent_has_a_key_of_its_own(command: list[str], place: Place, world: World) -> None:
    url = f"http://{place.server.address}"
    first, other = (run(command, url, world.issued.api_key, *MATCH) for _ in range(2))
    again = run(command, f"{url}/", world.issued.api_key, *MATCH, key=first.key)
    assert first.key != other.key
    assert [said.told.partition(" ")[0] for said in (first, other, again)] == ["charged", "charged", "replayed"]
    assert again.out == first.out
    usage = json.loads(again.err.splitlines()[0])
    match, search = usage["usage"] if isinstance(usage, dict) else usage
    assert (match["meter"], match["committed"], match["remaining"]) == ("color_match", 2, 1998)
    assert (search["meter"], search["committed"], search["remaining"]) == ("color_search", 0, 1000)


def test_a_search_and_fractions(command: list[str], place: Place, world: World) -> None:
    url = f"http://{place.server.address}"
    found = run(command, url, world.issued.api_key, "search", "桃红 t&h=1")
    assert (found.code, found.body["count"]) == (0, 0)
    found = run(command, url, world.issued.api_key, "search", "桃红")
    assert [color["name"]["zh"] for color in found.body["results"]] == ["桃红"]
    assert found.told == f"charged {found.key}: 998 of 1000 color_search remain"
    matched = run(command, url, world.issued.api_key, "match", "200", "60.25", "36.5")
    [result] = matched.body["results"]
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
def test_a_refusal_is_not_repeated(
    command: list[str], code: str, status: int, given: tuple[str, ...], at: str, place: Place, world: World
) -> None:
    if code == "quota_exceeded":
        world.plan(match=0)
    if code == "rate_limited":  # after a minute, and the deadline is sooner; the first request asks for usage
        world.plan(minute=1)
    if code == "idempotency_conflict":
        world.charge("color_match", b"-" * 32)
    hinted = [] if code != "quota_exceeded" else [hints_at_a_second]
    with between(place.server.address, hinted) as found:
        key = {"idempotency_key_invalid": "short", "idempotency_conflict": IDEMPOTENCY_KEY}.get(code)
        said = run(command, found.url, world.issued.api_key, *given, key=key)
    assert said.code == 1
    told = re.search(rf"^{status} {code}{at} \(request id [0-9a-f-]{{36}}\)", said.err, re.MULTILINE)
    assert told, said.err
    assert said.key == found.attempts[0].key
    assert found.statuses == [status]


@pytest.mark.parametrize(("code", "status"), [("unauthorized", 401), ("account_unavailable", 403)])
def test_a_key_that_is_of_no_use(command: list[str], code: str, status: int, place: Place, world: World) -> None:
    revoke_key(world.connection, world.issued.key_id)
    if status == 403:
        world.issued = issue_key(world.connection, world.account_id)
        accounts.set_status(world.connection, world.account_id, "suspended")
    began = time.monotonic()
    said = run(command, f"http://{place.server.address}", world.issued.api_key, *MATCH)
    assert said.code == 1
    assert f"{status} {code} (request id " in said.err
    assert time.monotonic() - began < DEADLINE


def test_at_the_deadline_the_key_is_told_and_goes_on(command: list[str], place: Place, world: World) -> None:
    with between(place.server.address, [cut_after] * 100) as found:
        began = time.monotonic()
        said = run(command, found.url, world.issued.api_key, *MATCH, deadline=3)
        assert time.monotonic() - began < 3 + TIMEOUT + 5
    assert said.code == 1
    assert "no answer (" in said.err
    assert len(found.attempts) > 2
    with between(place.server.address, []) as found:
        again = run(command, found.url, world.issued.api_key, *MATCH, key=said.key)
    check_one_charge(place, world, again, found, replayed=True)


@pytest.mark.parametrize("given", [(), ("match", "200", "60"), ("search",), ("search", "tao", "hong"), ("-",)])
def test_it_says_how_it_is_called(command: list[str], given: tuple[str, ...], place: Place) -> None:
    said = run(command, f"http://{place.server.address}", "key", *given)
    assert (said.code, said.out) == (2, "")
    assert said.err.startswith("SEPU_URL=")
    assert said.err.count("\n") == 1


def test_an_address_that_is_none_is_said_at_once(command: list[str], place: Place, world: World) -> None:
    began = time.monotonic()
    swapped = world.issued.api_key  # `run` sees that it is not printed
    for url in (f"file://{place.server.address}", swapped):
        said = run(command, url, world.issued.api_key, *MATCH, deadline=60)
        assert said.code != 0
    assert time.monotonic() - began < 30


@pytest.mark.parametrize("key", ["order-8812\r\nX-Evil: 1", "order-8812\n"])
def test_an_idempotency_key_adds_no_header(command: list[str], key: str, place: Place, world: World) -> None:
    with between(place.server.address, []) as found:
        began = time.monotonic()
        said = run(command, found.url, world.issued.api_key, *MATCH, key=key, deadline=60)
        assert time.monotonic() - began < 30
    assert said.code != 0
    assert found.attempts == []


def test_an_api_key_with_a_line_break(command: list[str], place: Place, world: World) -> None:
    """A file's last line break is no part of the key. Another one is refused, and the key not printed."""
    url, key = f"http://{place.server.address}", world.issued.api_key
    settings = {"PATH": os.environ["PATH"], "SEPU_URL": url, "SEPU_DEADLINE": "60"}
    began = time.monotonic()
    for given, allowed in ((f"{key}\n", True), (f"{key}\nX-Evil: 1", False)):
        done = completed([*command, *MATCH], env={**settings, "SEPU_API_KEY": given})
        assert (done.returncode == 0) is allowed, done.stderr
        assert key not in done.stdout + done.stderr
    assert time.monotonic() - began < 30


def test_a_page_is_no_answer(command: list[str], place: Place, world: World) -> None:
    with between(place.server.address, [portal_answers]) as found:
        said = run(command, found.url, world.issued.api_key, *MATCH)
    assert (said.code, said.out) == (1, "")
    assert said.key == found.attempts[0].key


def test_without_an_api_key_it_says_how_it_is_called(command: list[str]) -> None:
    done = completed([*command, *MATCH], env={"PATH": os.environ["PATH"], "SEPU_URL": "http://127.0.0.1:9"})
    assert done.returncode == 2
    assert done.stderr.startswith("SEPU_URL=")


@pytest.mark.parametrize("fault", [too_long, compressed])
def test_an_answer_that_is_not_the_services_is_not_taken(
    command: list[str], fault: Fault, place: Place, world: World
) -> None:
    with between(place.server.address, [fault]) as found:
        said = run(command, found.url, world.issued.api_key, *MATCH)
    assert (said.code, said.out, said.key) == (1, "", found.attempts[0].key)
    assert len(found.attempts) == 1
    assert found.given_up < 32  # what the system's buffers take, too


def test_a_wait_that_is_none_is_a_pause(command: list[str], place: Place, world: World) -> None:
    values = ["-5", "9223372036854775807", "Fri, 31 Dec 99999999999 23:59:59 GMT"] * 100
    with between(place.server.address, [partial(hostile_wait, value) for value in values]) as found:
        said = run(command, found.url, world.issued.api_key, *MATCH, deadline=6)
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


def test_node_refuses_options_that_there_are_not(place: Place, world: World, tmp_path: Path) -> None:
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
