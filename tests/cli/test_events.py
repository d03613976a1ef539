"""`sepu events`: listed, delivered at least once to a real endpoint, tried again, given up and sent again."""

import hashlib
import hmac
import signal
import threading
import time
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import make_conninfo
from tests.cli.running import Run, failed, lines, printed, text
from tests.endpoint import Endpoint, Received, endpoint
from tests.faults.proxy import socket_directory
from tests.metering.conftest import Customer
from tests.postgres import Cluster
from tests.processes import completed, running, until
from tests.serving import SEPU

from sepu import limits
from sepu.admin import accounts
from sepu.admin.events import claim_events, list_events, postpone_delivery
from sepu.admin.plans import set_plan
from sepu.cli.database import connect
from sepu.database.migrate import migrate
from sepu.metering.key_format import credential, new_key_id

SECRETS = [f"whsec_{b64encode(bytes([number] * 32)).decode()}" for number in (1, 2)]
NOW = datetime.now(UTC)


@pytest.fixture
def hooks() -> Iterator[Endpoint]:
    with endpoint() as running_endpoint:
        yield running_endpoint


@pytest.fixture
def secret_file(tmp_path: Path) -> Path:
    file = tmp_path / "hooks.secret"
    file.write_text("\n".join(SECRETS) + "\n")
    return file


@pytest.fixture
def delivering(hooks: Endpoint, secret_file: Path) -> tuple[str, ...]:
    return ("events", "deliver", "--url", hooks.url, "--secret-file", str(secret_file))


@pytest.fixture
def deliver(run: Run, delivering: tuple[str, ...]) -> Callable[[], str]:
    """Delivers what is due to the endpoint, and gives what was said."""

    def once() -> str:
        done = run(*delivering, "--once")
        assert (done.returncode, done.stdout) == (0, "")
        return str(done.stderr)

    return once


@pytest.fixture
def deliverer(ledger_url: str, delivering: tuple[str, ...]) -> list[str | Path]:
    """The program that delivers until it is told to stop."""
    return [SEPU, *delivering, "--database-url", ledger_url]


def near_limit(connection: psycopg.Connection, units: int = 10, external_id: str | None = None) -> Customer:
    """A customer who has used so many of 10 units."""
    plan_id = "test-" + new_key_id("plan")
    set_plan(connection, plan_id, {"color_match": 10, "color_search": 10}, requests_per_minute=1000)
    issued = accounts.create_account(connection, plan_id, "Silk & Co.", external_id)
    found = credential(issued.api_key)
    assert found is not None
    customer = Customer(issued.account_id, plan_id, issued.key_id, found)
    assert customer.meter(connection, units=units, at=datetime.now(UTC)).outcome == "charged"
    return customer


def status(run: Run) -> Any:
    return printed(run("events", "status", "--json"))


def states(connection: psycopg.Connection) -> set[str | None]:
    return {event.state for event in list_events(connection)}


def due_now(connection: psycopg.Connection) -> None:
    """As if so much time had passed."""
    connection.execute("update sepu.event_delivery set due_at = now() where due_at is not null")


def test_each_is_sent_once_in_order_and_signed(
    connection: psycopg.Connection, deliver: Callable[[], str], hooks: Endpoint, run: Run
) -> None:
    customer = near_limit(connection, external_id="cus_8812")
    assert status(run)["due"] == 3
    assert deliver() == ""
    month = f"{NOW:%Y-%m}"
    ids = [f"{customer.account_id}:{month}:color_match:{threshold}:10" for threshold in (80, 95, 100)]
    assert hooks.ids == ids
    assert deliver() == ""
    assert hooks.ids == ids

    first = hooks.received[0]
    for secret in SECRETS:
        first.verify(secret)
    signed = ".".join((first.event_id, first.headers["webhook-timestamp"], first.body.decode()))
    expected = hmac.new(b64decode(SECRETS[0].removeprefix("whsec_")), signed.encode(), hashlib.sha256).digest()
    assert first.headers["webhook-signature"].split()[0] == f"v1,{b64encode(expected).decode()}"
    assert first.headers["content-type"] == "application/json"
    told = first.json
    assert told["type"] == "quota.threshold_crossed"
    assert told["timestamp"] == next(iter(list_events(connection))).crossed_at.strftime("%Y-%m-%dT%H:%M:%SZ")
    assert told["data"] == {
        "eventId": ids[0],
        "accountId": customer.account_id,
        "externalId": "cus_8812",
        "period": month,
        "meter": "color_match",
        "threshold": 80,
        "limit": 10,
        "committed": 10,
    }
    assert states(connection) == {"delivered"}
    assert status(run) == {"due": 0, "dead": 0, "oldestDueSeconds": 0}


