"""The commands of `sepu`, and how they fail."""

import importlib
import os

import click

from sepu.cli.output import fail
from sepu.errors import SepuError

_MODULES = {
    "account": "sepu.cli.accounts",
    "audit": "sepu.cli.audit",
    "charges": "sepu.cli.charges",
    "console": "sepu.cli.console",
    "db": "sepu.cli.serve",
    "events": "sepu.cli.events",
    "export-usage": "sepu.cli.export_usage",
    "image": "sepu.cli.colors",
    "key": "sepu.cli.keys",
    "list": "sepu.cli.colors",
    "match": "sepu.cli.colors",
    "plan": "sepu.cli.plans",
    "prune": "sepu.cli.prune",
    "receipt": "sepu.cli.receipt",
    "search": "sepu.cli.colors",
    "serve": "sepu.cli.serve",
    "top": "sepu.cli.usage",
    "usage": "sepu.cli.usage",
}


class _Commands(click.Group):
    """Imports a command only when it is used, because offline commands do not need the server's packages."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        return list(_MODULES)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        if cmd_name not in _MODULES:
            return None
        try:
            module = importlib.import_module(_MODULES[cmd_name])
        except ModuleNotFoundError as error:
            return _needs_more(cmd_name, error)
        # `list` is a name of Python's, too.
        command: click.Command = getattr(module, "list_colors" if cmd_name == "list" else cmd_name.replace("-", "_"))
        return command


def _needs_more(name: str, error: ModuleNotFoundError) -> click.Command:
    needs = f"pip install 'sepu[{'receipt' if name == 'receipt' else 'server'}]'"
    reason = f"{error.name} is not installed; this command needs: {needs}"

    def refuse() -> None:
        raise SepuError(reason)

    anything = {"ignore_unknown_options": True, "allow_extra_args": True}
    return click.Command(name, anything, refuse, help=f"Needs: {needs}", add_help_option=False)


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(package_name="sepu")
def commands() -> None:
    """sepu (色谱): matches RGB values against 161 traditional Chinese colours, and finds those colours by name."""


def main() -> None:
    """Runs the command line. Prints an expected error on standard error, and exits with status 1."""
    try:
        commands.main()
    except SepuError as error:
        fail(error)
    except OSError as error:
        # Python would write the rest of standard output again at exit, and change the exit status.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        fail(SepuError(error.strerror or type(error).__name__))
    except UnicodeEncodeError as error:
        fail(SepuError(_cause(error)))


def _cause(error: UnicodeEncodeError) -> str:
    """Returns why a text cannot be written: Python takes bytes of arguments that are not UTF-8 for surrogates."""
    if "\ud800" <= error.object[error.start] <= "\udfff":
        return "an argument is not UTF-8"
    return f"the output's encoding, {error.encoding}, has no Chinese; set PYTHONIOENCODING=utf-8"
