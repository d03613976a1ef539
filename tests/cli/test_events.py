"""`sepu events`: listed, delivered at least once to a real endpoint, retried, given up and sent again."""

import hashlib
import hmac
import json
import signal
import threading
import time
from base64 import b64decode, b64encode
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from secrets import token_hex
from typing import Any

import psutil
import psycopg
import pytest
from psycopg.conninfo import make_conninfo
from tests.cli.running import Run, assert_failed, lines, printed, text
from tests.endpoint import Endpoint, Received, Reply, endpoint
from tests.harness.postgres import Cluster
from tests.harness.processes import completed, running, send, until
from tests.harness.proxy import socket_directory
from tests.harness.serving import SEPU, free_port
from tests.keys import holder_of
from tests.metering.conftest import Customer

from sepu import limits
from sepu.admin import accounts
from sepu.admin.events import claim_events, list_events, postpone_delivery
from sepu.admin.plans import set_plan
from sepu.database.migrate import migrate
from sepu.database.opening import connect

SECRETS = [f"whsec_{b64encode(bytes([number] * 32)).decode()}" for number in (1, 2)]
NOW = datetime.now(UTC)
OTHERS = "select pid from pg_stat_activity where application_name = 'sepu' and pid <> pg_backend_pid()"


@dataclass(frozen=True)
class Events:
    """A database, an endpoint, and the deliverer between them."""

    connection: psycopg.Connection
    run: Run
    hooks: Endpoint
    delivering: tuple[str, ...]
    """The command that delivers until stopped."""

    def customer(self, units: int = 10, external_id: str | None = None) -> Customer:
        """A customer who has used `units` of 10."""
        plan_id = f"test-{token_hex(4)}"
        set_plan(self.connection, plan_id, {"color_match": 10, "color_search": 10}, requests_per_minute=1000)
        issued = accounts.create_account(self.connection, plan_id, "Silk & Co.", external_id)
        customer = Customer(issued.account_id, plan_id, issued.key_id, holder_of(issued.api_key))
        assert customer.meter(self.connection, units=units, at=datetime.now(UTC)).outcome == "charged"
        return customer

    def deliver(self) -> str:
        """Delivers what is due, and returns the log."""
        done = self.run(*self.delivering, "--once")
        assert (done.returncode, done.stdout) == (0, "")
        return str(done.stderr)

    def status(self) -> Any:
        return printed(self.run("events", "status", "--json"))

    def all_delivered(self) -> bool:
        return {(event.state, event.last_error) for event in list_events(self.connection)} == {("delivered", None)}

    def sent(self, customer: Customer) -> list[int]:
        """The thresholds that the endpoint received."""
        received = (one.json["data"] for one in self.hooks.received)
        return [told["threshold"] for told in received if told["accountId"] == customer.account_id]

    def make_due(self) -> None:
        """Makes every waiting delivery due."""
        self.connection.execute("update sepu.event_delivery set due_at = now() where due_at is not null")

    def hang(self, *customers: Customer) -> threading.Event:
        """Makes the endpoint hang for these customers (by default all) until the returned event is set."""
        let_go = threading.Event()

        def reply(got: Received) -> Reply:
            if not customers or got.json["data"]["accountId"] in {customer.account_id for customer in customers}:
                let_go.wait(60)
            return 204, {}

        self.hooks.reply = reply
        return let_go


@pytest.fixture
def secret_file(tmp_path: Path) -> str:
    file = tmp_path / "hooks.secret"
    file.write_text("\n".join(SECRETS) + "\n")
    return str(file)


@pytest.fixture
def events(connection: psycopg.Connection, run: Run, secret_file: str) -> Iterator[Events]:
    with endpoint() as hooks:
        yield Events(connection, run, hooks, ("events", "deliver", "--url", hooks.url, "--secret-file", secret_file))


@pytest.fixture
def program(ledger_url: str, events: Events) -> list[str | Path]:
    return [SEPU, *events.delivering, "--database-url", ledger_url]