def test_what_fails_is_tried_again_and_those_behind_it_wait(
    connection: psycopg.Connection, deliver: Callable[[], str], hooks: Endpoint, run: Run
) -> None:
    customer, other = near_limit(connection), near_limit(connection, 8)
    hooks.reply = lambda got: (204, {}) if other.account_id in got.event_id else (503, {"retry-after": "120"})
    said = deliver()
    assert said.startswith(f"sepu: {customer.account_id}:")
    assert "attempt 1: HTTP 503; again in 120 s" in said
    assert len(hooks.received) == 2, "the other account's event does not wait"
    first, second, *_ = list_events(connection, account_id=customer.account_id)
    assert (first.state, first.attempts, first.last_error) == ("due", 1, "HTTP 503")
    assert first.due_at is not None
    assert 110 < (first.due_at - datetime.now(UTC)).total_seconds() < 121
    assert (second.attempts, second.last_error) == (0, None)
    assert deliver() == "", "nothing is due"
    assert (status(run)["due"], status(run)["dead"]) == (3, 0)

    hooks.reply = lambda _: (200, {})
    due_now(connection)
    assert deliver() == ""
    sent = [one.json["data"]["threshold"] for one in hooks.received if customer.account_id in one.event_id]
    assert sent == [80, 80, 95, 100]


def test_after_some_attempts_it_is_dead_until_somebody_wants_it_again(
    connection: psycopg.Connection, deliver: Callable[[], str], hooks: Endpoint, run: Run
) -> None:
    near_limit(connection, 8)
    hooks.reply = lambda _: (410, {})
    assert "HTTP 410; it is dead" in deliver()
    run("events", "retry", "--all-dead")
    hooks.reply = lambda _: (500, {})
    connection.execute("update sepu.event_delivery set attempts = %s", (limits.DELIVERY_ATTEMPTS - 1,))
    assert f"attempt {limits.DELIVERY_ATTEMPTS}: HTTP 500; it is dead" in deliver()
    (dead,) = lines(run("events", "dead", "--json"))
    assert (dead["state"], dead["lastError"], dead["dueAt"]) == ("dead", "HTTP 500", None)
    assert "HTTP 500" in run("events", "dead").stdout
    assert status(run)["dead"] == 1
    assert deliver() == ""

    hooks.reply = lambda _: (204, {})
    assert printed(run("events", "retry", "--all-dead", "--json")) == {"due": 1}
    assert deliver() == ""
    assert printed(run("events", "retry", dead["eventId"], "--json")) == {"due": 1}
    assert deliver() == ""
    assert hooks.ids == [dead["eventId"]] * 4
    failed(run("events", "retry", "nobody"), "is not the id of an event")
    failed(run("events", "retry", dead["eventId"].replace(":80:", ":81:")), "there is no event")


def test_the_times_between_attempts_grow(connection: psycopg.Connection) -> None:
    near_limit(connection, 8)
    waits = []
    for _ in range(limits.DELIVERY_ATTEMPTS):
        due_now(connection)
        (event,) = claim_events(connection)
        assert claim_events(connection) == []
        waits.append(postpone_delivery(connection, event, "HTTP 500"))
    assert waits[-1] is None
    expected = [5, 20, 80, 320, 1280, 5120, 20480, *[43200] * 4]
    assert len(waits) == len(expected) + 1
    for wait, backoff in zip(waits[:-1], expected, strict=True):
        assert wait is not None
        assert 0.79 * backoff <= wait <= 1.21 * backoff
    assert len({wait and wait / backoff for wait, backoff in zip(waits[-5:-1], expected[-4:], strict=True)}) > 1
    (dead,) = list_events(connection, state="dead")
    assert dead.attempts == limits.DELIVERY_ATTEMPTS


def test_a_late_answer_of_one_who_lost_the_claim_changes_nothing(connection: psycopg.Connection) -> None:
    near_limit(connection, 8)
    (slow,) = claim_events(connection)
    due_now(connection)
    (quick,) = claim_events(connection)
    postpone_delivery(connection, slow, "HTTP 500", final=True)
    (event,) = list_events(connection)
    assert (event.state, event.due_at, event.attempts) == ("due", quick.due_at, 2)


