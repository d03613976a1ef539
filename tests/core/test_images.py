"""Arrays of images: any leading shape, 8 bits or floats, from 0 to 1, with alpha, on several threads."""

import re
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from tests.core.colours import random_rgb

from sepu._palette import Palette, srgb_to_lab

PALETTE = Palette(random_rgb(50), index=True, scale=255)


@pytest.fixture(scope="module")
def image() -> NDArray[np.uint8]:
    """More pixels than one thread takes at a time, with colours that repeat, both adjacent and far apart."""
    rng = np.random.default_rng(8)
    few = rng.integers(0, 256, (300, 3), dtype=np.uint8)
    pixels = rng.integers(0, 256, (400, 500, 3), dtype=np.uint8)
    pixels[:200] = few[rng.integers(0, 300, (200, 500))]
    pixels[::7] = few[0]
    return pixels


@pytest.mark.parametrize("threads", [1, 2, None])
@pytest.mark.parametrize("k", [1, 3])
def test_an_image_is_its_pixels(image: NDArray[np.uint8], k: int, threads: int | None) -> None:
    places, delta_e = PALETTE.nearest_batch(image, k, threads=threads)
    assert places.shape == delta_e.shape == (400, 500, k)
    expected = PALETTE.nearest_batch(image.reshape(-1, 3).astype(float), k, scale=255)
    np.testing.assert_array_equal(places.reshape(-1, k), expected[0])
    np.testing.assert_array_equal(delta_e.reshape(-1, k), expected[1])
    reals = PALETTE.nearest_batch(image.astype(float), k, scale=255, threads=threads)
    np.testing.assert_array_equal(reals, (places, delta_e))


@pytest.mark.parametrize("shape", [(3,), (1, 3), (2, 3, 4, 3), (0, 5, 3), (5, 0, 3)])
def test_any_leading_shape(shape: tuple[int, ...]) -> None:
    rgb = np.random.default_rng(1).uniform(2, 255, shape)
    rows = rgb.reshape(-1, 3)
    np.testing.assert_array_equal(srgb_to_lab(rgb, scale=255), srgb_to_lab(rows, scale=255).reshape(shape))
    flat = PALETTE.delta_e(rows, scale=255).reshape(*shape[:-1], 50)
    np.testing.assert_array_equal(PALETTE.delta_e(rgb, scale=255), flat)
    nearest = PALETTE.nearest_batch(rgb, 2, scale=255), PALETTE.nearest_batch(rows, 2, scale=255)
    for found, expected in zip(*nearest, strict=True):
        np.testing.assert_array_equal(found, expected.reshape(*shape[:-1], 2))


def test_strides_and_views(image: NDArray[np.uint8]) -> None:
    for view in (image[::2, ::3], image[:, ::-1], image.transpose(1, 0, 2), np.flip(image, axis=2)):
        expected = PALETTE.nearest_batch(view.copy(), 1)
        np.testing.assert_array_equal(PALETTE.nearest_batch(view, 1), expected)


def test_from_0_to_1_when_said(image: NDArray[np.uint8]) -> None:
    small = image[:50, :50]
    expected = PALETTE.nearest_batch(small, 2)
    for dtype, error in ((np.float64, 1e-9), (np.float32, 1e-3)):
        places, delta_e = PALETTE.nearest_batch((small / 255).astype(dtype), 2, scale=1)
        np.testing.assert_array_equal(places, expected[0])
        np.testing.assert_allclose(delta_e, expected[1], rtol=0, atol=error)
    np.testing.assert_allclose(srgb_to_lab(small / 255, scale=1), srgb_to_lab(small), rtol=0, atol=1e-9)
    own = Palette([(0.5, 0.5, 0.5), (1.0, 0.0, 0.0)], scale=1)
    assert own.nearest(255, 0, 0, 1) == [(1, 0.0)]


TAKERS: list[Any] = [PALETTE.delta_e, PALETTE.nearest_batch, srgb_to_lab, Palette]


