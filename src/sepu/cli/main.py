"""The commands of `sepu`, and what they share in failing."""

import sys

import click
import psycopg

from sepu.cli import accounts, colors, serve
from sepu.library.release import ReleaseError
from sepu.metering.accounts import AccountError
from sepu.metering.migrate import MigrationError
from sepu.server.errors import StartError


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(package_name="sepu")
def commands() -> None:
    """sepu (色谱): matches RGB values against 161 traditional Chinese colours, and finds those colours by name."""


commands.add_command(serve.serve)
commands.add_command(serve.db)
commands.add_command(accounts.plan)
commands.add_command(accounts.account)
commands.add_command(accounts.key)
commands.add_command(accounts.usage)
commands.add_command(colors.match)
commands.add_command(colors.search)


def main() -> None:
    """Runs the command line; a foreseeable failure is one line on standard error, and exit status 1."""
    try:
        commands.main()
    except (AccountError, MigrationError, ReleaseError, StartError) as error:
        reason = str(error)
    except psycopg.errors.ProgrammingError as error:
        # Of a connection string that it cannot parse, libpq quotes what may be the password.
        reason = "the database refused a statement" if error.sqlstate else "SEPU_DATABASE_URL is no connection string"
    except psycopg.OperationalError as error:
        reason = f"the database cannot be reached: {' '.join(str(error).split())}"
    click.echo(f"sepu: {reason}", err=True)
    sys.exit(1)