@pytest.mark.slow
def test_several_deliver_and_none_sends_what_another_does(
    connection: psycopg.Connection, hooks: Endpoint, deliverer: list[str | Path]
) -> None:
    customers = [near_limit(connection) for _ in range(20)]

    def slowly(_: Received) -> tuple[int, dict[str, str]]:
        time.sleep(0.02)
        return 204, {}

    hooks.reply = slowly
    with running(deliverer) as one, running(deliverer) as other:
        until(lambda: len(hooks.received) >= 60, seconds=60)
        time.sleep(0.5)
        for process in (one, other):
            process.send_signal(signal.SIGTERM)
            assert process.wait(30) == 0
    assert len(hooks.ids) == len(set(hooks.ids)) == 60
    for customer in customers:
        told = [one.json["data"]["threshold"] for one in hooks.received if customer.account_id in one.event_id]
        assert told == [80, 95, 100]
    assert states(connection) == {"delivered"}


def test_what_was_being_sent_by_one_that_was_killed_is_sent_again(
    connection: psycopg.Connection, hooks: Endpoint, deliverer: list[str | Path], deliver: Callable[[], str]
) -> None:
    near_limit(connection, 8)
    let_go = threading.Event()

    def hang(_: Received) -> tuple[int, dict[str, str]]:
        let_go.wait(30)
        return 204, {}

    hooks.reply = hang
    with running(deliverer) as process:
        until(lambda: hooks.received)
        process.kill()
        process.wait(30)
    let_go.set()
    assert deliver() == "", "it is claimed for a while"
    (event,) = list_events(connection)
    assert event.due_at is not None
    assert 0 < (event.due_at - datetime.now(UTC)).total_seconds() <= limits.CLAIM_SECONDS
    due_now(connection)
    assert deliver() == ""
    assert len(hooks.ids) == 2
    assert len(set(hooks.ids)) == 1


