"""One session with Postgres for an event loop, on libpq's own interface: a statement is one write and one read.

psycopg connects. Its cursors, locks and generators are not used: they would add half of the database's time to a call.

A statement is prepared when it is first sent. A pooler may give each transaction another server session (as PgBouncer
does in transaction mode); then a prepared statement is missing, or is there already, and the session stops preparing.
"""

import asyncio
import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cache
from hashlib import sha256
from itertools import count
from typing import Any, LiteralString, Self

import psycopg
from psycopg.errors import error_from_result
from psycopg.pq import ExecStatus
from psycopg.pq.abc import PGconn, PGresult

from sepu.database.connection import hung_up
from sepu.database.hosts import Hosts

Row = tuple[Any, ...]
Rows = list[Row]
Done = Callable[[Rows | Exception], None]

# How often to look, while waiting, whether the server is gone: uvloop does not report a socket with an error, such as
# that of a server that died before it had read what we sent.
_LOOK_SECONDS = 0.1

_BINARY = 1
_INT4 = 23
# By Python's types, Postgres's numbers of the types that the functions take, and of their arrays.
_OIDS: dict[type, tuple[int, int]] = {str: (25, 1009), bytes: (17, 1001), int: (_INT4, 1007)}
_READERS: dict[int, Callable[[bytes], Any]] = {
    16: lambda data: data != b"\0",
    17: bytes,
    20: lambda data: int.from_bytes(data, "big", signed=True),
    _INT4: lambda data: int.from_bytes(data, "big", signed=True),
    25: lambda data: str(data, "utf-8"),
}


class SessionLost(Exception):  # noqa: N818
    """The session is over. It is not known whether the statement under way was executed."""


class UnreadableValueError(Exception):
    """An answer has a value that cannot be read; the statement was executed. The message has its type's number."""


class Session:
    """Runs one statement at a time. It is over when the server closes it or is late; nothing is cancelled there."""

    def __init__(self, connection: psycopg.AsyncConnection[Any], seconds: float) -> None:
        self._loop = asyncio.get_running_loop()
        self._connection = connection  # owns what follows
        self._pgconn = connection.pgconn
        self._pgconn.nonblocking = 1
        self._seconds = seconds
        self._socket = self._pgconn.socket
        self._over = False
        self._prepares = True
        self._prepared: set[LiteralString] = set()
        self._call = _Call("", ())
        self._done: Done | None = None
        self._results: list[PGresult] = []
        self._deadline = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._loop.add_reader(self._socket, self.poll)

    @classmethod
    async def connect(cls, hosts: Hosts, seconds: float) -> Self:
        """Makes a session whose statements may take so many seconds each.

        Raises:
            psycopg.Error: there is no such server, or it refuses.
            TimeoutError: it does not answer in time.
        """
        return cls(await hosts.connect_async(), seconds)

    def is_over(self) -> bool:
        """Tells whether it can run nothing any more. To be called while nothing is under way."""
        if not self._over and hung_up(self._pgconn):
            self.close()
        return self._over

    def send(self, statement: LiteralString, parameters: Sequence[Any], done: Done) -> None:
        """Starts a statement, while no other is under way.

        `done` gets its rows, psycopg's error, `UnreadableValueError` or `SessionLost`.

        Parameters are str, bytes, int (of 32 bits), or non-empty lists of one of these.
        """
        self._done = done
        self._deadline = self._loop.time() + self._seconds
        if self._timer is None:
            self._timer = self._loop.call_later(_LOOK_SECONDS, self._look)
        self._call = _Call(statement, parameters)
        if not self._prepares:
            self._send(self._call.unprepared)
        elif statement in self._prepared:
            self._send(self._call.prepared)
        else:
            self._send(self._call.prepare)

    def _send(self, message: Callable[[PGconn], None]) -> None:
        try:
            message(self._pgconn)
            self._flush()
        except psycopg.OperationalError:
            self.close()

    def close(self) -> None:
        """Ends the session, and fails what is under way."""
        if not self._over:
            self._over = True
            # At once: libpq closes the socket of a lost connection, and its number may soon be another socket's.
            with suppress(OSError):  # asyncio's, if it watched for both; it forgets the socket all the same
                self._loop.remove_reader(self._socket)
            self._loop.remove_writer(self._socket)
            if self._timer is not None:
                self._timer.cancel()
            self._pgconn.finish()
        self._conclude(SessionLost())

    def _flush(self) -> None:
        if self._pgconn.flush():
            self._loop.add_writer(self._socket, self._writable)

    def _writable(self) -> None:
        self._loop.remove_writer(self._socket)
        try:
            self._flush()
        except psycopg.OperationalError:
            self.close()

    def poll(self) -> None:
        """Reads what has come of the answer; the event loop does so when the socket is readable."""
        try:
            self._pgconn.consume_input()
            while self._done is not None and not self._pgconn.is_busy():
                result = self._pgconn.get_result()
                if result is None:
                    (result,), self._results = self._results, []
                    self._take(result)
                    return
                self._results.append(result)
        except psycopg.OperationalError:
            self.close()

    def _look(self) -> None:
        self._timer = None
        if self._done is None:
            return
        if self._loop.time() >= self._deadline:
            self.close()
        else:
            self._timer = self._loop.call_later(_LOOK_SECONDS, self._look)
            self.poll()

    def _take(self, result: PGresult) -> None:
        call = self._call
        if result.status == ExecStatus.TUPLES_OK:
            self._conclude(_rows(result))
        elif result.status == ExecStatus.COMMAND_OK:
            self._prepared.add(call.statement)
            self._send(call.prepared)
        else:
            error = error_from_result(result)
            if isinstance(error, psycopg.errors.InvalidSqlStatementName | psycopg.errors.DuplicatePreparedStatement):
                self._prepares = False
                self._send(call.unprepared)
            else:
                self._conclude(error)

    def _conclude(self, outcome: Rows | Exception) -> None:
        done, self._done = self._done, None
        if done is not None:
            done(outcome)


