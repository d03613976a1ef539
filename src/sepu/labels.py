"""Puts channels in order by their labels: of a mapping, a named tuple, or a row or the columns of a table.

sepu-client links to this file, because it imports nothing of sepu.
"""

from collections.abc import Callable, Iterable, Mapping
from itertools import islice, product
from numbers import Integral
from typing import Any

Channels = tuple[tuple[str, ...], ...]

RGB: Channels = (("r", "g", "b"), ("red", "green", "blue"))
LAB: Channels = (("L", "a", "b"),)

_ALPHAS = (["a"], ["alpha"], ["opacity"])
# What has a table's columns (PyArrow, pandas, Polars) or a named tuple's fields; a mapping, a row of pandas and one of
# sqlite3 have `keys()`.
_ATTRIBUTES = ("_fields", "column_names", "columns")
_SHOWN = 6  # labels in an error


def in_order(values: Any, channels: Channels) -> Any:  # noqa: ANN401  # whatever may be a colour
    """Returns the values of one colour in the order of `channels`; those without labels as they are.

    Integers in ascending order are positions. Raises ValueError, which quotes them, for other labels.
    """
    labels = _labels_of(values)
    if labels is None:
        return values
    given = [values[label] for label in labels] if isinstance(values, Mapping) else list(values)
    positions = _positions(labels, channels)
    return given if positions is None else [given[position] for position in positions]


def find_positions(values: Any, channels: Channels) -> list[int] | None:  # noqa: ANN401
    """Returns the positions of `channels` on the last axis of an array of `values`: a table, a row, or a list of rows.

    Returns None if they are in order. Raises ValueError, which quotes them, for labels of anything else.
    """
    if type(values) not in (list, tuple):
        labels = _labels_of(values)
    elif not any(map(_has_labels, {*map(type, values)})):  # PERF: a few types instead of many rows
        return None
    else:
        labels = _labels_of(values[0])
        if any(_labels_of(row) != labels for row in values):
            raise ValueError("the rows have different labels; give all of them the same ones, in one order")
    return None if labels is None else _positions(labels, channels)


def _has_labels(kind: type) -> bool:
    return any(hasattr(kind, name) for name in ("keys", *_ATTRIBUTES))


def _labels_of(values: Any) -> list[object] | None:  # noqa: ANN401
    found: Iterable[object] | None = getattr(getattr(values, "dtype", None), "names", None)  # of a NumPy record
    for name in _ATTRIBUTES:
        found = getattr(values, name, None) if found is None else found
    dims, coords = getattr(values, "dims", None), getattr(values, "coords", None)
    if dims and isinstance(coords, Mapping) and dims[-1] in coords:  # of xarray
        found = coords[dims[-1]].values.tolist()
    if found is None and callable(getattr(values, "keys", None)):
        found = values.keys()
    return None if found is None else [*islice(found, _SHOWN)]


def _positions(labels: list[object], channels: Channels) -> list[int] | None:
    if all(isinstance(label, Integral) for label in labels) and sorted({*labels}) == labels:  # type: ignore[type-var]
        return None
    plain = [label.strip().removesuffix("*") if isinstance(label, str) else "" for label in labels]
    if plain == [f"column_{position}" for position in range(len(plain))]:  # what Polars calls columns without names
        return None
    styles: list[Callable[[str], str]] = [str, str.lower, str.upper, str.title]
    for names, style in product(channels, styles):
        wanted = [style(name) for name in names]
        rest = [label for label in plain if label not in wanted]
        if sorted(plain) == sorted(wanted + rest) and (
            not rest or (channels is RGB and [*map(str.lower, rest)] in _ALPHAS)
        ):
            return [plain.index(name) for name in (*wanted, *rest)]
    expected = ", or ".join(f"{', '.join(names[:-1])} and {names[-1]}" for names in channels)
    raise ValueError(f"a colour with the labels {', '.join(map(_quoted, labels))} does not have exactly {expected}")


def _quoted(label: object) -> str:
    try:
        return f"{label!r:.40}"
    except ValueError:  # Python does not write an integer of 5,000 digits
        return "…"
