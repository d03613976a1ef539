"""`sepu usage`."""

import click
from psycopg import Connection

from sepu.cli.database import with_connection
from sepu.cli.output import bar, echo_fields, echo_json, echo_rows, example, json_option, percent
from sepu.metering import accounts


@click.command(epilog=example("usage cus_8812"))
@click.argument("account_id", metavar="ACCOUNT")
@json_option
@with_connection
def usage(connection: Connection, account_id: str, as_json: bool) -> None:
    """Show an account's usage of the current month."""
    shown = accounts.show_usage(connection, account_id)
    holder = {
        "accountId": account_id,
        "externalId": shown.external_id,
        "name": shown.name,
        "planId": shown.plan_id,
        "status": shown.status,
    }
    rows = [meter.as_dict() for meter in shown.usage]
    if as_json:
        echo_json({**holder, "usage": rows})
        return
    echo_fields(holder, as_json=False)
    click.echo()
    plotted = [
        {**row, "used": f"{percent(each.committed, each.limit)} {bar(each.committed, each.limit)}".rstrip()}
        for row, each in zip(rows, shown.usage, strict=True)
    ]
    echo_rows((), plotted, "table")
