"""Reads the times that options take."""

import re
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any

import click
from psycopg import Connection

from sepu.admin.usage import read_now
from sepu.cli.command import F
from sepu.cli.output import instant, note

_EARLIEST, _LAST_YEAR = datetime.min, 9998  # Python cannot convert others to every time zone  # noqa: DTZ901
_DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", re.ASCII)
_LENGTH = re.compile(r"([0-9]{1,8})([smhd])")
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}


class _Time(click.ParamType[Any]):
    """Parses lengths of time up to a year, which begin or end now (see `by_the_database`), instants and UTC days.

    An instant needs an offset. A day means its beginning, or its end for the end of a key or account: then a remark
    says so. `like` shows the accepted forms.
    """

    def __init__(self, name: str, like: str, *, lengths: bool, instants: bool, days: bool, empty: bool = False) -> None:
        self.name = name
        self._like = like
        self._lengths, self._instants, self._days, self._empty = lengths, instants, days, empty
        self._ends = name == "ending"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:  # noqa: ANN401
        """Parses a time; click calls it."""
        if isinstance(value, datetime | timedelta) or (self._empty and not value):
            return value
        if self._lengths and (form := _LENGTH.fullmatch(value)):
            length = timedelta(**{_UNITS[form[2]]: int(form[1])})
            if length <= timedelta(days=366):
                return length
        at = _EARLIEST
        with suppress(ValueError):
            at = datetime.fromisoformat(value)
        is_day = _DAY.fullmatch(value) is not None
        if is_day and self._days:
            at = at.replace(tzinfo=UTC)
        if at.tzinfo is None or not (is_day or self._instants) or at.year == _EARLIEST.year:
            self.fail(f"{value!r} is not like {self._like}", param, ctx)
        if at.year > _LAST_YEAR:
            help_text = "; omit the option for no expiry" if self._ends else ""
            self.fail(f"{value!r} is too far in the future{help_text}", param, ctx)
        if is_day and self._ends:
            at += timedelta(days=1)
            note(f"{value} is taken to its end in UTC: {instant(at)}")
        return at


duration = _Time("duration", "7d, 12h, 30m or 0s, and at most 366d", lengths=True, instants=False, days=False)
_ENDING = "2027-01-31, 2027-01-31T12:00:00Z or 7d"
ending = _Time("ending", _ENDING, lengths=True, instants=True, days=True)
ending_or_none = _Time("ending", _ENDING, lengths=True, instants=True, days=True, empty=True)
_ending_at = _Time("ending", "2027-01-31 or 2027-01-31T12:00:00Z", lengths=False, instants=True, days=True)
moment = _Time("moment", "2027-01-31, 2027-01-31T12:00:00Z or 7d", lengths=True, instants=True, days=True)
utc_day = _Time("day", "2027-01-31", lengths=False, instants=False, days=True)


def ending_at(value: str) -> datetime:
    """Parses the end of a key or account that does not depend on when it is read: an instant or a UTC day.

    Raises:
        click.BadParameter: it is neither.
    """
    found = _ending_at.convert(value, None, None)
    assert isinstance(found, datetime)  # noqa: S101
    return found


def range_options(what: str) -> Callable[[F], F]:
    """Adds `--since` and `--until`, a range of time that includes its start and not its end."""

    def decorate(command: F) -> F:
        for name, when in (("--until", "before"), ("--since", "since")):
            help_text = f"Only {what} {when} this day or instant, or this long ago, such as 7d."
            command = click.option(name, metavar="TIME", type=moment, help=help_text)(command)
        return command

    return decorate


def by_the_database(connection: Connection, arguments: dict[str, Any]) -> None:
    """Turns a command's lengths of time into instants by the database's clock: an operator's may be wrong.

    Raises:
        click.BadParameter: an end is in the past.
        click.UsageError: a range of time is empty.
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
