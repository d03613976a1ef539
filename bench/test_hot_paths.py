"""The hot paths that the gate counts, timed."""

import pytest
from bench.hot_paths import HotPath, hot_paths
from pytest_benchmark.fixture import BenchmarkFixture


@pytest.fixture(scope="session")
def paths(service_url: str) -> dict[str, HotPath]:
    return {path.name: path for path in hot_paths(service_url)}


@pytest.mark.parametrize("name", [path.name for path in hot_paths("any")])
def test_10_times(benchmark: BenchmarkFixture, paths: dict[str, HotPath], name: str) -> None:
    benchmark(paths[name].run, 10)
