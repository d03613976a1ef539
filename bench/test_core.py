"""The colour core by itself: `make bench`."""

import numpy as np
import pytest
from pytest_benchmark.fixture import BenchmarkFixture

import sepu

PALETTE = sepu.load().palette()
RGB = np.random.default_rng(161).integers(0, 256, (10_000, 3))
LAB = sepu.srgb_to_lab(RGB)


@pytest.mark.parametrize("k", [1, 3])
def test_nearest_1_000_times(benchmark: BenchmarkFixture, k: int) -> None:
    colours = RGB[:1_000].tolist()
    benchmark(lambda: [PALETTE.nearest(r, g, b, k) for r, g, b in colours])


@pytest.mark.parametrize("k", [1, 3])
def test_nearest_batch_of_10_000(benchmark: BenchmarkFixture, k: int) -> None:
    benchmark(PALETTE.nearest_batch, RGB, k)


def test_delta_e_of_1_000(benchmark: BenchmarkFixture) -> None:
    benchmark(PALETTE.delta_e, RGB[:1_000])


def test_ciede2000_of_9_999_pairs(benchmark: BenchmarkFixture) -> None:
    benchmark(sepu.ciede2000, LAB[1:], LAB[:-1])


def test_srgb_to_lab_of_10_000(benchmark: BenchmarkFixture) -> None:
    benchmark(sepu.srgb_to_lab, RGB)


def test_palette(benchmark: BenchmarkFixture) -> None:
    benchmark(sepu.load().palette)
