"""Numbers that are hard to round to four decimals, and how Python rounds them."""

from math import inf

import numpy as np
from numpy.typing import NDArray


def as_python_writes(value: float) -> bytes:
    return repr(round(value, 4)).encode()


def around(values: NDArray[np.float64], steps: int = 2) -> list[float]:
    """The values, and the nearest `steps` doubles on either side of each."""
    found = [values]
    for end in (0.0, inf):
        beside = values
        for _ in range(steps):
            beside = np.nextafter(beside, end)
            found.append(beside)
    doubles: list[float] = np.concatenate(found).tolist()
    return doubles


def ties(first: int, last: int, step: int = 1) -> NDArray[np.float64]:
    """The doubles nearest to the midpoints between decimals with four places."""
    return (np.arange(first, last, step) + 0.5) / 10_000
