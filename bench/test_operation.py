"""The operations, from the bytes of a request to its answer and fingerprint, and the judgement of a request. No I/O."""

import pytest
from bench.hot_paths import hot_paths
from pytest_benchmark.fixture import BenchmarkFixture

PATHS = {path.name: path for path in hot_paths() if path.name.startswith(("operation", "judgement"))}


@pytest.mark.parametrize("name", PATHS)
def test_10_times(benchmark: BenchmarkFixture, name: str) -> None:
    benchmark(PATHS[name].run, 10)