@pytest.mark.parametrize("taker", TAKERS)
@pytest.mark.parametrize(
    "kind", [np.float16, np.float32, np.float64, np.longdouble, np.int8, np.uint16, np.int32, np.uint64, ">i8"]
)
def test_only_8_bits_and_python_s_integers_need_no_scale(taker: Any, kind: Any) -> None:
    """Values cannot tell: a dark picture, a resampled one and one from 0 to 1 look the same."""
    taker([[0, 1, 1]])
    taker(np.array([[0, 1, 1]], np.uint8))
    for rgb in ([[0, 1, 1]], [[0, 0, 0]], [[120, 7, 3]]):
        with pytest.raises(ValueError, match=f"^rgb is of type {np.dtype(kind)}: pass scale=1 or scale=255") as caught:
            taker(np.array(rgb, kind))
        assert ("; divide 16 bits by 257" in str(caught.value)) == (np.dtype(kind).kind != "f")
        taker(np.array(rgb, kind), scale=255)
    taker(np.array([[0, 1, 1]], kind), scale=1)
    with pytest.raises(ValueError, match="scale must be 1 or 255, not 100"):
        taker(np.array(rgb, kind), scale=100)


@pytest.mark.parametrize("taker", TAKERS)
@pytest.mark.parametrize(
    ("value", "kind", "scale", "said"),
    [
        (1.047, np.float64, 1, "is 1.047, not a number from 0 to 1; see numpy.clip(rgb, 0, 1)"),
        (np.nextafter(1, 2), np.float64, 1, "is 1.0000000000000002, not a number from 0 to 1; see numpy.clip("),
        (np.nextafter(np.float32(255), 256, dtype=np.float32), np.float32, 255, "from 0 to 255; see numpy.clip("),
        (-1e-300, np.float64, 1, "is -1e-300, "),
        (np.nan, np.float64, 255, "is nan, not a number from 0 to 255"),
        (np.inf, np.float16, 1, "is inf, "),
        (256, np.int64, None, "is 256, not a number from 0 to 255; divide 16 bits by 257"),
        (65535, np.uint16, 255, "; divide 16 bits by 257"),
        (-1, np.int64, None, "is -1, not a number from 0 to 255; see numpy.clip("),
        (2, np.uint8, 1, "is 2, not a number from 0 to 1; see numpy.clip("),
    ],
)
def test_what_does_not_fit_the_scale_is_named(
    taker: Any, value: float, kind: Any, scale: int | None, said: str
) -> None:
    rgb = np.zeros((3, 3), kind)
    rgb[2, 1] = value
    with pytest.raises(ValueError, match=re.escape(said)) as caught:
        taker(rgb, scale=scale)
    assert str(caught.value).startswith("rgb[2, 1] is ")
    if ";" not in said and value != value:
        assert "clip" not in str(caught.value)


def test_alpha_needs_a_background(image: NDArray[np.uint8]) -> None:
    small = image[:20, :20]
    opaque = np.concatenate([small, np.full((20, 20, 1), 255, np.uint8)], axis=2)
    with pytest.raises(ValueError, match=r"four channels: pass background=\(r, g, b\) .* or only rgb"):
        PALETTE.nearest_batch(opaque, 1)
    np.testing.assert_array_equal(
        PALETTE.nearest_batch(opaque, 1, background=(9, 9, 9)), PALETTE.nearest_batch(small, 1)
    )
    half = opaque.copy()
    half[..., 3] = 51  # a fifth
    seen = small / 5 + np.array([255, 0, 128]) * 0.8
    for given, scale in ((half, None), (half / 255, 1)):
        found = PALETTE.nearest_batch(given, 1, background=(255, 0, 128), scale=scale)
        expected = PALETTE.nearest_batch(seen, 1, scale=255)
        np.testing.assert_array_equal(found[0], expected[0])
        np.testing.assert_allclose(found[1], expected[1], rtol=0, atol=1e-9)
    white = np.full((256, 4), 255, np.uint8)
    white[:, 3] = range(256)
    np.testing.assert_allclose(
        PALETTE.delta_e(white, background=(255, 255, 255)), [PALETTE.delta_e((255, 255, 255))] * 256, rtol=0, atol=1e-9
    )
    clear = opaque.copy()
    clear[..., 3] = 0
    np.testing.assert_allclose(
        PALETTE.delta_e(clear, background=(255, 0, 128))[3, 4], PALETTE.delta_e((255, 0, 128)), rtol=0, atol=1e-9
    )
    for background in ((1, 2), (1, 2, 256), (-1e-9, 2, 3), (1, 2, float("nan"))):
        with pytest.raises(ValueError, match="background must be three numbers from 0 to 255"):
            PALETTE.nearest_batch(opaque, 1, background=background)
    for beyond in ([1, 2, 3, 256], [1, 2, 300, 100], [1, -1, 3, 0]):
        with pytest.raises(ValueError, match=r"^rgb\[0, \d\] is .* not a number from 0 to 255"):
            PALETTE.nearest_batch([beyond], 1, background=(0, 0, 0))
