"""Test colours: at random, and by hypothesis."""

import numpy as np
from hypothesis import strategies as st
from numpy.typing import NDArray

Rgb = tuple[float, float, float]

channels = st.one_of(st.integers(0, 255).map(float), st.floats(0, 255))
colours: st.SearchStrategy[Rgb] = st.tuples(channels, channels, channels)


def random_rgb(count: int, seed: int = 2005) -> NDArray[np.float64]:
    return np.random.default_rng(seed).uniform(0, 255, (count, 3))
