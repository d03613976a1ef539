"""What `sepu serve` tells the user of an embedded database: a demo account's key once, later the way to another."""

import errno
import logging
import os
import shlex
import shutil
import sys
from pathlib import Path

import click

from sepu.cli.database import DatabaseError, clear_errors, connect
from sepu.http.examples import curls
from sepu.metering import accounts

_DEMO = """\
This database is new, so here is a demo account, {}. Its key is shown this once.
To try it, paste the first line into another terminal, then any of the others:
"""
_LATER = "A key is shown only once. This makes another one for account {}:\n"
_MEANWHILE = "Another start of this service is making the demo account, and shows its key.\n"


def greet(url: str, address: str, state_dir: Path) -> None:
    """Makes a demo account if there is none at all, but not unless its key could be shown.

    Raises:
        DatabaseError: the database refuses, or is gone; maybe after the key was shown.
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
                issued = accounts.create_account(connection, "standard")
                making = True
                _show(_DEMO.format(issued.account_id), f"KEY={issued.api_key}", *curls(address))
                shown = True
    except OSError as error:
        # What is left in the buffer would be tried again at the end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        if making:
            logging.getLogger(__name__).warning(
                "the key of a demo account could not be shown (%s), so there is no such account; "
                "the next start tries again, or make one: %s",
                error.strerror or type(error).__name__,
                _command(state_dir, "account", "create"),
            )
    except DatabaseError as error:
        if shown:
            raise DatabaseError(f"{error}; the key above may be of no use, so start again") from error
        raise


def _show(text: str, *lines: str) -> None:
    """Prints it and the lines to paste, these in colour on a terminal unless NO_COLOR is set; or raises OSError."""
    if sys.stdout is None:  # it was closed before Python started
        raise OSError(errno.EBADF, os.strerror(errno.EBADF))
    text = "\n".join([text, *(f"  {click.style(line, fg='cyan')}\n" for line in lines)])
    encoding = sys.stdout.encoding  # a path may have what it cannot say
    text = text.encode(encoding, "backslashreplace").decode(encoding)
    click.echo(text, color=False if os.environ.get("NO_COLOR") else None)


def _command(state_dir: Path, *arguments: str) -> str:
    """How to run sepu on this database from another terminal, wherever that is."""
    program = Path(sys.argv[0])
    found = shutil.which(program.name)
    known = found is not None and Path(found).absolute() == program.absolute()
    name = program.name if known else str(program.absolute())
    return shlex.join([name, *arguments, "--state-dir", str(state_dir.absolute())])
