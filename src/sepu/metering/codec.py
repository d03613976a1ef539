"""Parameters in Postgres's binary format (its `src/backend/utils/adt`, each type's `recv` function).

They are str, bytes, int (of 32 bits), and non-empty lists of one of these.
"""

from collections.abc import Callable, Sequence
from typing import Any

Row = tuple[Any, ...]
Rows = list[Row]

_INT4 = 23
# For each Python type that the functions take: Postgres's numbers for that type and for its arrays.
_OIDS: dict[type, tuple[int, int]] = {str: (25, 1009), bytes: (17, 1001), int: (_INT4, 1007)}


def oid(value: Any) -> int:  # noqa: ANN401
    """Returns Postgres's number of a value's type."""
    return _OIDS[type(value[0])][1] if isinstance(value, list) else _OIDS[type(value)][0]


def encoded(values: Sequence[Any]) -> list[bytes]:
    """Writes values."""
    return [_WRITERS[type(value)](value) for value in values]


def _int4(value: int) -> bytes:
    return value.to_bytes(4, "big", signed=True)


def _array(values: list[Any]) -> bytes:
    # One dimension, no nulls, the type, the length, and the first index: 1.
    parts = [b"\0\0\0\1\0\0\0\0", _int4(oid(values[0])), _int4(len(values)), b"\0\0\0\1"]
    for data in map(_WRITERS[type(values[0])], values):
        parts += (len(data).to_bytes(4, "big"), data)
    return b"".join(parts)


_WRITERS: dict[type, Callable[[Any], bytes]] = {str: str.encode, bytes: bytes, int: _int4, list: _array}
