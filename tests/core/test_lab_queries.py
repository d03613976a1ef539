"""Queries in L*a*b*, in and outside sRGB: against a full scan, the independent reference, and published values."""

from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from tests.core.colours import random_rgb
from tests.harness import ciede2000_reference as reference

from sepu._palette import DIFFERENCE_NAMES, Palette, srgb_to_lab

if TYPE_CHECKING:
    from sepu._palette import DifferenceName

Floats = NDArray[np.float64]
numbers = st.one_of(st.floats(-300, 300), st.floats(-1e12, 1e12), st.sampled_from([0.0, -0.0, 5e-324, 1e-155, 50.0]))
labs = st.tuples(numbers, numbers, numbers)


def spread(count: int, seed: int = 5) -> Floats:
    """All visible colours and more; greys, near-greys, and colours of sRGB."""
    rng = np.random.default_rng(seed)
    greys = rng.uniform((-20, 0, 0), (120, 0, 0), (count, 3))
    return np.concatenate(
        [
            rng.uniform((0, -200, -200), (100, 200, 200), (count, 3)),
            greys,
            greys + rng.normal(0, 1e-3, greys.shape),
            srgb_to_lab(random_rgb(count, seed), scale=255),
            srgb_to_lab(rng.choice([0, 1, 254, 255], (count, 3))),
        ]
    )


def assert_same_as_a_full_scan(palette: Palette, lab: Floats, k: int) -> None:
    delta_e = palette.delta_e(lab=lab)
    assert np.isfinite(delta_e).all()
    places, found = palette.nearest_batch(lab=lab, k=k)
    np.testing.assert_array_equal(places, np.argsort(delta_e, axis=1, kind="stable")[:, :k])
    np.testing.assert_array_equal(found, np.sort(delta_e, axis=1)[:, :k])


@pytest.mark.parametrize("difference", DIFFERENCE_NAMES[:-1])
@pytest.mark.parametrize("index", [None, True])
def test_nearest_equals_a_full_scan(difference: "DifferenceName", index: bool | None) -> None:
    members = np.concatenate([random_rgb(70), random_rgb(70), [[0, 0, 0], [9, 9, 9]]])  # twice: ties test the order
    palette = Palette(members, index, difference=difference, scale=255)
    same = srgb_to_lab(members, scale=255)
    near = np.nextafter(same, same * [1, 0, 0])  # rounding could make a square of their difference negative
    lab = np.concatenate([spread(600), same, near, [[1e12, -1e12, 1e12], [-1e12, 0, 5e-324]]])
    for k in (1, 3, 10, 140):
        assert_same_as_a_full_scan(palette, lab, k)


@given(st.lists(st.tuples(st.floats(0, 100), st.floats(-256, 256), st.floats(-256, 256)), min_size=1), labs)
def test_any_query_of_any_palette_equals_a_full_scan(members: Any, lab: tuple[float, float, float]) -> None:
    palette = Palette(lab=members)
    assert_same_as_a_full_scan(palette, np.array([lab, members[0]]), palette.size)


def test_differences_equal_the_reference() -> None:
    lab, members = spread(400), random_rgb(9)
    found = Palette(members, scale=255).delta_e(lab=lab)
    for place, member in enumerate(srgb_to_lab(members, scale=255)):
        expected = reference.ciede2000_of_rows(lab, np.broadcast_to(member, lab.shape))
        np.testing.assert_allclose(found[:, place], expected, rtol=0, atol=1e-9)


def test_the_lab_of_a_colour_has_the_answer_of_the_colour() -> None:
    """With this many colours the lists are short, so a wrong cell gives a wrong answer."""
    members, rgb, k = random_rgb(500), random_rgb(20_000, seed=8), 3
    palette = Palette(members, Palette(members, scale=255).build_index(k=k), scale=255)
    rgb[:5000] = rgb[:5000].round()
    expected, found = (
        palette.nearest_batch(rgb, k, scale=255),
        palette.nearest_batch(lab=srgb_to_lab(rgb, scale=255), k=k),
    )
    for one, two in zip(found, expected, strict=True):
        np.testing.assert_array_equal(one, two)
    r, g, b = rgb[0].tolist()
    assert palette.nearest(lab=srgb_to_lab(rgb[:1], scale=255)[0], k=k) == palette.nearest(r, g, b, k)


# D50

BRADFORD = [
    [Fraction(share) for share in row.split()]
    for row in ("0.8951 0.2664 -0.1614", "-0.7502 1.7135 0.0367", "0.0389 -0.0685 1.0296")
]


