"""The `sepu-client` command: calls the service from a shell."""

import argparse
import io
import json
import logging
import os
import re
import sys
from collections.abc import Iterator, Sequence
from itertools import islice

import msgspec

from sepu_client import (
    Client,
    Color,
    Error,
    IdempotencyConflictError,
    InvalidRequestError,
    MatchResponse,
    SearchResponse,
    UsageResponse,
    __version__,
    new_idempotency_key,
)

_NUMBER = re.compile(r"\d{1,3}(\.\d*)?,?", re.ASCII)
_BRACKETED = re.compile(r"\s*[(\[]([^()\[\]]*)[)\]]\s*")


def main() -> None:
    """Runs the command line.

    Exits with status 1 for an error of the service, 2 for wrong arguments, and 130 after Ctrl-C.
    """
    parser = _parser()
    arguments = parser.parse_args()
    is_metered = arguments.command != "usage"
    key = arguments.idempotency_key or new_idempotency_key() if is_metered else None
    to_repeat = f"; to repeat it, add --idempotency-key {key}" if key else ""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a terminal that has no Chinese
    logging.basicConfig(handlers=[_ToStderr()])
    logging.getLogger("sepu_client").setLevel(logging.INFO)  # says why a call is sent again, and when
    try:
        with Client(_setting("SEPU_URL"), _setting("SEPU_API_KEY")) as client:
            answer = _call(client, arguments, key)
    except (TypeError, ValueError) as error:
        parser.error(str(error))
    except Error as error:
        if isinstance(error, InvalidRequestError):
            hint = f"; sepu-client {arguments.command} --help says what it takes"
        else:
            hint = "" if isinstance(error, IdempotencyConflictError) else to_repeat
        parser.exit(1, f"{printable(f'sepu-client: {error}{hint}')}\n")
    except KeyboardInterrupt:
        parser.exit(130, f"sepu-client: interrupted{to_repeat}\n")
    sys.stdout.write("".join(f"{printable(line)}\n" for line in lines(answer, as_json=arguments.json)))


class _ToStderr(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        sys.stderr.write(f"sepu-client: {printable(record.getMessage())}\n")


def printable(line: str) -> str:
    """Returns a line with JSON escapes in place of control characters, which may command a terminal."""
    return "".join(char if char.isprintable() else json.dumps(char)[1:-1] for char in line)


class _Once(argparse.Action):
    """Stores an option's value, or `const` of a flag; refuses a repeated option, of which argparse keeps the last."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: object,
        option_string: str | None = None,
    ) -> None:
        """Stores the value; argparse calls it."""
        given: set[str] = vars(namespace).setdefault("given", set())
        if self.dest in given:
            parser.error(f"{option_string} is given twice; only one counts, so give it once")
        given.add(self.dest)
        setattr(namespace, self.dest, self.const if self.nargs == 0 else values)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="sepu-client",
        description="Match and search traditional Chinese colours. SEPU_URL is the service's address, and "
        "SEPU_API_KEY the API key.",
    )
    parser.add_argument("--version", action="version", version=f"%(prog)s {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    match = commands.add_parser("match", help="show the nearest colours; costs one unit for each colour")
    match.add_argument(
        "colors", nargs="+", metavar="COLOR", help="'#C83C23', c83c23, 200 60 35, or another colour of CSS; at most 5"
    )
    match.add_argument(
        "--top", action=_Once, type=int, default=1, metavar="N", help="matches for each colour, at most 3"
    )
    search = commands.add_parser("search", help="find colours by name; costs one unit")
    search.add_argument("text", nargs="+", metavar="TEXT", help="at least 2 characters of a name")
    search.add_argument("--limit", action=_Once, type=int, default=10, metavar="N", help="results, at most 10")
    usage = commands.add_parser("usage", help="show this month's usage; is free")
    for metered in (match, search):
        metered.add_argument(
            "--idempotency-key", action=_Once, metavar="KEY", help="repeats a call without another charge"
        )
    for command in (match, search, usage):
        command.add_argument("--json", action=_Once, nargs=0, const=True, default=False, help="print one JSON object")
    return parser


def _setting(name: str) -> str:
    value = os.environ.get(name)
    if not value:
        raise ValueError(f"the environment variable {name} is not set")
    return value


def _colors(arguments: Sequence[str]) -> Iterator[str]:
    """Yields each colour as `sepu match` reads arguments: three numbers in a row are one, also in brackets."""
    remaining = iter(arguments)
    for argument in remaining:
        if _NUMBER.fullmatch(argument):
            yield " ".join(more.rstrip(",") for more in (argument, *islice(remaining, 2)))
        else:
            bracketed = _BRACKETED.fullmatch(argument)
            yield bracketed[1] if bracketed else argument


def _call(
    client: Client, arguments: argparse.Namespace, key: str | None
) -> MatchResponse | SearchResponse | UsageResponse:
    match arguments.command:
        case "match":
            return client.match([*_colors(arguments.colors)], top=arguments.top, idempotency_key=key)
        case "search":
            q = " ".join(arguments.text)
            return client.search(q, limit=arguments.limit, idempotency_key=key)
        case _:
            return client.usage()


def lines(answer: MatchResponse | SearchResponse | UsageResponse, *, as_json: bool) -> Iterator[str]:
    """Yields the lines to print for an answer."""
    if as_json:
        yield msgspec.json.encode(answer).decode()
    elif isinstance(answer, UsageResponse):
        for meter in answer.usage:
            yield f"{meter.meter}  {meter.period}: {meter.committed} of {meter.limit} units, {meter.remaining} remain"
    elif isinstance(answer, MatchResponse):
        for result in answer.results:
            yield "rgb({:g}, {:g}, {:g})".format(*result.input)
            yield from (f"  {_color(match)}  ΔE {match.delta_e:.4f}" for match in result.matches)
    else:
        yield from map(_color, answer.results)
        if not answer.results:
            yield "nothing found; try pinyin (tao hong) or an English word (peach)"


def _color(color: Color) -> str:
    return f"{color.hex}  {color.name.zh}  {color.name.pinyin}  {color.name.en}"
