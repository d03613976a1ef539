"""Lists the commands of `sepu`."""

import importlib
from difflib import get_close_matches
from shlex import join
from typing import TYPE_CHECKING

import click

import sepu
from sepu.cli.outlines import restore
from sepu.errors import SepuError
from sepu.extras import how_to_install

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

_COLORS = "sepu.cli.colors"
# Each command's module, and how its help begins, by subject: `sepu --help` imports none of them.
# The first section needs none of the server's packages.
_SECTIONS = {
    "Offline": {
        "match": (_COLORS, "Show the nearest colours by CIEDE2000."),
        "search": (_COLORS, "Find colours by Chinese name, pinyin, English name or slug."),
        "list": (_COLORS, "List colours, or export them as CSS, Tailwind, GIMP, ASE or JSON."),
        "image": (_COLORS, "Name the colours of an image, with the share of each."),
        "receipt": ("sepu.cli.receipt", "Receive a new API key encrypted."),
    },
    "The service": {
        "serve": ("sepu.cli.serve", "Serve the HTTP interface in the foreground."),
        "db": ("sepu.cli.db", "Manage the database's schema."),
        "console": ("sepu.cli.console", "Serve read-only pages for operators in the foreground."),
        "events": ("sepu.cli.events", "Quota events: an account's usage crossed a threshold of a limit."),
        "audit": ("sepu.cli.audit", "Check that every charged unit has its stored result."),
        "prune": ("sepu.cli.prune", "Delete stored results after their retention period."),
    },
    "Customers": {
        "account": ("sepu.cli.accounts", "Customers' accounts."),
        "key": ("sepu.cli.keys", "API keys of accounts."),
        "plan": ("sepu.cli.plans", "Plans: the limits of accounts."),
        "grant": ("sepu.cli.grants_and_credits", "Grants: units beyond the plan's limit, until the month ends."),
        "credit": ("sepu.cli.grants_and_credits", "Credits: charged units that are not billed."),
        "usage": ("sepu.cli.usage", "Show the usage of an account, or of all together."),
        "charges": ("sepu.cli.charges", "Show what an account was charged for."),
        "top": ("sepu.cli.usage", "Show who is near or at a limit this month."),
        "history": ("sepu.cli.history", "Show who changed what."),
        "export-usage": ("sepu.cli.export_usage", "Print what every account used in a UTC month, for billing."),
    },
}
_MODULES = {name: module for commands in _SECTIONS.values() for name, (module, _) in commands.items()}


class _Commands(click.Group):
    """Imports a command only when it is used, because offline commands do not need the server's packages."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        return list(_MODULES)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _MODULES:
            return None
        # A shell completes words. The colour commands import little, and complete names of colours too.
        if ctx.resilient_parsing and _MODULES[cmd_name] != _COLORS:
            return restore(cmd_name)
        try:
            module = importlib.import_module(_MODULES[cmd_name])
        except ModuleNotFoundError as error:
            return _needs_more(cmd_name, error)
        # `list` is also a Python name.
        command: click.Command = getattr(module, "list_colors" if cmd_name == "list" else cmd_name.replace("-", "_"))
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Suggests a command for one that is misspelt, or for a colour."""
        if args[0] in _OPTIONS:
            option = _OPTIONS[args[0]]
            ctx.fail(f"No such command {args[0]!r}. Did you mean: sepu {' '.join((*args[1:], option))}")
        if near := [] if args[0] in _MODULES else get_close_matches(args[0], _MODULES):
            ctx.fail(f"No such command {args[0]!r}. Did you mean {' or '.join(map(repr, near))}?")
        if args[0] not in _MODULES and _is_color(args[0]):
            ctx.fail(f"No such command {args[0]!r}. Did you mean: sepu match {join(args)}")
        return super().resolve_command(ctx, args)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> "list[CompletionItem]":
        """Completes names of commands without importing them; click calls it."""
        from click.shell_completion import CompletionItem

        named = [
            CompletionItem(name, help=text)
            for commands in _SECTIONS.values()
            for name, (_, text) in commands.items()
            if name.startswith(incomplete)
        ]
        return [*named, *click.Command.shell_complete(self, ctx, incomplete)]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """Lists the commands in sections."""
        for title, listed in _SECTIONS.items():
            with formatter.section(title):
                formatter.write_dl([(name, text) for name, (_, text) in listed.items()])


# Words that people write for options.
_OPTIONS = {"help": "--help", "version": "--version"}


def _is_color(text: str) -> bool:
    from sepu.library.parsing import parse_color
    from sepu.library.release import load_release

    try:
        parse_color(text, load_release().named(text)[:1])
    except SepuError:
        return False
    return True


def _needs_more(name: str, error: ModuleNotFoundError) -> click.Command:
    needs = how_to_install("receipt" if name == "receipt" else "server")
    reason = f"{error.name} is not installed; run: {needs}"

    def refuse() -> None:
        raise SepuError(reason)

    anything = {"ignore_unknown_options": True, "allow_extra_args": True}
    return click.Command(name, anything, refuse, help=f"Needs: {needs}", add_help_option=False)


def _print_manual(context: click.Context, _parameter: click.Parameter, wanted: bool) -> None:
    if wanted:
        from sepu.cli.manual import manual

        click.echo(manual(context))
        context.exit()


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(sepu.__version__, prog_name="sepu")
@click.option(
    "--man",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_print_manual,
    help="Print the manual page of all commands: sepu --man | man -l -",
)
def commands() -> None:
    """sepu (色谱): matches RGB values against 161 traditional Chinese colours, and finds those colours by name."""
