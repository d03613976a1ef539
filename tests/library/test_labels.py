"""Channels that have labels: a colour's order is what they say, not where they are."""

import pickle
import sqlite3
from collections import namedtuple
from decimal import Decimal
from enum import Enum, StrEnum
from typing import Any

import numpy as np
import pytest

import sepu


class Series:
    """Iterates and answers as pandas' Series does: over its values, with `keys()` for its labels."""

    def __init__(self, values: list[Any], labels: list[Any]) -> None:
        self.values, self.labels = values, labels

    def keys(self) -> list[Any]:
        return self.labels

    def items(self) -> Any:
        return zip(self.labels, self.values, strict=True)

    def __iter__(self) -> Any:
        return iter(self.values)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        return np.array(self.values, dtype)


class Frame:
    """A table as NumPy and sepu see one of pandas or Polars."""

    def __init__(self, rows: Any, columns: list[Any]) -> None:
        self.rows, self.columns = np.array(rows), columns

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        return self.rows


def sql_row(columns: str) -> sqlite3.Row:
    connection = sqlite3.connect(":memory:")
    connection.row_factory = sqlite3.Row
    row: sqlite3.Row = connection.execute(f"select {columns}").fetchone()
    connection.close()
    return row


BGR = namedtuple("BGR", "b g r")
RECORD = np.array([(35, 60, 200)], [("B", "u1"), ("G", "u1"), ("R", "u1")])[0]
RED = [
    Series([35, 60, 200], ["b", "g", "r"]),
    Series([60, 35, 200], ["Green", "Blue", "Red"]),
    Series([200, 60, 35], [0, 1, 2]),
    Series([200, 60, 35], [np.int64(7), np.int64(8), np.int64(12)]),
    {"B": 35, "G": 60, "R": 200},
    {"blue": 35, "green": 60, "red": Decimal(200)},
    BGR(35, 60, 200),
    sql_row("35 as b, 60 as g, 200 as r"),
    RECORD,
]


@pytest.mark.parametrize("color", RED, ids=lambda color: type(color).__name__)
def test_labels_say_which_channel_is_which(color: Any) -> None:
    assert sepu.match(color)[0].slug == "fei-hong"
    assert sepu.NamedPalette({"x": color})[0].rgb == (200, 60, 35)


@pytest.mark.parametrize(
    "labels",
    [["x", "y", "z"], ["h", "s", "v"], ["r", "g", "B"], [2, 1, 0], ["L", "a", "b"], ["r", "g", "g"], [("r",), 1, 2]],
)  # fmt: skip
def test_other_labels_are_refused_and_shown(labels: list[Any]) -> None:
    table = Frame([[200, 60, 35]], labels)
    for call in (sepu.match, lambda row: sepu.Palette([[1, 2, 3]]).nearest_batch(row)):
        with pytest.raises(ValueError, match="does not have exactly r, g and b, or red, green and blue") as raised:
            call(Series([200, 60, 35], labels))
        assert all(repr(label) in str(raised.value) for label in labels)
    for make in (sepu.Palette, sepu.srgb_to_lab):
        with pytest.raises(ValueError, match="a colour with the labels"):
            make(table)


def test_labels_of_lab_count_too() -> None:
    """The values are those of `match(lab=...)` with its numbers in order."""
    expected = sepu.match(lab=(46, 53, 42), white="D50")
    for lab in (Series([42, 53, 46], ["b", "a", "L"]), {"b*": 42, "a*": 53, "L*": 46}, Series([46, 53, 42], [0, 1, 2])):
        assert sepu.match(lab=lab, white="D50") == expected  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="the labels 'r', 'g', 'b' does not have exactly L, a and b"):
        sepu.match(lab=Series([46, 53, 42], ["r", "g", "b"]))  # type: ignore[arg-type]
    palette = sepu.Palette(lab=Frame([[42.0, 53.0, 46.0]], ["b", "a", "L"]))
    assert palette.nearest(lab=(46, 53, 42)) == [(0, 0.0)]
    table: Any = Frame([[42.0, 53.0, 46.0]], ["B", "A", "L"])
    assert sepu.ciede2000(table, [(46, 53, 42)]).tolist() == [0.0]
    assert palette.delta_e(lab=table).tolist() == [[0.0]]