def test_each_is_sent_once_in_order_and_signed(events: Events) -> None:
    customer = events.customer(external_id="cus_8812")
    assert events.status()["due"] == 3
    assert events.deliver() == ""
    month = f"{NOW:%Y-%m}"
    ids = [f"{customer.account_id}:{month}:color_match:{threshold}:10" for threshold in (80, 95, 100)]
    assert events.hooks.ids == ids
    assert events.deliver() == ""
    assert events.hooks.ids == ids

    first = events.hooks.received[0]
    for secret in SECRETS:
        first.verify(secret)
    signed = ".".join((first.event_id, first.headers["webhook-timestamp"], first.body.decode()))
    expected = hmac.new(b64decode(SECRETS[0].removeprefix("whsec_")), signed.encode(), hashlib.sha256).digest()
    assert first.headers["webhook-signature"].split()[0] == f"v1,{b64encode(expected).decode()}"
    assert first.headers["content-type"] == "application/json"
    told = first.json
    assert told["type"] == "quota.threshold_crossed"
    crossed_at = next(iter(list_events(events.connection))).crossed_at.astimezone(UTC)
    assert told["timestamp"] == crossed_at.strftime("%Y-%m-%dT%H:%M:%SZ")
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
    assert events.all_delivered()


def test_what_fails_is_tried_again_and_those_behind_it_wait(events: Events) -> None:
    customer, other = events.customer(), events.customer(8)
    events.hooks.reply = lambda got: (204, {}) if other.account_id in got.event_id else (503, {"retry-after": "120"})
    said = events.deliver()
    assert said.startswith(f"sepu: {customer.account_id}:")
    assert "attempt 1: HTTP 503; again in 120 s" in said
    assert len(events.hooks.received) == 2, "the other account's event does not wait"
    first, second, *_ = list_events(events.connection, account_id=customer.account_id)
    assert (first.state, first.attempts, first.last_error) == ("due", 1, "HTTP 503")
    assert first.due_at is not None
    assert 110 < (first.due_at - datetime.now(UTC)).total_seconds() < 121
    assert (second.attempts, second.last_error) == (0, None)
    assert events.deliver() == "", "nothing is due"
    assert (events.status()["due"], events.status()["dead"]) == (3, 0)

    set_plan(events.connection, customer.plan_id, {"color_match": 20, "color_search": 10}, requests_per_minute=1000)
    assert customer.meter(events.connection, "key-0002", units=6, at=datetime.now(UTC)).outcome == "charged"
    events.hooks.reply = lambda _: (200, {})
    events.make_due()
    assert events.deliver() == ""
    assert events.sent(customer) == [80, 80, 95, 100, 80], "in the order of the use"
    assert events.all_delivered()


def test_after_the_last_attempt_it_is_dead_until_retried(events: Events) -> None:
    events.customer(8)
    events.hooks.reply = lambda _: (410, {})
    assert "HTTP 410; it is dead" in events.deliver()
    events.run("events", "retry", "--state", "dead")
    events.hooks.reply = lambda _: (500, {})
    events.connection.execute("update sepu.event_delivery set attempts = %s", (limits.webhooks.ATTEMPTS - 1,))
    assert f"attempt {limits.webhooks.ATTEMPTS}: HTTP 500; it is dead" in events.deliver()
    (dead,) = lines(events.run("events", "list", "--state", "dead", "--json"))
    assert (dead["state"], dead["lastError"], dead["dueAt"]) == ("dead", "HTTP 500", None)
    assert "HTTP 500" in events.run("events", "list", "--state", "dead").stdout
    events.connection.execute("update sepu.quota_event set crossed_at = now() - interval '1 hour'")
    assert events.status() == {"due": 0, "dead": 1, "oldestDueSeconds": 0}
    assert events.deliver() == ""

    events.hooks.reply = lambda _: (204, {})
    assert printed(events.run("events", "retry", "--state", "dead", "--json")) == {"due": 1}
    (retried,) = lines(events.run("events", "list", "--json"))
    assert (retried["state"], retried["attempts"], retried["lastError"]) == ("due", 0, None)
    assert events.deliver() == ""
    assert printed(events.run("events", "retry", dead["eventId"], "--json")) == {"due": 1}
    assert [event.state for event in list_events(events.connection)] == ["due"], "though it was delivered"
    assert events.deliver() == ""
    assert events.hooks.ids == [dead["eventId"]] * 4
    assert events.status() == {"due": 0, "dead": 0, "oldestDueSeconds": 0}
    assert_failed(events.run("events", "retry", "nobody"), "is not the id of an event")
    for other in (":81:10", ":80:2147483647"):
        assert_failed(events.run("events", "retry", dead["eventId"].replace(":80:10", other)), "there is no event")


