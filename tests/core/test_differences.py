"""The differences other than CIEDE2000: against published values, an independent reference, and a full scan."""

from typing import TYPE_CHECKING

import numpy as np
import pytest
from tests.core import differences_reference
from tests.core.colours import random_rgb
from tests.harness import ciede2000_reference

from sepu._palette import DIFFERENCE_NAMES, Palette, instruction_sets

if TYPE_CHECKING:
    from sepu._palette import DifferenceName


def test_the_reference_gives_published_values() -> None:
    """From colour-science's documentation (delta_E_CIE1976, _CIE1994, _HyAB); OKLab of red from CSS Color 4."""
    one, two = np.array([100, 21.57210357, 272.2281935]), np.array([100, 426.67945353, 72.39590835])
    assert differences_reference.cie76(two, one) == pytest.approx(451.713301974, abs=1e-8)
    assert differences_reference.cie94(two, one) == pytest.approx(83.779225501, abs=1e-8)
    one, two = np.array([39.91531343, 51.16658481, 146.12933781]), np.array([53.12207516, -39.92365056, 249.54831278])
    assert differences_reference.hyab(one, two) == pytest.approx(151.0215481, abs=1e-6)
    assert differences_reference.oklab(np.array([255.0, 0, 0])) == pytest.approx([0.62796, 0.22486, 0.12585], abs=1e-5)


@pytest.mark.parametrize("instruction_set", instruction_sets())
@pytest.mark.parametrize("difference", DIFFERENCE_NAMES[1:])
def test_differences_equal_the_reference(difference: "DifferenceName", instruction_set: str) -> None:
    members, rgb = random_rgb(21), random_rgb(300, seed=3)
    members[:2], rgb[:2], rgb[2:4] = [[0, 0, 0], [255, 255, 255]], [[0, 0, 0], [9, 9, 9]], members[:2]
    if difference == "oklab":
        of_members, of_rgb = differences_reference.oklab(members), differences_reference.oklab(rgb)
        expected = differences_reference.cie76(of_rgb[:, None], of_members)
    else:
        of_members, of_rgb = (
            np.array([ciede2000_reference.srgb_to_lab((r, g, b)) for r, g, b in rows.tolist()])
            for rows in (members, rgb)
        )
        expected = differences_reference.OF_LAB[difference](of_rgb[:, None], of_members)
    palette = Palette(members, difference=difference, instruction_set=instruction_set, scale=255)
    assert palette.difference == difference
    np.testing.assert_allclose(
        palette.delta_e(rgb, scale=255), expected, rtol=0, atol=1e-9 if difference != "cie94" else 1e-6
    )


@pytest.mark.parametrize("difference", DIFFERENCE_NAMES)
def test_nearest_equals_a_full_scan(difference: "DifferenceName") -> None:
    members = np.concatenate([random_rgb(60), random_rgb(60)])  # each twice, so that ties test the order
    palette, rgb = Palette(members, difference=difference, scale=255), random_rgb(400, seed=4)
    delta_e = palette.delta_e(rgb, scale=255)
    for k in (1, 5, 120):
        places, found = palette.nearest_batch(rgb, k, scale=255)
        np.testing.assert_array_equal(places, np.argsort(delta_e, axis=1, kind="stable")[:, :k])
        np.testing.assert_array_equal(found, np.sort(delta_e, axis=1)[:, :k])


def test_no_difference_and_no_colours() -> None:
    with pytest.raises(ValueError, match="difference must be one of ciede2000, .*oklab, not din99"):
        Palette([(1, 2, 3)], difference="din99")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="needs either rgb or lab"):
        Palette()
    with pytest.raises(ValueError, match="needs either rgb or lab"):
        Palette([(1, 2, 3)], lab=[(1, 2, 3)])
    with pytest.raises(ValueError, match="needs rgb, not lab"):
        Palette(lab=[(1, 2, 3)], difference="oklab")
    for lab in ((101, 0, 0), (-1, 0, 0), (50, 257, 0), (50, 0, float("nan"))):
        for among in ([lab], [lab, (50, 0, 0)], [(50, 0, 0), lab]):
            with pytest.raises(ValueError, match="lab"):
                Palette(lab=among)