@pytest.mark.parametrize(
    "table",
    [
        Frame([[35, 60, 200]] * 2, ["b", "g", "r"]),
        Frame([[200, 60, 35]] * 2, ["column_0", "column_1", "column_2"]),  # Polars' own names
        [BGR(35, 60, 200)] * 2,
        [sql_row("35 as B, 60 as G, 200 as R")] * 2,
        [[Decimal(200), 60.0, 35]] * 2,
    ],
    ids=["frame", "polars", "named tuples", "rows", "Decimal"],
)
def test_a_table_is_read_by_its_columns(table: Any) -> None:
    places, delta_e = sepu.load().palette().nearest_batch(table, scale=255)
    assert [sepu.load()[place].slug for place in places[:, 0].tolist()] == ["fei-hong", "fei-hong"]
    assert delta_e.tolist() == [[0.0], [0.0]]


def test_alpha_may_be_anywhere_and_the_background_has_labels_too() -> None:
    table: Any = Frame([[0, 35, 60, 200]], ["alpha", "b", "g", "r"])
    red: Any = {"b": 35, "g": 60, "r": 200}
    background: Any = Series([131, 121, 244], ["b", "g", "r"])
    palette = sepu.load().palette()
    assert palette.nearest_batch(table, background=background)[0].tolist() == [
        [sepu.load().records.index(sepu.load()["tao-hong"])]
    ]
    with pytest.raises(sepu.ColorError, match="has 4 channels"):
        sepu.match(red | {"a": 1})
    with pytest.raises(ValueError, match="the rows have different labels"):
        palette.nearest_batch([sql_row("1 as r, 2 as g, 3 as b"), sql_row("3 as b, 2 as g, 1 as r")])


class Plain(str):
    __slots__ = ()


class Shade(StrEnum):
    RED = "Fei Hong"


class Mixed(str, Enum):  # noqa: UP042  # its own text is 'Mixed.RED'
    RED = "Fei Hong"


@pytest.mark.parametrize("text", [np.str_("Fei Hong"), Plain("Fei Hong"), Shade.RED, Mixed.RED], ids=repr)
def test_any_str_is_a_text(text: str) -> None:
    """f"{text}" and str(text) may differ from the characters that a text has."""
    colours = sepu.load()
    assert colours[text] is sepu.match(text)[0] or colours[text].slug == sepu.match(text)[0].slug == "fei-hong"
    assert text in colours
    assert [found.slug for found in sepu.search(text)] == ["fei-hong"]
    assert [found.slug for found in colours.search(type(text)("Fei Hong"), limit=1)] == ["fei-hong"]
    [swatch] = sepu.NamedPalette({text: "#C83C23"})
    assert (type(swatch.name), swatch.name) == (str, "Fei Hong")
    long = np.str_("Fei Hong" + " " * 100)
    assert colours.names().search(long, 1) == colours.names().search("fei hong", 1)
    with pytest.raises(sepu.UnknownNameError, match="no colour is named"):
        colours[Plain("nothing at all")]


def test_every_function_takes_any_str() -> None:
    palette = sepu.Palette([(200, 60, 35)], difference=Plain("cie76"))  # type: ignore[arg-type]
    assert palette.difference == "cie76"
    assert type(palette.difference) is str
    assert palette.nearest(lab=(50, 20, 30), white=Plain("D50"))  # type: ignore[arg-type]
    assert sepu.hex_to_rgb([np.str_("#C83C23"), Plain("fff")]).tolist() == [[200, 60, 35], [255, 255, 255]]
    assert palette.nearest_batch([np.str_("#C83C23")])[1].tolist() == [[0.0]]
    assert sepu.match(Plain("#C83C23"))[0].hex == "#C83C23"


def test_the_index_of_names_pickles() -> None:
    names = sepu.load().names()
    again = pickle.loads(pickle.dumps(names))
    for query in ("tao hong", "hong", "绯", "th", "taoh", "ta2o hong", "cherries"):
        assert again.search(query, 10) == names.search(query, 10) != []
