"""Makes the commands, of click alone: nothing here imports what prints their results."""

from collections.abc import Callable, Container
from typing import Any, TypeVar

import click
from click.core import ParameterSource

F = TypeVar("F", bound=Callable[..., Any])

json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
json_lines_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON object on each line.")

_EVERYWHERE = ("database_url", "state_dir", "form", "as_json")


class Command(click.Command):
    """A command that refuses a repeated option, and options that exclude each other, such as --json and --csv.

    click itself would use the last of them and ignore the others.
    """

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parses the command line; click calls it."""
        if not ctx.resilient_parsing:
            _, _, order = self.make_parser(ctx).parse_args(list(args))
            first: dict[str | None, click.Parameter] = {}
            for option in order:
                if option.name not in first:
                    first[option.name] = option
                elif first[option.name] is not option:
                    ctx.fail(f"{option.opts[0]} does nothing with {first[option.name].opts[0]}; take one of them")
                elif not option.multiple:
                    ctx.fail(f"{option.opts[0]} is given twice; only one counts, so give it once")
        return super().parse_args(ctx, args)


class _Group(click.Group):
    command_class = Command


def command(
    name: str | None = None,
    kind: type[Command] = Command,
    **settings: Any,  # noqa: ANN401
) -> Callable[[Callable[..., Any]], click.Command]:
    """Makes a command of a function, as `click.command` does."""
    return click.command(name, kind, **settings)


def group() -> Callable[[Callable[..., Any]], click.Group]:
    """Makes a group of commands of a function, as `click.group` does."""
    return click.group(cls=_Group)


def is_given(name: str) -> bool:
    """Returns whether the command line itself sets a parameter."""
    return click.get_current_context().get_parameter_source(name) is ParameterSource.COMMANDLINE


def refuse_useless_options(cause: str, *, used: Container[str] = (), useless: Container[str] = ()) -> None:
    """Refuses options of the command line that `cause` makes useless: `useless`, or all that are not in `used`.

    Both hold names of parameters. `used` always includes those of the database and of the output's form.
    """
    for each in click.get_current_context().command.params:
        name = each.name or ""
        is_useless = name in useless if useless else name not in used and name not in _EVERYWHERE
        if is_useless and is_given(name):
            raise click.UsageError(f"{each.opts[0]} does nothing with {cause}; leave it out")


def example(command: str) -> str:
    """Returns the end of a command's help: how to call it."""
    return f"\b\nExample:\n  sepu {command}"


def form_options(command: F) -> F:
    """Adds `--json` and `--csv`."""
    command = click.option("--csv", "form", flag_value="csv", help="Print CSV.")(command)
    return click.option("--json", "form", flag_value="json", help="Print one JSON object on each line.")(command)


def env_option(names: str, text: str, prefix: str = "SEPU_", **settings: Any) -> Callable[[F], F]:  # noqa: ANN401
    """Adds an option that an environment variable can set too: `--host` or SEPU_HOST."""
    variable = prefix + names.partition("/")[0].removeprefix("--").replace("-", "_").upper()
    return click.option(names, envvar=variable, show_envvar=True, help=text, **settings)
