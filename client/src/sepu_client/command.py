"""The `sepu-client` command: calls the service from a shell."""

import argparse
import csv
import io
import json
import logging
import os
import re
import sys
from collections.abc import Iterator, Sequence
from typing import Any

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
from sepu_client.shell import DIGITS, ROWS, as_given, file_fault, in_threes, no_formula

_HEX = re.compile("#[0-9A-Fa-f]{6}")
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
        parser.error(next(filter(None, map(file_fault, vars(arguments).get("colors", ()))), str(error)))
    except Error as error:
        if isinstance(error, InvalidRequestError):
            hint = f"; sepu-client {arguments.command} --help says what it takes"
        else:
            hint = "" if isinstance(error, IdempotencyConflictError) else to_repeat
        parser.exit(1, f"{printable(f'sepu-client: {error}{hint}')}\n")
    except KeyboardInterrupt:
        parser.exit(130, f"sepu-client: interrupted{to_repeat}\n")
    if isinstance(answer, SearchResponse) and not answer.results and arguments.format is None:
        text = " ".join(arguments.text)
        advice = "Try a character (红), pinyin (tao hong), its initials (th) or an English word (peach)"
        sys.stderr.write(f"{printable(f'Nothing found by {text!r}. {advice}.')}\n")
    form = arguments.format or (None if os.environ.get("COLUMNS") or sys.stdout.isatty() else "tabs")
    given = [*_colors(arguments.colors)] if arguments.command == "match" else []
    sys.stdout.write("".join(f"{line}\n" for line in lines(answer, given, form)))


class _ToStderr(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        sys.stderr.write(f"sepu-client: {printable(record.getMessage())}\n")


def printable(line: str) -> str:
    """Returns a line with control characters, which may command a terminal, as JSON escapes."""
    return "".join(char if char.isprintable() else json.dumps(char)[1:-1] for char in line)


class _Once(argparse.Action):
    """Stores an option's value, or `const` for a flag. Refuses a repeated option; argparse would keep the last."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: object,
        option_string: str | None = None,
    ) -> None:
        """Stores the value; argparse calls it."""
        given: dict[str, str | None] = vars(namespace).setdefault("given", {})
        first = given.get(self.dest)
        if first == option_string:
            parser.error(f"{option_string} is given twice; only one counts, so give it once")
        if first is not None:
            parser.error(f"{first} does nothing with {option_string}; take one of them")
        given[self.dest] = option_string
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
        "--top", action=_Once, type=int, default=3, metavar="N", help="matches for each colour, at most 3; default: 3"
    )
    search = commands.add_parser("search", help="find colours by name; costs one unit")
    search.add_argument("text", nargs="+", metavar="TEXT", help="at least 2 characters of a name")
    search.add_argument(
        "--limit", action=_Once, type=int, default=10, metavar="N", help="results, at most 10; default: 10"
    )
    usage = commands.add_parser("usage", help="show this month's usage; is free")
    for metered in (match, search):
        metered.add_argument(
            "--idempotency-key", action=_Once, metavar="KEY", help="repeats a call without another charge"
        )
        metered.add_argument("--format", action=_Once, choices=ROWS, help="print a file for another program")
    for command in (match, search, usage):
        command.add_argument("--json", action=_Once, nargs=0, const="json", dest="format", help="print one JSON object")
    return parser


def _setting(name: str) -> str:
    value = os.environ.get(name)
    if not value:
        raise ValueError(f"the environment variable {name} is not set")
    return value


def _colors(arguments: Sequence[str]) -> Iterator[str]:
    """Yields each colour as `sepu match` reads arguments: three numbers in a row are one, also in brackets."""
    for argument in in_threes(arguments):
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


def lines(
    answer: MatchResponse | SearchResponse | UsageResponse, given: Sequence[str], form: str | None
) -> Iterator[str]:
    """Yields the lines to print for an answer: in a format, as rows with tabs, or (None) for a person.

    `given` has the colours of a match as they were written.
    """
    if isinstance(answer, UsageResponse):
        if form == "json":
            yield _json(answer)
            return
        for meter in answer.usage:
            yield printable(
                f"{meter.meter}  {meter.period}: {meter.committed} of {meter.limit} units, {meter.remaining} remain"
            )
    elif form is None:
        yield from map(printable, _for_a_person(answer, given))
    else:
        found = [*_found(answer, given)]
        about = {name: value for name, value in msgspec.to_builtins(answer).items() if name not in ("results", "count")}
        if form == "json":
            yield _json({**about, "colors": found})
        elif form == "jsonl":
            yield from (_json({**color, **(about if number == 0 else {})}) for number, color in enumerate(found))
        else:
            yield from _rows(found, form)


def _for_a_person(answer: MatchResponse | SearchResponse, given: Sequence[str]) -> Iterator[str]:
    if isinstance(answer, SearchResponse):
        yield from map(_line, answer.results)
        return
    for text, result in zip(given, answer.results, strict=False):
        yield f"{as_given(text, result.input)}  input"
        yield from (_line(match, f"ΔE {match.delta_e:.{DIGITS['deltaE']}f}") for match in result.matches)


def _line(color: Color, *measure: str) -> str:
    return "  ".join((color.hex, *measure, color.name.zh, color.name.pinyin, color.name.en, color.reliability))


def _found(answer: MatchResponse | SearchResponse, given: Sequence[str]) -> Iterator[dict[str, Any]]:
    """Yields each colour's members, as `sepu match --json` names them."""
    if isinstance(answer, SearchResponse):
        yield from map(_members, answer.results)
        return
    for text, result in zip(given, answer.results, strict=False):
        yield from ({"input": as_given(text, result.input), **_members(match)} for match in result.matches)


def _members(color: Color) -> dict[str, Any]:
    members = msgspec.to_builtins(color)
    rounded = {name: round(members[name], digits) for name, digits in DIGITS.items() if name in members}
    rgb = [*bytes.fromhex(color.hex[1:])] if _HEX.fullmatch(color.hex) else None
    return {**members, **rounded, "rgb": rgb}


def _rows(found: Sequence[dict[str, Any]], form: str) -> Iterator[str]:
    """Yields the columns of `sepu match` in CSV or with tabs, without those that the service does not send."""
    rows = []
    for color in found:
        rgb = dict(zip("rgb", color["rgb"] or ("", "", ""), strict=True))
        whole = {**color, **color["name"], **rgb}
        names = ("input", "hex", "deltaE", "zh", "pinyin", "en", "slug", "reliability", "r", "g", "b")
        rows.append({name: whole[name] for name in names if name in whole})
    if form == "tabs":
        yield from ("\t".join(printable(str(cell)) for cell in row.values()) for row in rows)
    elif rows:
        text = io.StringIO()
        writer = csv.writer(text, "excel" if form == "csv" else "excel-tab", lineterminator="\n")
        writer.writerow(rows[0])
        for row in rows:
            cells = map(no_formula, row.values())
            writer.writerow(printable(cell) if isinstance(cell, str) else cell for cell in cells)
        yield text.getvalue().removesuffix("\n")


def _json(document: object) -> str:
    return printable(msgspec.json.encode(document).decode())
