"""`sepu audit`."""

import sys
import time
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path

import click
import msgspec
import psycopg
from rich.console import Console

from sepu.admin.audit import Audit, record_audit
from sepu.admin.audit import audit as audited
from sepu.admin.keys import ENDING_DAYS, count_ending
from sepu.cli.command import command, example, json_option
from sepu.cli.decorators import database_options
from sepu.cli.output import echo, echo_json, echo_rows, fail, note, why_not_printed
from sepu.cli.textfile import write_metrics
from sepu.database.opening import DatabaseError, clear_errors, database_connection
from sepu.errors import SepuError

_DIFFERENT = 1
_UNCHECKED = 2  # as in diff and grep; click uses it for wrong arguments


@command(epilog=example("audit --json"))
@json_option
@click.option(
    "--metrics-file",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write the verdict for Prometheus's node exporter.",
)
@database_options
def audit(as_json: bool, metrics_file: Path | None, database_url: str | None, state_dir: Path) -> None:
    """Check that every charged unit has its stored result, and the reverse.

    For every account, period and meter, committed = pruned + the units of the stored results, and what was granted and
    credited is the sum of its grants and credits. Works during traffic.
    Exit status: 0, it adds up; 1, there are differences; 2, it could not be checked, or the metrics not written.
    """
    try:
        with (
            Console(stderr=True).status("Adding up every stored result ..."),
            database_connection(database_url, state_dir) as connection,
        ):
            found = audited(connection)
            _record(connection, found)
            ending = {f"{days}d": count_ending(connection, timedelta(days=days)) for days in ENDING_DAYS}
    except SepuError as error:
        fail(error, _UNCHECKED)
    status = _DIFFERENT if found.differences or found.outdated_nodes else 0
    try:
        if as_json:
            echo_json(found)
        else:
            _show(found)
    except OSError as error:
        fail(SepuError(why_not_printed(error)), status or _UNCHECKED)
    if metrics_file is not None:
        try:
            write_metrics(metrics_file, _gauges(found, ending))
        except SepuError as error:
            fail(error, status or _UNCHECKED)
    sys.exit(status)


def _record(connection: psycopg.Connection, found: Audit) -> None:
    """Stores the verdict, or says why it cannot: on a full disk, an operator still needs the verdict."""
    try:
        with clear_errors():
            record_audit(connection, found)
    except DatabaseError as error:
        note(f"the verdict cannot be stored, so the console does not show it: {error}")


def _gauges(found: Audit, ending: Mapping[str, tuple[int, int]]) -> dict[tuple[str, str], float | Mapping[str, float]]:
    keys, accounts = ({within: each[which] for within, each in ending.items()} for which in (0, 1))
    return {
        ("sepu_keys_ending", "Valid keys that end within this time, by themselves or with their account."): keys,
        ("sepu_accounts_ending", "Active accounts that end within this time."): accounts,
        ("sepu_audit_differences", "Counters that differ from their stored results."): len(found.differences),
        ("sepu_audit_outdated_nodes", "Nodes of a Citus cluster that are older than the others."): len(
            found.outdated_nodes
        ),
        ("sepu_audit_timestamp_seconds", "When the ledger was last checked."): time.time(),
    }


def _show(found: Audit) -> None:
    echo_rows((), map(msgspec.structs.asdict, found.differences), "table", nothing=None)
    for node in found.outdated_nodes:
        echo(f"{node} lacks earlier audits: it was restored to an older state, without the charges answered since")
    echo(
        f"{found.counters} counters, {found.results} stored results, {found.units} units: "
        + (f"{len(found.differences)} differences" if found.differences else "it adds up")
    )
