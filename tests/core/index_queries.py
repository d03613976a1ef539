"""Palettes, and colours for which an index could give a different answer than the search without it."""

import numpy as np
from numpy.typing import NDArray

from sepu._palette import Palette


def assert_same_answers(indexed: Palette, general: Palette, rgb: NDArray[np.float64], most: int) -> None:
    """Compares all answers up to `most` matches, bit for bit."""
    assert indexed.index is not None
    assert general.index is None
    for k in range(1, min(most, general.size) + 1):
        for found, expected in zip(
            indexed.nearest_batch(rgb, k, scale=255), general.nearest_batch(rgb, k, scale=255), strict=True
        ):
            np.testing.assert_array_equal(found, expected)


def mixed_palette(seed: int = 42) -> NDArray[np.float64]:
    """Colours of every kind: greys, non-integers, near-duplicates, the corners of the cube, and others."""
    rng = np.random.default_rng(seed)
    greys = np.repeat(rng.integers(0, 256, (6, 1)), 3, axis=1)
    corners = np.stack(np.meshgrid([0, 255], [0, 255], [0, 255]), axis=-1).reshape(-1, 3)
    others = rng.uniform(0, 255, (20, 3))
    return np.concatenate([greys, others, corners, others[:4], others[4:8] * 0.999, greys[:2]])


def queries(members: NDArray[np.float64], count: int, seed: int = 11) -> NDArray[np.float64]:
    """Random points, real and whole; points on and next to cell borders; near-greys; the members."""
    rng = np.random.default_rng(seed)
    borders = rng.integers(0, 128, (count, 3)) * 2.0
    greys = np.repeat(rng.uniform(0, 255, (count, 1)), 3, axis=1)
    return np.concatenate(
        [
            rng.uniform(0, 255, (count, 3)),
            rng.integers(0, 256, (count, 3)),
            borders,
            np.nextafter(borders, rng.choice([0.0, 255.0], (count, 3))),
            greys,
            np.clip(greys + rng.normal(0, 1, (count, 3)), 0, 255),
            members,
            np.clip(members + rng.normal(0, 1e-3, members.shape), 0, 255),
        ]
    )