def test_events_due_later_are_retried_now_by_age(events: Events) -> None:
    old, young = events.customer(8), events.customer(8)
    events.hooks.reply = lambda _: (503, {"Retry-After": "120"})
    events.deliver()
    events.connection.execute(
        "update sepu.quota_event set crossed_at = crossed_at - interval '2 hours' where account_id = %s",
        (old.account_id,),
    )
    events.hooks.reply = lambda _: (204, {})
    events.hooks.received.clear()
    for choice in (("--until", "1h"), ("--until", "1h", "--since", "3h")):
        retried = ("events", "retry", "--state", "due", *choice, "--json")
        assert printed(events.run(*retried)) == {"due": 1}
    events.deliver()
    assert (events.sent(old), events.sent(young)) == ([80], [])
    assert printed(events.run("events", "retry", "--state", "due", "--since", "1h", "--json")) == {"due": 1}
    events.deliver()
    assert (events.sent(old), events.sent(young)) == ([80], [80])
    listed = lines(events.run("events", "list", "--until", "1h", "--json"))
    assert [event["accountId"] for event in listed] == [old.account_id]
    for wrong in ("", "--since 1h", f"{listed[0]['eventId']} --state due", f"{listed[0]['eventId']} --since 1h"):
        assert_failed(events.run("events", "retry", *wrong.split()), status=2)


def test_a_plan_keeps_its_thresholds_until_they_are_set_or_cleared(run: Run) -> None:
    new = ("--search-limit", "10", "--requests-per-minute", "9", "--thresholds", "50")
    for options, thresholds in ((new, "50"), ((), "50"), (("--thresholds", ""), "")):
        text(run("plan", "set", "quiet", "--match-limit", "10", *options))
        assert printed(run("plan", "show", "quiet", "--json"))["thresholds"] == thresholds


def test_the_times_between_attempts_grow(events: Events) -> None:
    events.customer(8)
    for asked in (86_400, 10**9):  # an endpoint may ask for a longer wait, up to a bound
        events.make_due()
        (event,) = claim_events(events.connection)
        assert postpone_delivery(events.connection, event, "HTTP 503", retry_after=asked) == 86_400
    events.connection.execute("update sepu.event_delivery set attempts = 0")
    shares = set()
    for backoff in (5, 20, 80, 320, 1280, 5120, 20480, *[43200] * 4):
        events.make_due()
        (event,) = claim_events(events.connection)
        assert claim_events(events.connection) == []
        wait = postpone_delivery(events.connection, event, "HTTP 500", retry_after=1)  # does not shorten it
        assert wait is not None
        assert 0.79 * backoff <= wait <= 1.21 * backoff
        shares.add(wait / backoff)
    assert len(shares) > 1
    events.make_due()
    (last,) = claim_events(events.connection)
    assert postpone_delivery(events.connection, last, "HTTP 500") is None
    (dead,) = list_events(events.connection, state="dead")
    assert dead.attempts == limits.webhooks.ATTEMPTS


def test_a_late_answer_after_a_lost_claim_changes_nothing(events: Events) -> None:
    events.customer(8)
    (slow,) = claim_events(events.connection)
    events.make_due()
    (quick,) = claim_events(events.connection)
    postpone_delivery(events.connection, slow, "HTTP 500", final=True)
    (event,) = list_events(events.connection)
    assert (event.state, event.due_at, event.attempts) == ("due", quick.due_at, 2)


def test_one_of_two_deliverers_claims_a_due_event(events: Events, ledger_url: str) -> None:
    first, second = events.customer(8), events.customer(8)
    waits = "select from pg_locks where pid = %s and not granted"
    with connect(ledger_url) as other, ThreadPoolExecutor() as threads:
        with events.connection.transaction():
            assert [event.account_id for event in claim_events(events.connection, 1)] == [first.account_id]
            late = threads.submit(claim_events, other, 1)
            until(lambda: events.connection.execute(waits, [other.info.backend_pid]).fetchone() is not None)
        assert [event.account_id for event in late.result(30)] == [second.account_id]


def test_an_event_of_a_killed_deliverer_is_sent_again(events: Events, program: list[str | Path]) -> None:
    events.customer(8)
    let_go = events.hang()
    with running(program) as process:
        until(lambda: events.hooks.received)
        process.kill()
        process.wait(30)
    let_go.set()
    assert events.deliver() == "", "it is claimed for a while"
    (event,) = list_events(events.connection)
    assert event.due_at is not None
    assert 0 < (event.due_at - datetime.now(UTC)).total_seconds() <= limits.webhooks.CLAIM_SECONDS
    events.make_due()
    assert events.deliver() == ""
    assert len(events.hooks.ids) == 2
    assert len(set(events.hooks.ids)) == 1


