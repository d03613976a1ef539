"""The docstrings of the compiled module, cext/_index_builder.pyx, give shapes, units and errors."""

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike, NDArray

def build_index(
    labs: NDArray[np.float64],
    difference: int,
    k: int,
    digest: bytes,
    threads: int,
    progress: Callable[[float], object] | None,
) -> bytes: ...
def delta_e_bounds(
    labs: NDArray[np.float64], low: ArrayLike, width: float, difference: int, instruction_set: int = 0
) -> NDArray[np.float64]: ...
