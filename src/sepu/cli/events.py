"""`sepu events`: lists quota events, and delivers them to other systems."""

import signal
import sys
import time
from collections.abc import Iterable
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import AbstractContextManager, nullcontext
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import click
from psycopg import Connection

from sepu import limits
from sepu.admin import events as ledger
from sepu.admin.events import STATES, EndpointAnswer, Event
from sepu.admin.webhook_payload import payload, trial
from sepu.cli.command import F, example, group, json_option, refuse_useless_options
from sepu.cli.decorators import database_options, prints_change, prints_fields, prints_rows
from sepu.cli.files import first_bytes
from sepu.cli.output import Fields, check_output, columns, echo_fields, echo_json, members, month, note
from sepu.cli.textfile import write_metrics
from sepu.cli.times import range_options
from sepu.database.opening import DatabaseUnavailableError, database_connection
from sepu.errors import SepuError
from sepu.extras import how_to_install

if TYPE_CHECKING:
    from sepu.server.webhooks import Send

# For a statement of the deliverer; then it looks for another host.
_STATEMENT_SECONDS = 1.5
# Between two counts of what is not delivered.
_COUNT_SECONDS = 60

_STEP_SECONDS = 0.2  # within which a stop signal is noticed

# The id is a property, not a field.
_COLUMNS = ("eventId", *columns(Event))


def _row(event: Event) -> Fields:
    return {"eventId": event.event_id, **members(event)}


def _in_table(row: Fields) -> Fields:
    return {
        "eventId": row["eventId"],
        "name": row["name"] or row["externalId"],
        "committed": row["committed"],
        "state": row["state"],
        "attempts": row["attempts"],
        "lastError": row["lastError"],
        "crossedAt": row["crossedAt"],
    }


def _endpoint_options(command: F) -> F:
    """Adds `--url` and `--secret-file`."""
    command = click.option(
        "--secret-file",
        "secrets",
        metavar="FILE",
        envvar="SEPU_EVENTS_SECRET_FILE",
        type=first_bytes,
        show_envvar=True,
        help="Sign with the secrets in this file, one per line.",
    )(command)
    return click.option("--url", envvar="SEPU_EVENTS_URL", show_envvar=True, help="Send webhooks to this endpoint.")(
        command
    )


@group()
def events() -> None:
    """Quota events: an account's usage crossed a threshold of a limit."""


@events.command("list", epilog=example("events list cus_8812 --month 2026-11"))
@click.argument("account_id", metavar="[ACCOUNT]", required=False)
@click.option("--month", "period", type=month, help="Only events of a UTC month such as 2026-11.")
@click.option("--state", type=click.Choice(STATES), help="Only events whose delivery is in this state.")
@range_options("events")
@prints_rows(_COLUMNS, _in_table)
def list_events(connection: Connection, **filters: Any) -> Iterable[Fields]:  # noqa: ANN401
    """List the events of an account, or of all, the oldest first."""
    return map(_row, ledger.list_events(connection, **filters))


@events.command("deliver", epilog=example("events deliver --url https://example.com/hooks --secret-file hooks.secret"))
@_endpoint_options
@click.option("--print", "prints", is_flag=True, help="Print each event as a line of JSON, instead.")
@click.option("--once", is_flag=True, help="End when nothing is due any more.")
@click.option(
    "--metrics-file",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write the backlog for Prometheus's node exporter, each minute.",
)
@database_options
def deliver(
    database_url: str | None,
    state_dir: Path,
    url: str | None,
    secrets: bytes | None,
    prints: bool,
    once: bool,
    metrics_file: Path | None,
) -> None:
    """Deliver the events that are due, each at least once, until told to stop.

    A delivery that fails is tried again with growing pauses, for about 56 hours; then the event is dead.
    Without --once it waits for a database that is down. Several of these commands may run at the same time.
    """
    if not prints and (url is None or secrets is None):
        raise click.UsageError("take --url and --secret-file, or --print")
    if prints:
        refuse_useless_options("--print", useless=("url", "secrets"))
        check_output()
    stopped: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _: stopped.append(number))  # finishes deliveries in flight
    sending: dict[Future[EndpointAnswer], Event] = {}  # kept until recorded, even while the database is down

    def deliver_due(connection: Connection) -> None:
        look_at = count_at = 0.0
        while sending or not stopped:
            if not stopped and len(sending) < limits.webhooks.CONCURRENT and time.monotonic() >= look_at:
                for event in ledger.claim_events(connection, limits.webhooks.CONCURRENT - len(sending)):
                    sending[send(event.event_id, payload(event))] = event
                look_at = time.monotonic() + limits.webhooks.LOOK_SECONDS
            ends = once and not sending
            if metrics_file is not None and (ends or time.monotonic() >= count_at):
                try:
                    _write_metrics(connection, metrics_file)
                except SepuError as error:  # a full disk must not keep events from being sent and recorded
                    if ends:
                        raise
                    note(str(error))
                count_at = time.monotonic() + _COUNT_SECONDS
            if ends:
                return
            if not sending:
                time.sleep(_STEP_SECONDS)
            for answer in wait(sending, _STEP_SECONDS, FIRST_COMPLETED).done:
                _record(connection, sending[answer], answer.result())
                del sending[answer]
                if len(sending) <= limits.webhooks.CONCURRENT // 2:  # a look costs the same, however many it finds
                    look_at = 0

    with nullcontext(_print) if prints else _sender(url or "", secrets or b"") as send:
        while not stopped:
            began = time.monotonic()
            try:
                with database_connection(database_url, state_dir, _STATEMENT_SECONDS) as connection:
                    deliver_due(connection)
                    return
            except DatabaseUnavailableError as error:
                if once:
                    raise
                note(f"{error}; again in {limits.webhooks.LOOK_SECONDS:g} s")
            while not stopped and time.monotonic() < began + limits.webhooks.LOOK_SECONDS:
                time.sleep(_STEP_SECONDS)


