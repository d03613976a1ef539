"""The entry point of `sepu`: runs a command, and prints its error."""

import sys
from typing import NoReturn

import sepu


def main() -> None:
    """Runs the command line. Prints an expected error on standard error, and exits with status 1."""
    try:
        if sys.argv[1:] == ["--version"]:  # PERF: importing click takes longer than all else that this needs
            print(f"sepu, version {sepu.__version__}")  # noqa: T201
            status = None
        else:
            from sepu.cli.commands import commands

            status = commands.main(standalone_mode=False)
        if sys.stdout is not None:
            sys.stdout.flush()
        sys.exit(status)
    except Exception as error:
        _end(error)


def _end(error: Exception) -> NoReturn:
    """Prints an expected error, and exits; raises any other."""
    # PERF: `sepu --version` and completions need none of these.
    import io

    import click

    from sepu.cli.output import drop_output, echo, fail, safe_message, why_not_printed
    from sepu.errors import SepuError

    try:
        raise error
    except click.ClickException as error:
        shown = io.StringIO()
        error.show(shown)
        echo(*map(safe_message, shown.getvalue().removesuffix("\n").split("\n")), err=True)
        sys.exit(error.exit_code)
    except click.Abort:
        echo("Aborted!", err=True)
        sys.exit(1)
    except BrokenPipeError:  # such as `sepu list | head -1`
        drop_output()
        sys.exit(1)
    except SepuError as error:
        fail(error)
    except (OSError, UnicodeEncodeError) as error:
        fail(SepuError(why_not_printed(error)))