def test_what_is_being_sent_at_a_stop_is_recorded(events: Events, program: list[str | Path]) -> None:
    events.customer(8)
    let_go = events.hang()
    with running(program) as process:
        until(lambda: events.hooks.received)
        process.terminate()
        time.sleep(1)  # it has received the signal, and goes on
        let_go.set()
        assert process.wait(30) == 0
    assert events.all_delivered()


def test_an_answer_is_recorded_though_the_session_was_lost(events: Events, program: list[str | Path]) -> None:
    events.customer(8)
    let_go = events.hang()
    with running(program):
        until(lambda: events.hooks.received)
        own = f"({OTHERS} and datname = current_database()) own"
        events.connection.execute(f"select pg_terminate_backend(pid) from {own}".encode())
        let_go.set()
        until(events.all_delivered)
    assert len(events.hooks.ids) == 1


@pytest.mark.slow
def test_an_answer_is_recorded_while_others_hang(events: Events, program: list[str | Path]) -> None:
    hanging = [events.customer(8) for _ in range(limits.webhooks.CONCURRENT // 2)]
    others = [events.customer() for _ in range(limits.webhooks.CONCURRENT)]
    let_go = events.hang(*hanging)
    metrics = ("--metrics-file", "/dev/null/nowhere")  # not writable
    with running([*program, *metrics]) as process:
        until(lambda: len(list(list_events(events.connection, state="delivered"))) == 3 * len(others), seconds=10)
        process.terminate()
        let_go.set()
    assert events.all_delivered()
    assert len(events.hooks.ids) == len(set(events.hooks.ids))


@pytest.mark.slow
def test_it_waits_for_a_database_that_is_away(events: Events, tmp_path: Path) -> None:
    log = tmp_path / "log"
    answered = events.hang()
    with socket_directory() as directory:
        cluster = Cluster(directory)
        cluster.initialise()
        with cluster.running() as url, connect(url) as connection:
            migrate(connection)
        command = [str(SEPU), *events.delivering, "--database-url", cluster.url]
        assert_failed(completed([*command, "--once"]), "the database cannot be reached")
        with log.open("a") as stderr, running(command, stderr=stderr) as process:
            until(lambda: f"again in {limits.webhooks.LOOK_SECONDS:g} s" in log.read_text())
            with cluster.running() as url, connect(url) as connection:
                replace(events, connection=connection).customer(8)
                until(lambda: events.hooks.received)
                stderr.truncate(0)
                backends = [psutil.Process(pid) for (pid,) in connection.execute(OTHERS).fetchall()]
                send(signal.SIGSTOP, backends)  # the database is silent
                until(lambda: "again in " in log.read_text())
                stderr.truncate(0)
                send(signal.SIGCONT, backends)
            answered.set()  # and the database is down
            until(lambda: f"again in {limits.webhooks.LOOK_SECONDS:g} s" in log.read_text())
            with cluster.running() as url, connect(url) as connection:
                until(replace(events, connection=connection).all_delivered)
                process.send_signal(signal.SIGTERM)
                assert process.wait(30) == 0
    assert len(events.hooks.ids) == 1, "what is known is recorded later, and not sent again"
    assert "Traceback" not in log.read_text()


def test_events_are_printed_instead(events: Events) -> None:
    events.customer()
    told = lines(events.run("events", "deliver", "--print", "--once"))
    assert [each["data"]["threshold"] for each in told] == [80, 95, 100]
    assert text(events.run("events", "deliver", "--print", "--once")) == ""


def test_an_endpoint_is_tried_and_nothing_stored(events: Events, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sepu.limits.webhooks.ANSWER_SECONDS", 0.5)
    trying = ("events", "try", *events.delivering[2:], "--json")

    def tried(least: int = 0, **database: str) -> tuple[int, int | None, str | None]:
        done = events.run(*trying, **database)
        shown = json.loads(done.stdout)
        assert least <= shown.pop("milliseconds") < 5000
        return done.returncode, shown["status"], shown["error"]

    began = datetime.now(UTC).replace(microsecond=0)
    assert tried(SEPU_DATABASE_URL="host=nowhere.invalid") == (0, 204, None)
    (got,) = events.hooks.received
    assert began <= datetime.fromisoformat(got.json["timestamp"]) <= datetime.now(UTC)
    assert (got.json["type"], got.json["data"]) == ("endpoint.tried", {})
    for secret in SECRETS:
        got.verify(secret)
    events.hooks.reply = lambda _: (302, {"location": events.hooks.url})
    assert tried() == (1, 302, "HTTP 302")
    assert len(events.hooks.received) == 2, "it is not followed"
    let_go = events.hang()
    assert tried(400) == (1, None, "no answer in time")
    let_go.set()
    silent = events.run("events", "try", "--url", f"http://127.0.0.1:{free_port()}", *events.delivering[4:])
    assert "check the host, the port, the certificate" in silent.stderr
    assert_failed(events.run("events", "try", "--url", events.hooks.url), "--secret-file", status=2)
    assert list(list_events(events.connection)) == []


def test_secrets_are_in_no_message(events: Events, tmp_path: Path) -> None:
    events.customer(8)
    bad, good = tmp_path / "bad.secret", tmp_path / "good.secret"
    bad.write_text("whsec_c2VjcmV0")
    good.write_text(SECRETS[0])
    url = "http://user:c2VjcmV0@127.0.0.1:9/c2VjcmV0"
    deliver = ("events", "deliver", "--once", "--url")
    said = events.run(*deliver, url, "--secret-file", str(good))
    assert said.returncode == 0
    assert "attempt 1: not reached: ConnectError; again in " in said.stderr
    wrong_secret = events.run(*deliver, url, "--secret-file", str(bad))
    assert_failed(wrong_secret, "secret 1 is not whsec_ and 24 to 64 bytes in base64")
    wrong_url = events.run(*deliver, "c2VjcmV0", "--secret-file", str(good))
    assert_failed(wrong_url, "the address of the endpoint is not like https://")
    (event,) = list_events(events.connection)
    for told in (said.stderr, wrong_secret.stderr, wrong_url.stderr, str(event)):
        assert "c2VjcmV0" not in told
        assert SECRETS[0].removeprefix("whsec_") not in told


def test_figures_for_prometheus(events: Events, tmp_path: Path) -> None:
    events.customer(8)
    events.connection.execute("update sepu.quota_event set crossed_at = now() - interval '1 hour'")
    assert events.status()["oldestDueSeconds"] >= 3600
    file = tmp_path / "sepu_events.prom"
    unreachable = ["http://127.0.0.1:9/" if word == events.hooks.url else word for word in events.delivering]
    events.run(*unreachable, "--once", "--metrics-file", str(file))
    for figure in ("due 1.0", "dead 0.0", "oldest_due_seconds 36", "timestamp_seconds 1"):
        assert f"sepu_events_{figure}" in file.read_text()
    assert_failed(events.run(*unreachable, "--once", "--metrics-file", f"{file}/nowhere"), "cannot write")


def test_a_role_that_can_deliver_and_nothing_else(events: Events, ledger_url: str) -> None:
    role = f"deliverer_{token_hex(4)}"
    events.connection.execute(f"create role {role} login".encode())
    url = make_conninfo(ledger_url, user=role)
    try:
        assert_failed(events.run("serve", SEPU_DATABASE_URL=url), "permission denied")
        granted = printed(events.run("db", "grant", role, "--for", "events", "--json"))
        assert granted == {"role": role, "purpose": "events"}
        refused = events.run("account", "create", SEPU_DATABASE_URL=url)
        assert_failed(refused, "permission denied", "; docs/accounts.md#roles-for-people lists the commands")
        events.customer()
        with connect(url) as session, pytest.raises(psycopg.errors.InsufficientPrivilege):
            session.execute("select status from sepu.account")
        assert text(events.run(*events.delivering, "--once", SEPU_DATABASE_URL=url)) == ""
        assert len(events.hooks.ids) == len(lines(events.run("events", "list", "--json", SEPU_DATABASE_URL=url))) == 3
    finally:
        events.connection.execute(f"drop owned by {role}".encode())
        events.connection.execute(f"drop role {role}".encode())


def test_a_prune_forgets_old_deliveries_and_keeps_the_events(events: Events) -> None:
    events.customer()
    long_ago = "update sepu.quota_event set crossed_at = now() - interval '91 days' where threshold < 100"
    events.connection.execute(long_ago)
    assert printed(events.run("prune", "--older-than-days", "92", "--json"))["deliveries"] == 0
    assert printed(events.run("prune", "--json"))["deliveries"] == 2
    assert [event.state for event in list_events(events.connection)] == [None, None, "due"]
    head, *listed = text(events.run("events", "list")).splitlines()
    assert head.split() == ["eventId", "name", "committed", "state", "attempts", "lastError", "crossedAt"]
    assert [line.split()[-3:-1] for line in listed] == [["-", "-"], ["-", "-"], ["0", "-"]]
    assert printed(events.run("events", "retry", listed[0].split()[0], "--json")) == {"due": 1}
