"""Writes parameters in Postgres's binary format (source: each type's `recv` function in `src/backend/utils/adt`).

A parameter is str, bytes, int (32 bits), or a non-empty list of one of these.
"""

from collections.abc import Callable
from struct import Struct
from typing import Any

Row = tuple[Any, ...]
Rows = list[Row]
Writer = Callable[[Any], bytes]

_INT4 = 23
# For each Python type that a parameter may have: the OIDs of the Postgres type and of its array type.
_OIDS: dict[type, tuple[int, int]] = {str: (25, 1009), bytes: (17, 1001), int: (_INT4, 1007)}


def oid(value: Any) -> int:  # noqa: ANN401
    """Returns the OID of a value's Postgres type."""
    return _OIDS[type(value[0])][1] if isinstance(value, list) else _OIDS[type(value)][0]


def writer(value: Any) -> Writer:  # noqa: ANN401
    """Returns the function that writes values of this type."""
    return _WRITERS[type(value)]


def _array(values: list[Any]) -> bytes:
    # The header: one dimension, no nulls, the type, the length, and the first index, 1. Each element follows its size.
    head = b"".join((b"\0\0\0\1\0\0\0\0", _int4(oid(values[0])), _int4(len(values)), b"\0\0\0\1"))
    written = list(map(writer(values[0]), values))
    sizes = set(map(len, written))
    if len(sizes) == 1:  # PERF: half the instructions; most arrays have equal-sized elements
        size = _int4(sizes.pop())
        return head + size + size.join(written)
    parts = [head]
    for data in written:
        parts += (_int4(len(data)), data)
    return b"".join(parts)


_int4 = Struct("!i").pack
_WRITERS: dict[type, Writer] = {str: str.encode, bytes: bytes, int: _int4, list: _array}