class _Call:
    """A statement with its parameters, and the messages that carry it."""

    __slots__ = ("_parameters", "_values", "statement")

    def __init__(self, statement: LiteralString, parameters: Sequence[Any]) -> None:
        self.statement = statement
        self._parameters = parameters
        self._values = list(map(_binary, parameters))

    def prepare(self, pgconn: PGconn) -> None:
        pgconn.send_prepare(_name(self.statement), _numbered(self.statement), list(map(_oid, self._parameters)))

    def prepared(self, pgconn: PGconn) -> None:
        pgconn.send_query_prepared(_name(self.statement), self._values, [_BINARY] * len(self._values), _BINARY)

    def unprepared(self, pgconn: PGconn) -> None:
        oids, formats = list(map(_oid, self._parameters)), [_BINARY] * len(self._values)
        pgconn.send_query_params(_numbered(self.statement), self._values, oids, formats, _BINARY)


def _rows(result: PGresult) -> Rows | UnreadableValueError:
    value, rows = result.get_value, range(result.ntuples)
    columns: list[list[Any]] = []
    number = 0
    try:
        for column in range(result.nfields):
            number = result.ftype(column)
            read = _READERS[number]
            columns.append([None if (data := value(row, column)) is None else read(data) for row in rows])
    except Exception:  # no reader, or whatever a reader raises for a broken value
        return UnreadableValueError(f"cannot read a value of type {number}")
    return list(zip(*columns, strict=True))


@cache
def _name(statement: LiteralString) -> bytes:
    """Names a statement by its text, so that none is taken for another."""
    return b"sepu_" + sha256(statement.encode()).hexdigest()[:16].encode()


@cache
def _numbered(statement: LiteralString) -> bytes:
    """Gives the statement with Postgres's own placeholders instead of psycopg's."""
    number = count(1)
    return re.sub("%s", lambda _: f"${next(number)}", statement).encode()


def _oid(value: Any) -> int:  # noqa: ANN401
    return _OIDS[type(value[0])][1] if isinstance(value, list) else _OIDS[type(value)][0]


def _binary(value: Any) -> bytes:  # noqa: ANN401
    if isinstance(value, bytes):
        return value
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, int):
        return _int4(value)
    # An array: one dimension, no nulls, the type, the length, from 1.
    parts = [b"\0\0\0\1\0\0\0\0", _int4(_oid(value[0])), _int4(len(value)), b"\0\0\0\1"]
    for item in value:
        data = _binary(item)
        parts += (_int4(len(data)), data)
    return b"".join(parts)


def _int4(value: int) -> bytes:
    return value.to_bytes(4, "big", signed=True)
