"""Greets the user of an embedded database: shows the demo account's key once, and later how to issue another key."""

import logging
import os
import shlex
import shutil
import sys
from pathlib import Path

import click

from sepu.admin import accounts
from sepu.admin.plans import set_plan
from sepu.cli.curls import curls
from sepu.cli.output import check_output, drop_output
from sepu.database.opening import DatabaseError, clear_errors, connect

# The plan of the demo account, which the first start sets.
DEMO_PLAN = "standard"
DEMO_LIMITS = {"color_match": 2000, "color_search": 1000}
DEMO_REQUESTS_PER_MINUTE = 120

_DEMO = """\
This database is new and has a demo account, {}. Its key is shown only this once.
To try it, paste the first line into another terminal, then any other line:
"""
_LATER = "A key is shown only once. This command issues another one for account {}:\n"
_MEANWHILE = "Another start of this service is creating the demo account, and shows its key.\n"
# Beginnings of the lines that `sepu serve` prints next to its log; commands to paste are indented.
GREETING = (
    b"\n",
    b"  ",
    b"sepu: ",
    *(line.partition("{")[0].encode() for line in f"{_DEMO}{_LATER}{_MEANWHILE}".splitlines()),
)


def greet(url: str, address: str, state_dir: Path) -> None:
    """Creates a demo account if there is no account, but only if its key could be shown.

    Raises:
        DatabaseError: the database refuses or is gone, possibly after the key was shown.
    """
    making = shown = False
    try:
        with clear_errors(), connect(url) as connection, connection.transaction():
            alone = accounts.lock_first_account(connection)
            account_id = accounts.oldest_account(connection)
            if account_id is not None:
                _show(_LATER.format(account_id), _command(state_dir, "key", "issue", account_id))
            elif not alone:
                _show(_MEANWHILE)
            else:
                set_plan(connection, DEMO_PLAN, DEMO_LIMITS, requests_per_minute=DEMO_REQUESTS_PER_MINUTE)
                issued = accounts.create_account(connection, DEMO_PLAN)
                making = True
                _show(_DEMO.format(issued.account_id), f"export SEPU_API_KEY={issued.api_key}", *curls(address))
                shown = True
    except OSError as error:
        drop_output()
        if making:
            logging.getLogger(__name__).warning(
                "the key of the demo account could not be shown (%s), so the account was not created; "
                "the next start tries again, or create one: %s",
                error.strerror or type(error).__name__,
                _command(state_dir, "account", "create"),
            )
    except DatabaseError as error:
        if shown:
            raise DatabaseError(f"{error}; the key above may be invalid, so start again") from error
        raise


def _show(text: str, *lines: str) -> None:
    """Prints the text and the lines to paste, coloured on a terminal without NO_COLOR; or raises OSError."""
    check_output()
    text = "\n".join([text, *(f"  {click.style(line, fg='cyan')}\n" for line in lines)])
    encoding = sys.stdout.encoding  # a path may have characters that it lacks
    text = text.encode(encoding, "backslashreplace").decode(encoding)
    click.echo(text, color=False if os.environ.get("NO_COLOR") else None)


def _command(state_dir: Path, *arguments: str) -> str:
    """Returns the command that runs sepu on this database from another terminal in any directory."""
    program = Path(sys.argv[0])
    found = shutil.which(program.name)
    known = found is not None and Path(found).absolute() == program.absolute()
    name = program.name if known else str(program.absolute())
    return shlex.join([name, *arguments, "--state-dir", str(state_dir.absolute())])
