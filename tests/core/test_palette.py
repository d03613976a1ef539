"""The compiled colour core: against the published pairs, an independent reference, and a full scan."""

import copy
import csv
import pickle
import random
import re
from collections.abc import Callable
from functools import partial
from math import atan2, degrees
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.typing import NDArray
from tests.core.colours import Rgb, channels, colours, random_rgb
from tests.harness import ciede2000_reference as reference

from sepu._palette import Palette, ciede2000, hex_to_rgb, instruction_sets, srgb_to_lab

if TYPE_CHECKING:
    from sepu._palette import DifferenceName

with Path(__file__).with_name("sharma2005.csv").open(encoding="ascii") as file:
    SHARMA = [[float(value) for value in row.values()] for row in csv.DictReader(file)]

# Few distinct channels, so that colours repeat.
palettes = st.lists(st.one_of(colours, st.tuples(*[st.sampled_from([0.0, 128.0, 255.0])] * 3)), min_size=1)
labs = st.tuples(st.floats(0, 100), st.floats(-128, 128), st.floats(-128, 128))


def full_scan(palette: Palette, rgb: NDArray[np.float64], k: int) -> list[list[tuple[int, float]]]:
    """Sorts every difference; Python's sort is stable, so ties stay in palette order."""
    return [sorted(enumerate(row), key=lambda match: match[1])[:k] for row in palette.delta_e(rgb, scale=255).tolist()]


def takers(palette: Palette) -> list[Callable[[NDArray[np.float64]], object]]:
    """Every function that takes colours as (n, 3)."""
    return [partial(call, scale=255) for call in (srgb_to_lab, Palette, palette.delta_e, palette.nearest_batch)]


# The formula


@pytest.mark.parametrize("instruction_set", [None, *instruction_sets()])
@pytest.mark.parametrize("row", SHARMA)
def test_published_pairs(row: list[float], instruction_set: str | None) -> None:
    lab1, lab2, published = row[:3], row[3:6], row[6]
    assert ciede2000([lab1], [lab2], instruction_set=instruction_set)[0] == pytest.approx(published, abs=5e-5)
    assert ciede2000([lab2], [lab1], instruction_set=instruction_set)[0] == pytest.approx(published, abs=5e-5)


def test_the_reference_gives_the_published_pairs() -> None:
    assert len(SHARMA) == 34
    for l1, a1, b1, l2, a2, b2, published in SHARMA:
        assert reference.ciede2000((l1, a1, b1), (l2, a2, b2)) == pytest.approx(published, abs=5e-5)


def test_delta_e_equals_the_reference() -> None:
    one, two = many_pairs(5000)
    expected = [reference.ciede2000((*lab1,), (*lab2,)) for lab1, lab2 in zip(one.tolist(), two.tolist(), strict=True)]
    np.testing.assert_allclose(ciede2000(one, two), expected, rtol=0, atol=1e-9)
    np.testing.assert_allclose(reference.ciede2000_of_rows(one, two), expected, rtol=0, atol=1e-12)


