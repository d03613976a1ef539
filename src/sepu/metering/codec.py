"""Values in Postgres's binary format (its `src/backend/utils/adt`, each type's `send` and `recv` functions).

Written: str, bytes, int (of 32 bits), and non-empty lists of one of these. Read: those, int of 64 bits, and bool.
"""

from collections.abc import Callable
from typing import Any

from psycopg.pq.abc import PGresult

Row = tuple[Any, ...]
Rows = list[Row]

BINARY = 1
"""The number of the format."""

_INT4 = 23
# For each Python type that the functions take: Postgres's numbers for that type and for its arrays.
_OIDS: dict[type, tuple[int, int]] = {str: (25, 1009), bytes: (17, 1001), int: (_INT4, 1007)}
_READERS: dict[int, Callable[[bytes], Any]] = {
    16: lambda data: data != b"\0",
    17: bytes,
    20: lambda data: int.from_bytes(data, "big", signed=True),
    _INT4: lambda data: int.from_bytes(data, "big", signed=True),
    25: lambda data: str(data, "utf-8"),
}


class UnreadableValueError(Exception):
    """An answer has a value that cannot be read; the statement was executed. The message has its type's number."""


def oid(value: Any) -> int:  # noqa: ANN401
    """Returns Postgres's number of a value's type."""
    return _OIDS[type(value[0])][1] if isinstance(value, list) else _OIDS[type(value)][0]


def encoded(value: Any) -> bytes:  # noqa: ANN401
    """Writes a value."""
    return value if isinstance(value, bytes) else _WRITERS[type(value)](value)


def rows_of(result: PGresult) -> Rows | UnreadableValueError:
    """Reads the rows of an answer, or gives the error instead."""
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


def _int4(value: int) -> bytes:
    return value.to_bytes(4, "big", signed=True)


def _array(values: list[Any]) -> bytes:
    # One dimension, no nulls, the type, the length, and the first index: 1.
    parts = [b"\0\0\0\1\0\0\0\0", _int4(oid(values[0])), _int4(len(values)), b"\0\0\0\1"]
    for data in map(_WRITERS[type(values[0])], values):
        parts += (len(data).to_bytes(4, "big"), data)
    return b"".join(parts)


_WRITERS: dict[type, Callable[[Any], bytes]] = {str: str.encode, bytes: bytes, int: _int4, list: _array}
