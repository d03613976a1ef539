"""Reads the times that options take."""

import re
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from typing import Any, Literal, TypeVar

import click
from psycopg import Connection

from sepu.admin.usage import read_now
from sepu.cli.output import instant

F = TypeVar("F", bound=Callable[..., Any])

# A length of time begins or ends now.
Time = datetime | timedelta

_LAST_YEAR = 9998  # in some time zones Python has no later one
_DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", re.ASCII)
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}


def duration(value: str) -> timedelta:
    """Parses a length of time up to a year, such as 7d, 12h, 30m or 0s."""
    length = _length(value)
    if length is None:
        raise click.BadParameter(f"{value!r} is not like 7d, 12h, 30m or 0s, and at most 366d")
    return length


def ending(value: str) -> Time:
    """Parses an instant to come with its offset, such as 2027-01-31T12:00:00Z, or how long it is until then: 7d."""
    length, at = _length(value), _instant(value)
    if length is not None:
        return length
    if at is None or at.tzinfo is None:  # a day alone could mean its beginning or its end
        raise click.BadParameter(f"{value!r} is not like 2027-01-31T12:00:00Z or 7d")
    if at.year > _LAST_YEAR:
        raise click.BadParameter(f"{value!r} is too far off; what does not expire needs no instant")
    return at


def ending_or_none(value: str) -> Time | Literal[""]:
    """Parses the same; an empty text is never."""
    return ending(value) if value else ""


def fixed_moment(value: str) -> datetime:
    """Parses an instant with its offset, or a day of UTC such as 2027-01-31, which is its beginning."""
    at = _moment(value)
    if at is None:
        raise click.BadParameter(f"{value!r} is not like 2027-01-31 or 2027-01-31T12:00:00Z")
    return at


def moment(value: str) -> Time:
    """Parses the same, or how long ago it was: 7d."""
    length = _length(value)
    found = _moment(value) if length is None else length
    if found is None:
        raise click.BadParameter(f"{value!r} is not like 2027-01-31, 2027-01-31T12:00:00Z or 7d")
    return found


def utc_day(value: str) -> date:
    """Parses a day, such as 2027-01-31."""
    at = _moment(value) if _DAY.fullmatch(value) else None
    if at is None:
        raise click.BadParameter(f"{value!r} is not like 2027-01-31")
    return at.date()


def range_options(what: str) -> Callable[[F], F]:
    """Adds `--since` and `--until`, a range of time that includes its start and not its end."""

    def decorate(command: F) -> F:
        for name, when in (("--until", "before"), ("--since", "since")):
            help_text = f"Only {what} {when} this day or instant, or this long ago, such as 7d."
            command = click.option(name, metavar="TIME", type=moment, help=help_text)(command)
        return command

    return decorate


def by_the_database(connection: Connection, arguments: dict[str, Any]) -> None:
    """Makes instants of a command's lengths of time, by the database's clock: an operator's may be wrong.

    Raises:
        click.BadParameter: an end is in the past.
        click.UsageError: a range of time has nothing in it.
    """
    ends = arguments.get("expires_at")
    if isinstance(ends, datetime | timedelta):
        now = read_now(connection)
        at = (now + ends).replace(microsecond=0) if isinstance(ends, timedelta) else ends
        if at <= now:
            raise click.BadParameter(f"{instant(at)} is in the past: the key or account would never work")
        arguments["expires_at"] = at
    for name in ("since", "until"):
        if isinstance(ago := arguments.get(name), timedelta):
            arguments[name] = read_now(connection) - ago
    since, until = arguments.get("since"), arguments.get("until")
    if since is not None and until is not None and since >= until:
        raise click.UsageError("--since is not before --until, and nothing lies between them")


def _length(value: str) -> timedelta | None:
    form = re.fullmatch(r"([0-9]{1,8})([smhd])", value)
    length = form and timedelta(**{_UNITS[form[2]]: int(form[1])})
    return None if length is None or length > timedelta(days=366) else length


def _moment(value: str) -> datetime | None:
    at = _instant(value)
    if at is not None and _DAY.fullmatch(value):
        at = at.replace(tzinfo=UTC)
    return None if at is None or at.tzinfo is None or not 1 < at.year <= _LAST_YEAR else at


def _instant(value: str) -> datetime | None:
    try:
        return datetime.fromisoformat(value)
    except ValueError:
        return None
