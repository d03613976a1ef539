"""Reads times that Python's types cannot hold, such as `infinity`, so that one row does not break a list of all."""

from collections.abc import Callable
from datetime import date, datetime
from typing import Any, Self

import psycopg
from psycopg.abc import Buffer
from psycopg.adapt import Loader, PyFormat
from psycopg.pq import Format


class StoredInstant(datetime):
    """An instant outside the years 1 to 9999: compares as Python's first or last one, printed as Postgres prints it."""

    text: str

    @classmethod
    def of(cls, text: str) -> Self:
        """Makes one from Postgres's text."""
        found = cls.fromisoformat(_edge(datetime, text) + "+00:00")
        found.text = text
        return found

    def astimezone(self, tz: object = None) -> Self:  # noqa: ARG002
        """Returns it as it is."""
        return self

    def date(self) -> "StoredDay":
        """Returns it as a day, with the same text."""
        return StoredDay.of(self.text)

    def isoformat(self, *_: object) -> str:
        """Returns Postgres's text, whatever the format."""
        return self.text

    __format__ = __str__ = isoformat

    def strftime(self, format: str) -> str:  # noqa: A002, ARG002  # its name
        """Returns Postgres's text, whatever the format."""
        return self.text


class StoredDay(date):
    """A day outside the years 1 to 9999: compares as Python's first or last one, printed as Postgres prints it."""

    text: str

    @classmethod
    def of(cls, text: str) -> Self:
        """Makes one from Postgres's text."""
        found = cls.fromisoformat(_edge(date, text))
        found.text = text
        return found

    def isoformat(self, *_: object) -> str:
        """Returns Postgres's text, whatever the format."""
        return self.text

    __format__ = __str__ = isoformat

    def strftime(self, format: str) -> str:  # noqa: A002, ARG002  # its name
        """Returns Postgres's text, whatever the format."""
        return self.text


def read_every_time(connection: psycopg.Connection[Any]) -> None:
    """Lets a connection read every instant and day that Postgres can store, and send an instant back unchanged."""
    known = connection.adapters
    for name, stored in (("timestamptz", StoredInstant.of), ("date", StoredDay.of)):
        oid = known.types[name].oid
        ordinary = known.get_loader(oid, Format.TEXT)
        if ordinary is not None:
            known.register_loader(oid, _loader(ordinary, stored))
    known.register_dumper(StoredInstant, known.get_dumper(datetime, PyFormat.TEXT))  # writes `str` of it


def _edge(kind: type[date], text: str) -> str:
    return (kind.min if text.startswith("-") or text.endswith("BC") else kind.max).isoformat()


def _loader(ordinary: Callable[..., Any], stored: Callable[[str], date]) -> type[Loader]:
    class TimeLoader(Loader):
        def __init__(self, oid: int, context: Any = None) -> None:  # noqa: ANN401
            super().__init__(oid, context)
            self._load = ordinary(oid, context).load

        def load(self, data: Buffer) -> Any:  # noqa: ANN401
            try:
                return self._load(data)
            except psycopg.DataError:
                return stored(bytes(data).decode())

    return TimeLoader