def _print(_event_id: str, body: object) -> Future[EndpointAnswer]:
    echo_json(body)
    printed: Future[EndpointAnswer] = Future()
    printed.set_result(EndpointAnswer())
    return printed


def _sender(url: str, secrets: bytes) -> "AbstractContextManager[Send]":
    """Opens a sender of webhooks."""
    try:
        from sepu.server.webhooks import Endpoint, read_secrets
    except ModuleNotFoundError as error:
        raise SepuError(f"{error.name} is not installed; run: {how_to_install('events')}") from error
    return Endpoint(url, read_secrets(secrets)).sending()


def _record(connection: Connection, event: Event, answer: EndpointAnswer) -> None:
    if answer.error is None:
        ledger.record_delivery(connection, event)
        return
    seconds = ledger.postpone_delivery(connection, event, answer.error, answer.retry_after, final=answer.final)
    then = "it is dead; see: sepu events list --state dead" if seconds is None else f"again in {seconds} s"
    note(f"{event.event_id}: attempt {event.attempts}: {answer.error}; {then}")


@events.command("try", epilog=example("events try --url https://example.com/hooks --secret-file hooks.secret"))
@_endpoint_options
@json_option
def try_endpoint(url: str | None, secrets: bytes | None, as_json: bool) -> None:
    """Send one signed test event, as real ones are sent, and show the endpoint's answer. Nothing is stored.

    Its type is endpoint.tried. Exit status: 0, the endpoint took it; 1, it did not.
    """
    if url is None or secrets is None:
        raise click.UsageError("take --url and --secret-file")
    with _sender(url, secrets) as send:
        began = time.monotonic()
        answer = send(f"try-{uuid4()}", trial()).result()
        took = round((time.monotonic() - began) * 1000)
    echo_fields({"status": answer.status, "milliseconds": took, "error": answer.error}, as_json)
    if answer.status is None:
        seconds = limits.webhooks.ANSWER_SECONDS
        note(f"check the host, the port, the certificate, and that it answers in {seconds:g} s; curl -v says more")
    if answer.error is not None:
        sys.exit(1)


@events.command("retry", epilog=example("events retry --state due --until 1h"))
@click.argument("event_ids", metavar="[EVENTID]...", nargs=-1)
@click.option("--state", type=click.Choice(STATES), help="All events whose delivery is in this state.")
@range_options("of these, the ones recorded")
@prints_change("Running it again delivers them once more")
def retry(
    connection: Connection,
    event_ids: tuple[str, ...],
    state: str | None,
    since: datetime | None,
    until: datetime | None,
) -> Fields:
    """Make events due now, even dead and delivered ones. The next delivery sends them."""
    if state is not None and not event_ids:
        return {"due": ledger.retry_all(connection, state, since, until)}
    if state is not None or not event_ids:
        raise click.UsageError("take ids of events, or --state")
    refuse_useless_options("ids of events", useless=("since", "until"))
    with connection.transaction():
        for event_id in event_ids:
            ledger.retry_delivery(connection, event_id)
    return {"due": len(event_ids)}


@events.command("status", epilog=example("events status --json"))
@prints_fields
def status(connection: Connection) -> Fields:
    """Show how many events are due or dead, and the age of the oldest due one."""
    return members(ledger.count_deliveries(connection))


def _write_metrics(connection: Connection, path: Path) -> None:
    backlog = ledger.count_deliveries(connection)
    write_metrics(
        path,
        {
            ("sepu_events_due", "Events that are not delivered yet."): backlog.due,
            ("sepu_events_dead", "Events whose delivery was given up."): backlog.dead,
            ("sepu_events_oldest_due_seconds", "Age of the oldest event that is due."): backlog.oldest_due_seconds,
            ("sepu_events_timestamp_seconds", "When the deliveries were last counted."): time.time(),
        },
    )