def adapted(lab: Floats) -> Floats:
    """L*a*b* under D50 as L*a*b* under D65: CIE 15 in both directions, with Bradford's adaptation in between."""
    whites = [np.array([x / y, 1, (1 - x - y) / y]) for x, y in ((0.3457, 0.3585), (0.3127, 0.3290))]
    cones = np.array(BRADFORD, dtype=float)
    f = (lab[:, :1] + 16) / 116 + lab[:, [1, 0, 2]] * [1 / 500, 0, -1 / 200]
    xyz = np.where(f > 6 / 29, f**3, (116 * f - 16) * 27 / 24389) * whites[0]
    xyz = (np.linalg.inv(cones) @ np.diag((cones @ whites[1]) / (cones @ whites[0])) @ cones @ xyz.T).T / whites[1]
    f = np.where(xyz > 216 / 24389, np.cbrt(xyz), (24389 / 27 * xyz + 16) / 116)
    return np.stack([116 * f[:, 1] - 16, 500 * (f[:, 0] - f[:, 1]), 200 * (f[:, 1] - f[:, 2])], axis=1)


def test_d50_is_adapted_to_d65() -> None:
    palette, lab = Palette(random_rgb(40), scale=255), spread(2000)
    found, expected = palette.delta_e(lab=lab, white="D50"), palette.delta_e(lab=adapted(lab))
    coloured = np.hypot(lab[:, 1], lab[:, 2]) > 0.1  # the difference of a grey depends on its chroma's square root
    np.testing.assert_allclose(found[coloured], expected[coloured], rtol=0, atol=1e-8)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-4)


def test_d50_has_the_published_values_and_neutral_greys() -> None:
    """lab() of red and green in CSS Color 4, which is under D50, to its printed decimals."""
    palette = Palette([(255, 0, 0), (0, 128, 0), (118, 118, 118)])
    for place, lab in enumerate([(54.29054, 80.80492, 69.89098), (46.27770, -47.55240, 48.58627)]):
        [(found, delta_e)] = palette.nearest(lab=lab, white="D50")
        assert found == place
        assert delta_e < 1e-4
    greys = np.column_stack([np.linspace(0, 100, 101), np.zeros((101, 2))])
    for white in ("D65", "D50"):
        np.testing.assert_allclose(
            palette.delta_e(lab=greys, white=white), palette.delta_e(lab=greys), rtol=0, atol=1e-11
        )


# Invalid queries


@pytest.mark.parametrize(
    ("query", "reason"),
    [
        ({"lab": [50, float("nan"), 0]}, r"lab\[1\] is nan, not a number from -1e\+12 to 1e\+12"),
        ({"lab": [[0, 0, 0], [0, 0, float("-inf")]]}, r"lab\[1, 2\] is -inf"),
        ({"lab": [1e13, 0, 0], "white": "D50"}, r"lab\[0\] is 1e\+13"),
        ({"lab": [50, 0]}, r"lab must have the shape \(..., 3\), not \(2,\)"),
        ({"lab": 5}, "lab must have the shape"),
        ({"lab": np.zeros((1, 3), np.uint8)}, "lab is of type uint8, which has no negative numbers: decode it first"),
        ({"lab": np.zeros((1, 3), np.uint16)}, "lab is of type uint16, which has no negative numbers"),
        ({"lab": [50, 0, 0], "white": "D55"}, 'white must be "D65" or "D50", not \'D55\''),
        ({"lab": [50, 0, 0], "rgb": [1, 2, 3]}, "a query needs either rgb or lab"),
        ({}, "a query needs either rgb or lab"),
        ({"lab": [50, 0, 0], "scale": 255}, "scale and background belong to rgb"),
    ],
)
def test_what_is_refused(query: dict[str, Any], reason: str) -> None:
    palette = Palette(random_rgb(3), scale=255)
    for call in (palette.nearest_batch, palette.delta_e):
        with pytest.raises(ValueError, match=reason):
            call(**query)


def test_what_else_is_refused() -> None:
    palette: Any = Palette([(1, 2, 3)])
    with pytest.raises(ValueError, match="needs rgb, not lab"):
        Palette([(1, 2, 3)], difference="oklab").nearest(lab=(50, 0, 0))
    with pytest.raises(ValueError, match=r"must have the shape \(3,\)"):
        palette.nearest(lab=[(50, 0, 0)])
    for arguments in ([(1, 2, 3)], []):
        with pytest.raises(TypeError, match=r"for a tuple: palette.nearest\(\*color\)"):
            palette.nearest(*arguments)
    for channel in "rgb":
        with pytest.raises(TypeError, match="or lab, not both"):
            palette.nearest(**{channel: 3}, lab=(50, 0, 0))
    with pytest.raises(TypeError, match="lab must be real numbers"):
        palette.nearest(lab=("50", "0", "0"))
