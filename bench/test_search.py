"""The name index by itself: `make bench`."""

import pytest
from bench.queries import QUERIES
from pytest_benchmark.fixture import BenchmarkFixture

import sepu

RELEASE = sepu.load()
INDEX = RELEASE.names()


@pytest.mark.parametrize("q", ["粉红", "hong", "fěn hóng", "blue g", "powdr pink", "purple rain", "ＦＥＮ hong"])
def test_search(benchmark: BenchmarkFixture, q: str) -> None:
    benchmark(INDEX.search, q, 10)


def test_search_for_every_query(benchmark: BenchmarkFixture) -> None:
    benchmark(lambda: [INDEX.search(q, 10) for q in QUERIES])


def test_index(benchmark: BenchmarkFixture) -> None:
    benchmark(RELEASE.names)