def many_pairs(count: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Pairs at every scale of lightness, chroma and their differences, down to near-grey."""
    rng = np.random.default_rng(2005)

    def scattered() -> NDArray[np.float64]:
        lab = rng.uniform((0, -128, -128), (100, 128, 128), (count, 3))
        lab[::2, 1:] *= 10.0 ** rng.uniform(-9, 0, (len(lab[::2]), 1))
        return lab

    one, two = scattered(), scattered()
    two[::3] = one[::3] + (two[::3] - one[::3]) * 10.0 ** rng.uniform(-9, 0, (len(two[::3]), 1))
    return one, two


def test_random_pairs_equal_the_reference_on_every_path() -> None:
    one, two = many_pairs(500_000)
    found = ciede2000(one, two, instruction_set="baseline")
    assert abs(found - reference.ciede2000_of_rows(one, two)).max() < 1e-10
    for instruction_set in (None, *instruction_sets()):
        np.testing.assert_array_equal(ciede2000(one, two, instruction_set=instruction_set), found)


def test_the_paths() -> None:
    assert instruction_sets()[-1] == "baseline"
    assert len(set(instruction_sets())) == len(instruction_sets())
    for call in (
        lambda instruction_set: ciede2000([(1, 2, 3)], [(1, 2, 3)], instruction_set=instruction_set),
        lambda instruction_set: Palette([(1, 2, 3)], instruction_set=instruction_set),
    ):
        with pytest.raises(ValueError, match="instruction_set must be one of .*baseline, not abacus"):
            call("abacus")


@pytest.mark.parametrize("count", [1, 7, 8, 9, 15, 16, 17])
@pytest.mark.parametrize("instruction_set", instruction_sets())
def test_blocks_that_are_not_full(count: int, instruction_set: str) -> None:
    one, two = (pairs[:count] for pairs in many_pairs(30))
    expected = reference.ciede2000_of_rows(one, two)
    np.testing.assert_allclose(ciede2000(one, two, instruction_set=instruction_set), expected, rtol=0, atol=1e-10)


@pytest.mark.parametrize("instruction_set", instruction_sets())
def test_hues_exactly_opposite_do_not_wrap(instruction_set: str) -> None:
    rng = random.Random(180)
    for _ in range(2000):
        l1, l2, a, b = (rng.uniform(0, 100), rng.uniform(0, 100), rng.uniform(-60, 60), rng.uniform(-60, 60))
        # Twice the chroma, so that dC' is not 0 and the sign of dH' matters; doubling keeps the hue exactly.
        one, two = (l1, a, b), (l2, -2 * a, -2 * b)
        forth, back = ciede2000([one, two], [two, one], instruction_set=instruction_set)
        assert forth == back
        assert forth == pytest.approx(just_below_opposite(one, two), abs=1e-8)


def just_below_opposite(one: Rgb, two: Rgb) -> float:
    """The reference for hues just under 180 degrees apart, which eq. 10 and 14 treat as exactly 180."""
    lightness, a, b = two
    turned = [(lightness, a - turn * b, b + turn * a) for turn in (-1e-11, 1e-11)]
    hues = [degrees(atan2(lab[2], lab[1])) % 360 for lab in (one, *turned)]
    return reference.ciede2000(one, turned[abs(hues[1] - hues[0]) > abs(hues[2] - hues[0])])


@pytest.mark.parametrize("instruction_set", instruction_sets())
@pytest.mark.parametrize("turn", [1e-9, -1e-9])
def test_the_gaussian_does_not_cross_360_degrees(turn: float, instruction_set: str) -> None:
    """Eq. 16 measures from 275 degrees without wrapping around, so it jumps where the mean hue is 0."""
    one, two = (50.0, 60.0, 60.0 + turn), (50.0, 30.0, -30.0 + turn)
    expected = reference.ciede2000(one, two)
    assert ciede2000([one], [two], instruction_set=instruction_set)[0] == pytest.approx(expected, abs=1e-10)
    other = reference.ciede2000((50.0, 60.0, 60.0 - turn), (50.0, 30.0, -30.0 - turn))
    assert abs(expected - other) > 1e-7  # the jump is visible


COLOURED = (50.0, -30.0, -20.0)
# Opposite hues on the axes, a hue that crosses 360 degrees, and neutral colours, which have no hue.
SPECIAL = [
    *(
        ((50.0, a, b), (60.0, -2 * a, -2 * b))
        for a, b in [(40.0, 0.0), (40.0, -0.0), (-40.0, 0.0), (0.0, 40.0), (0.0, -40.0)]
    ),
    ((60.0, 40.0, 1e-3), (60.0, 40.0, -1e-3)),
    *((neutral, COLOURED) for neutral in [(50.0, 0.0, 0.0), (50.0, 0.0, -0.0), (50.0, -0.0, 0.0), (0.0, 0.0, 0.0)]),
]


@pytest.mark.parametrize("instruction_set", instruction_sets())
@pytest.mark.parametrize(("one", "two"), SPECIAL)
def test_special_hues(one: Rgb, two: Rgb, instruction_set: str) -> None:
    between, none = ciede2000([one, one], [two, one], instruction_set=instruction_set)
    assert between == pytest.approx(reference.ciede2000(one, two), abs=1e-12)
    assert none == 0


@pytest.mark.parametrize("chroma", [1e-20, 1e-80, 1e-160, 5e-324])
def test_chroma_next_to_nothing(chroma: float) -> None:
    for a, b in ((chroma, 0.0), (-chroma, chroma), (0.0, -chroma)):
        for other in ((50.0, 30.0, 40.0), (50.0, chroma, chroma), (50.0, -2 * a, -2 * b)):
            neutral = (50.0, 0.0, 0.0)
            expected = reference.ciede2000(neutral, other)
            assert ciede2000([(50.0, a, b)], [other])[0] == pytest.approx(expected, abs=1e-12)


@given(labs, labs)
def test_symmetry_identity_and_sign(lab1: Rgb, lab2: Rgb) -> None:
    for instruction_set in instruction_sets():
        forth, back, same = ciede2000([lab1, lab2, lab1], [lab2, lab1, lab1], instruction_set=instruction_set)
        assert forth == back
        assert forth >= 0
        assert same == 0


# sRGB to L*a*b*


def test_lab_equals_the_reference() -> None:
    rgb = random_rgb(2000)
    expected = [reference.srgb_to_lab((r, g, b)) for r, g, b in rgb.tolist()]
    np.testing.assert_allclose(srgb_to_lab(rgb, scale=255), expected, rtol=0, atol=1e-9)


def test_the_table_of_whole_channels_equals_the_formula() -> None:
    whole = np.repeat(np.arange(1.0, 255.0)[:, None], 3, axis=1)
    for end in (0, 255):
        np.testing.assert_allclose(
            srgb_to_lab(np.nextafter(whole, end), scale=255), srgb_to_lab(whole, scale=255), rtol=0, atol=1e-12
        )


@given(channels)
def test_greys_are_exactly_neutral(channel: float) -> None:
    lightness, a, b = srgb_to_lab([(channel,) * 3], scale=255)[0]
    assert 0 <= lightness <= 100
    assert a == b == 0


# Palettes


@given(palettes, st.lists(colours, min_size=1, max_size=5), st.data())
def test_nearest_equals_a_full_scan(members: list[Rgb], queries: list[Rgb], data: st.DataObject) -> None:
    palette = Palette(members, scale=255)
    k = data.draw(st.integers(1, palette.size))
    queries.append(data.draw(st.sampled_from(members)))
    assert [palette.nearest(*query, k) for query in queries] == full_scan(palette, np.array(queries), k)


@pytest.mark.parametrize("instruction_set", instruction_sets())
def test_random_queries_equal_a_full_scan(instruction_set: str) -> None:
    palette = Palette(random_rgb(161), instruction_set=instruction_set, scale=255)
    rgb = random_rgb(5000, seed=7)
    indices, delta_e = palette.nearest_batch(rgb, 3, scale=255)
    found = [list(zip(*row, strict=True)) for row in zip(indices.tolist(), delta_e.tolist(), strict=True)]
    assert found == full_scan(palette, rgb, 3)


@pytest.mark.parametrize("k", [-1, 0, 4])
def test_k_out_of_range(k: int) -> None:
    palette = Palette(random_rgb(3), scale=255)
    with pytest.raises(ValueError, match="k must be from 1 to 3"):
        palette.nearest(1, 2, 3, k)
    with pytest.raises(ValueError, match="k must be from 1 to 3"):
        palette.nearest_batch(random_rgb(2), k, scale=255)


def test_empty_input_gives_empty_output() -> None:
    empty = np.empty((0, 3))
    indices, delta_e = Palette(random_rgb(3), scale=255).nearest_batch(empty, 2, scale=255)
    assert (indices.shape, indices.dtype) == ((0, 2), np.dtype(np.intp))
    assert (delta_e.shape, delta_e.dtype) == ((0, 2), np.dtype(np.float64))
    assert Palette(random_rgb(3), scale=255).delta_e(empty, scale=255).shape == (0, 3)
    assert srgb_to_lab(empty, scale=255).shape == (0, 3)
    assert ciede2000(empty, empty).shape == (0,)
    with pytest.raises(ValueError, match="at least one colour"):
        Palette(empty, scale=255)


@pytest.mark.parametrize("shape", [(2, 5), (1, 2), (), (0,), (4, 3, 1)])
def test_wrong_shapes(shape: tuple[int, ...]) -> None:
    wrong = np.zeros(shape)
    palette = Palette(random_rgb(3), scale=255)
    for call in takers(palette):
        with pytest.raises(ValueError, match="must have the shape"):
            call(wrong)


def test_masked_values_are_refused() -> None:
    """numpy.asarray would expose them."""
    masked: Any = np.ma.masked_array
    shown, hidden = masked(random_rgb(4), mask=False), masked(random_rgb(4), mask=[[True, False, False]] * 4)
    palette = Palette(shown, scale=255)
    calls: list[Any] = [*takers(palette), partial(ciede2000, np.zeros((4, 3))), lambda lab: palette.delta_e(lab=lab)]
    for call in calls:
        for values in (hidden, [hidden[0], hidden[1]]):
            with pytest.raises(ValueError, match=r"has masked values.*\.filled"):
                call(values)
        call(shown)
    with pytest.raises(ValueError, match="hex has masked values"):
        hex_to_rgb(masked(["#fff", "#000"], mask=[True, False]))


@pytest.mark.parametrize(
    ("values", "hint"),
    [
        (np.zeros((3, 5, 7)), "if its channels come first: numpy.moveaxis"),
        (np.zeros((4, 5, 7)), "if its channels come first: numpy.moveaxis"),
        (np.zeros((5, 7, 1)), "if it is grey: numpy.repeat"),
        ([0xC83C23, 0xFFFFFF], "sepu.hex_to_rgb"),
        ([0xC83C23, 0xFFFFFF, 0], "sepu.hex_to_rgb"),
        ([200, 60, 35, 255, 0], r"\(5,\)$"),
        (np.array([[1, 2, None]]), r"dropna\(\)"),
        (np.fromiter([(1, 2, 3), (4, 5, 6)], object), r"not object; for a column of tuples: rgb\.tolist\(\)$"),
    ],
)
def test_a_refusal_says_what_may_be_meant(values: Any, hint: str) -> None:
    with pytest.raises((ValueError, TypeError), match=hint):
        Palette([(0, 0, 0)]).nearest_batch(values)


@pytest.mark.parametrize("shape", [(3,), (2, 4), (1, 2, 3)])
def test_shapes_of_images_are_no_palettes(shape: tuple[int, ...]) -> None:
    wrong = np.zeros(shape)
    with pytest.raises(ValueError, match="must have the shape"):
        Palette(wrong, scale=255)
    with pytest.raises(ValueError, match="lab must have the shape"):
        Palette(lab=wrong)
    with pytest.raises(ValueError, match="lab1 must have the shape"):
        ciede2000(wrong, wrong)
    with pytest.raises(ValueError, match="lab2 must have the shape"):
        ciede2000(np.zeros((1, 3)), wrong)


@pytest.mark.parametrize("channel", [float("nan"), float("inf"), float("-inf"), -1e-9, 255.0000001])
@pytest.mark.parametrize("place", range(3))
def test_wrong_channels(channel: float, place: int) -> None:
    colour: list[float] = [1, 2, 3]
    colour[place] = channel
    palette = Palette(random_rgb(3), scale=255)
    with pytest.raises(ValueError, match="not a number from 0 to 255"):
        palette.nearest(colour[0], colour[1], colour[2], 1)
    for call in takers(palette):
        with pytest.raises(ValueError, match=rf"^rgb\[1, {place}\] is .* not a number from 0 to 255"):
            call(np.array([[0, 0, 0], colour]))


def test_wrong_lab() -> None:
    for wrong in (float("nan"), float("inf"), 1e308):
        with pytest.raises(ValueError, match="lab1 row 0 is not three numbers from -1e12 to 1e12"):
            ciede2000([(50, wrong, 0)], [(50, 0, 0)])
    with pytest.raises(ValueError, match="differ in length: 1 and 2"):
        ciede2000(np.zeros((1, 3)), np.zeros((2, 3)))


@pytest.mark.parametrize("values", [[[None, 2, 3]], [[1j, 2, 3]], [[True, False, True]]])
def test_what_is_no_number(values: list[list[object]]) -> None:
    with pytest.raises(TypeError, match="real numbers"):
        srgb_to_lab(np.array(values), scale=255)


@given(hnp.arrays(np.uint8, (7, 6)))
def test_dtypes_and_strides(values: NDArray[np.uint8]) -> None:
    palette = Palette(random_rgb(20), scale=255)
    contiguous = np.ascontiguousarray(values[::2, ::2], dtype=np.float64)
    expected = palette.delta_e(contiguous, scale=255)
    read_only = contiguous.copy()
    read_only.setflags(write=False)
    for same in (
        values[::2, ::2],
        values[::2, ::2].astype(np.float32),
        np.asfortranarray(contiguous),
        contiguous[::-1].copy()[::-1],
        contiguous.astype(">f8"),
        contiguous.tolist(),
        read_only,
    ):
        np.testing.assert_array_equal(palette.delta_e(same, scale=255), expected)


def test_a_palette_does_not_follow_its_source() -> None:
    members = random_rgb(5)
    palette = Palette(members, scale=255)
    before = palette.nearest(1, 2, 3, 5)
    members[:] = 0
    assert palette.nearest(1, 2, 3, 5) == before
    with pytest.raises(AttributeError):
        palette.size = 9  # type: ignore[misc]


@pytest.mark.parametrize("difference", ["ciede2000", "oklab"])
@pytest.mark.parametrize("index", [False, True])
def test_a_copy_answers_the_same(difference: "DifferenceName", index: bool) -> None:
    """For example in another process."""
    members, rgb = random_rgb(20), random_rgb(50)
    palette = Palette(members, index, difference=difference, scale=255)
    members[:] = 0
    for copied in (copy.copy(palette), copy.deepcopy(palette), pickle.loads(pickle.dumps(palette))):
        assert (len(copied), copied.difference, copied.index) == (20, difference, palette.index)
        for found, expected in zip(
            copied.nearest_batch(rgb, 3, scale=255), palette.nearest_batch(rgb, 3, scale=255), strict=True
        ):
            np.testing.assert_array_equal(found, expected)


def test_a_copy_of_colours_that_no_screen_shows() -> None:
    palette = Palette(lab=[(50, 180, -180), (50, 0, 0)], difference="cie76")
    assert copy.copy(palette).nearest(255, 0, 255, 2) == palette.nearest(255, 0, 255, 2)
    dark = Palette([(1, 0, 1), (0, 0, 0)])  # floats this dark need a scale
    assert pickle.loads(pickle.dumps(dark)).nearest(1, 0, 1) == dark.nearest(1, 0, 1) == [(0, 0.0)]


def test_what_a_palette_says_of_itself() -> None:
    assert repr(Palette([(1, 2, 3), (4, 5, 6)])) == "<Palette of 2 colours by ciede2000>"
    built = Palette([(1, 2, 3)], Palette([(1, 2, 3)]).build_index(k=4))
    assert repr(built) == "<Palette of 1 colours by ciede2000, with an index for the nearest 4>"


def test_an_index_by_its_path_is_refused_with_what_to_do() -> None:
    for path in ("colours.index", Path("colours.index")):
        with pytest.raises(
            TypeError, match=r"index must be True or the bytes .* for a file: pathlib.Path\(…\).read_bytes"
        ):
            Palette([(1, 2, 3)], path)  # type: ignore[arg-type]


class Column:
    """Converts itself to an array, as columns of pandas, Arrow and Polars do."""

    def __init__(self, values: list[str]) -> None:
        self.values = values

    def __array__(self, dtype: object = None, copy: bool | None = None) -> NDArray[np.object_]:
        return np.array(self.values, dtype=object)


HEX_FORMS: list[Callable[[list[str]], Any]] = [
    list,
    tuple,
    np.array,
    lambda texts: np.array(texts, "S"),
    lambda texts: np.array(texts, ">U19"),
    lambda texts: np.array(texts, object),
    lambda texts: np.array(texts, np.dtypes.StringDType()),
    lambda texts: np.array(texts, np.dtypes.StringDType(na_object=None)),
    lambda texts: np.repeat(np.array(texts), 2)[::2],
    Column,
]


@pytest.mark.parametrize("form", HEX_FORMS)
def test_hex_of_any_form(form: Callable[[list[str]], Any]) -> None:
    rng = np.random.default_rng(16)
    numbers = rng.integers(0, 2**24, 5000)
    marks = rng.choice(["", "#", " #"], 5000).tolist()
    texts = [
        f"{mark}{number:06{case}}" for mark, number, case in zip(marks, numbers.tolist(), "xX" * 2500, strict=True)
    ]
    blanks = "".join(filter(str.isspace, map(chr, range(128))))
    texts += ["#123", "fFf\t", "00a", f"{'#123':>16}", *(f"{blank}fff{blank}" for blank in blanks)]
    values = np.array([*numbers, 0x112233, 0xFFFFFF, 0x0000AA, 0x112233, *[0xFFFFFF] * len(blanks)])
    expected = values[:, np.newaxis] >> [16, 8, 0] & 255
    found = hex_to_rgb(form(texts))
    assert found.dtype == np.uint8
    np.testing.assert_array_equal(found, expected)
    palette = Palette(form(texts[:99]))
    for place, same in zip(palette.nearest_batch(form(texts)), palette.nearest_batch(expected), strict=True):
        np.testing.assert_array_equal(place, same)


@pytest.mark.parametrize(
    "wrong",
    [
        *("", "#", "12", "200", "#12", "#1234", "12345", "#12345g", "#11223344", "0x1234", "##fff", "# fff", "tomato"),
        *("\N{ARABIC-INDIC DIGIT ONE}" * 3, "#f\N{LATIN SMALL LIGATURE FF}", "\ud800ff", None, float("nan"), b"#fff"),
    ],
)
def test_what_is_no_hex_is_named(wrong: object) -> None:
    rows: list[Any] = ["#fff", "#C83C23", wrong]
    forms: list[Any] = [rows, np.array(rows, object), *([np.array(rows)] if isinstance(wrong, str) else [])]
    for form in forms:
        with pytest.raises(ValueError, match=rf"^hex\[2\] is {re.escape(repr(wrong))}, which is not HEX: "):
            hex_to_rgb(form)
    with pytest.raises(ValueError, match=r"^hex\[0\] is .*, which is not HEX: "):
        hex_to_rgb(np.array(rows[::-1], object))
    with pytest.raises(ValueError, match=r"^hex\[1, 0\] is .*: write '#C83C23'|leave out missing values"):
        hex_to_rgb(np.array([["#fff"], [wrong]], object))


@pytest.mark.parametrize("missing", [None, float("nan")])
def test_a_missing_text_is_named(missing: object) -> None:
    texts = np.array(["#fff", missing], np.dtypes.StringDType(na_object=missing))
    with pytest.raises(ValueError, match=rf"^hex\[1\] is {missing}, which is not HEX: leave out missing values"):
        hex_to_rgb(texts)


@pytest.mark.parametrize("wrong", ["", "tomato", "#C83C23 and more", "#C83C23     , "])
def test_the_first_text_that_is_no_hex_is_named_among_many(wrong: str) -> None:
    texts = np.array(["#fff"] * 40_000, np.dtypes.StringDType())
    texts[39_998:] = wrong
    with pytest.raises(ValueError, match=rf"^hex\[39998\] is {wrong!r}, which is not HEX: "):
        hex_to_rgb(texts)


def test_hex_as_whole_numbers() -> None:
    numbers = np.array([[0xC83C23, 0], [0xFFFFFF, 0x010203]])
    expected = [[[200, 60, 35], [0, 0, 0]], [[255, 255, 255], [1, 2, 3]]]
    for kind in (np.int64, np.uint32, np.int32, ">i8"):
        assert hex_to_rgb(numbers.astype(kind)).tolist() == expected
    assert hex_to_rgb(numbers.tolist()).tolist() == expected
    assert hex_to_rgb("#C83C23").tolist() == hex_to_rgb(0xC83C23).tolist() == [200, 60, 35]
    assert hex_to_rgb([]).shape == hex_to_rgb(np.array([], "U7")).shape == (0, 3)
    assert hex_to_rgb(np.array([7], np.uint8)).tolist() == [[0, 0, 7]]
    for outside in (-1, 2**24):
        with pytest.raises(ValueError, match=rf"^hex\[1\] is {outside}, which is not HEX: write 0x000000 to 0xFFFFFF"):
            hex_to_rgb([1, outside])
    for values in ([1.0], [True], [None], [b"#fff", None]):
        with pytest.raises(TypeError, match=r"^HEX must be strings such as '#C83C23', or whole numbers"):
            hex_to_rgb(values)  # type: ignore[arg-type]
