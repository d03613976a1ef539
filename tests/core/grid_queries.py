"""Colours for which a candidate grid could give another answer, and that it gives the same as the general path."""

import numpy as np
from numpy.typing import NDArray

from sepu._palette import Palette

EDGES = sorted(
    {float(np.nextafter(8 * i, end)) for i in range(1, 32) for end in (0, 256)} | {8.0 * i for i in range(32)}
)


def same_answers(members: object, grid: bytes, rgb: NDArray[np.float64], instruction_set: str | None = None) -> None:
    gridded, general = Palette(members, grid, instruction_set=instruction_set), Palette(members)  # type: ignore[arg-type]
    assert gridded.has_grid
    assert not general.has_grid
    for k in range(1, min(5, general.size + 1)):
        for found, expected in zip(gridded.nearest_batch(rgb, k), general.nearest_batch(rgb, k), strict=True):
            np.testing.assert_array_equal(found, expected)


def queries(members: NDArray[np.float64], count: int) -> NDArray[np.float64]:
    """Random points, real and whole; points on and next to the borders of cells; near-greys; the members."""
    rng = np.random.default_rng(11)
    greys = np.repeat(rng.uniform(0, 255, (count, 1)), 3, axis=1)
    return np.concatenate(
        [
            rng.uniform(0, 255, (count, 3)),
            rng.integers(0, 256, (count, 3)),
            rng.choice(np.array(EDGES), (count, 3)),
            greys,
            np.clip(greys + rng.normal(0, 1, (count, 3)), 0, 255),
            members,
            np.clip(members + rng.normal(0, 1e-3, members.shape), 0, 255),
        ]
    )