@pytest.mark.slow
def test_an_answer_is_recorded_while_others_hang(
    connection: psycopg.Connection, hooks: Endpoint, deliverer: list[str | Path]
) -> None:
    hanging = [near_limit(connection, 8) for _ in range(limits.WEBHOOKS // 2)]
    others = [near_limit(connection) for _ in range(limits.WEBHOOKS)]
    let_go = threading.Event()

    def reply(got: Received) -> tuple[int, dict[str, str]]:
        if any(customer.account_id in got.event_id for customer in hanging):
            let_go.wait(60)
        return 204, {}

    hooks.reply = reply
    metrics = ("--metrics-file", "/dev/null/nowhere")  # which cannot be written
    with running([*deliverer, *metrics]):
        until(lambda: len(list(list_events(connection, state="delivered"))) == 3 * len(others), seconds=10)
        let_go.set()
    assert states(connection) == {"delivered"}, "what is being sent at a stop is sent"
    assert len(hooks.ids) == len(set(hooks.ids))


@pytest.mark.slow
def test_it_waits_for_a_database_that_is_away(hooks: Endpoint, delivering: tuple[str, ...], tmp_path: Path) -> None:
    log = tmp_path / "log"
    answered = threading.Event()

    def reply(_: Received) -> tuple[int, dict[str, str]]:
        answered.wait(60)
        return 204, {}

    hooks.reply = reply
    with socket_directory() as directory:
        cluster = Cluster(directory)
        cluster.initialise()
        with cluster.running() as url, connect(url) as connection:
            migrate(connection)
        command = [SEPU, *delivering, "--database-url", cluster.url]
        failed(completed([*command, "--once"]), "the database cannot be reached")
        with log.open("a") as stderr, running(command, stderr=stderr) as process:
            until(lambda: f"again in {limits.EVENTS_SECONDS:g} s" in log.read_text())
            with cluster.running() as url, connect(url) as connection:
                near_limit(connection, 8)
                until(lambda: hooks.received)
                stderr.truncate(0)
            answered.set()  # and the database is away
            until(lambda: f"again in {limits.EVENTS_SECONDS:g} s" in log.read_text())
            with cluster.running() as url, connect(url) as connection:
                until(lambda: states(connection) == {"delivered"})
                process.send_signal(signal.SIGTERM)
                assert process.wait(30) == 0
    assert len(hooks.ids) == 1, "what is known is recorded later, and not sent again"
    assert "Traceback" not in log.read_text()


def test_events_are_printed_instead(connection: psycopg.Connection, run: Run) -> None:
    near_limit(connection)
    told = lines(run("events", "deliver", "--print", "--once"))
    assert [each["data"]["threshold"] for each in told] == [80, 95, 100]
    assert text(run("events", "deliver", "--print", "--once")) == ""


def test_secrets_are_in_no_message(connection: psycopg.Connection, run: Run, tmp_path: Path) -> None:
    near_limit(connection, 8)
    bad, good = tmp_path / "bad.secret", tmp_path / "good.secret"
    bad.write_text("whsec_c2VjcmV0")
    good.write_text(SECRETS[0])
    url = "http://user:c2VjcmV0@127.0.0.1:9/c2VjcmV0"
    said = run("events", "deliver", "--once", "--url", url, "--secret-file", str(good))
    assert said.returncode == 0
    assert "attempt 1: not reached: ConnectError; again in " in said.stderr
    wrong_secret = run("events", "deliver", "--once", "--url", url, "--secret-file", str(bad))
    failed(wrong_secret, "secret 1 is not whsec_ and 24 to 64 bytes in base64")
    wrong_url = run("events", "deliver", "--once", "--url", "c2VjcmV0", "--secret-file", str(good))
    failed(wrong_url, "the address of the endpoint is not like https://")
    (event,) = list_events(connection)
    for told in (said.stderr, wrong_secret.stderr, wrong_url.stderr, str(event)):
        assert "c2VjcmV0" not in told
        assert SECRETS[0].removeprefix("whsec_") not in told


def test_figures_for_prometheus(
    connection: psycopg.Connection, run: Run, delivering: tuple[str, ...], tmp_path: Path
) -> None:
    near_limit(connection, 8)
    connection.execute("update sepu.quota_event set crossed_at = now() - interval '1 hour'")
    assert status(run)["oldestDueSeconds"] >= 3600
    file = tmp_path / "sepu_events.prom"
    run(*delivering, "--url", "http://127.0.0.1:9/", "--once", "--metrics-file", str(file))
    written = file.read_text()
    assert "sepu_events_due 1.0" in written
    assert "sepu_events_dead 0.0" in written
    assert "sepu_events_oldest_due_seconds 36" in written
    assert "sepu_events_timestamp_seconds 1" in written


def test_a_role_that_can_deliver_and_nothing_else(
    connection: psycopg.Connection, ledger_url: str, run: Run, hooks: Endpoint, delivering: tuple[str, ...]
) -> None:
    role = "deliverer_" + new_key_id("role").replace("-", "_")
    connection.execute(f"create role {role} login".encode())
    try:
        assert printed(run("db", "grant", role, "--events", "--json")) == {"role": role}
        near_limit(connection)
        url = make_conninfo(ledger_url, user=role)
        assert text(run(*delivering, "--once", SEPU_DATABASE_URL=url)) == ""
        assert len(hooks.ids) == 3
        assert len(lines(run("events", "list", "--json", SEPU_DATABASE_URL=url))) == 3
        assert printed(run("events", "retry", hooks.ids[0], "--json", SEPU_DATABASE_URL=url)) == {"due": 1}
        with connect(url) as session:
            for forbidden in (
                "select from sepu.api_key",
                "select from sepu.stored_result",
                "select status from sepu.account",
                "delete from sepu.quota_event",
                "update sepu.usage set committed = 0",
            ):
                with pytest.raises(psycopg.errors.InsufficientPrivilege):
                    session.execute(forbidden.encode())
    finally:
        connection.execute(f"drop owned by {role}".encode())
        connection.execute(f"drop role {role}".encode())


def test_a_prune_forgets_old_deliveries_and_keeps_the_events(connection: psycopg.Connection, run: Run) -> None:
    near_limit(connection)
    connection.execute("update sepu.quota_event set crossed_at = now() - interval '91 days' where threshold < 100")
    assert printed(run("prune", "--json"))["deliveries"] == 2
    assert [event.state for event in list_events(connection)] == [None, None, "due"]
    head, *listed = text(run("events", "list")).splitlines()
    assert head.split() == ["crossedAt", "name", "meter", "threshold", "limit", "state"]
    assert [line.split()[-1] for line in listed] == ["-", "-", "due"]
