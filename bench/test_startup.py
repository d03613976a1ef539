"""How long new processes take: one that does nothing, imports, the command line, and the service until it is ready."""

import subprocess
import sys
from contextlib import ExitStack

import pytest
from pytest_benchmark.fixture import BenchmarkFixture
from tests.harness.serving import SEPU, serving

ROUNDS = 10
PROGRAMS = {
    "an interpreter that does nothing": [sys.executable, "-c", "pass"],
    "import numpy": [sys.executable, "-c", "import numpy"],
    "import sepu, the library": [sys.executable, "-c", "import sepu"],
    "sepu match": [str(SEPU), "match", "#c83c23"],
    "all that serves, imported": [sys.executable, "-c", "import sepu.server.uvloop, sepu.server.gunicorn"],
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_program(benchmark: BenchmarkFixture, name: str) -> None:
    how = {"check": True, "stdout": subprocess.DEVNULL}
    benchmark.pedantic(subprocess.run, (PROGRAMS[name],), how, rounds=ROUNDS)


def test_until_ready(benchmark: BenchmarkFixture, service_url: str) -> None:
    """Until /readyz, which is asked every 50 ms, answers 200; on a database that is running and migrated."""
    with ExitStack() as stack:
        start = lambda: stack.enter_context(serving("uvloop", service_url, workers=2))  # noqa: E731
        benchmark.pedantic(start, teardown=stack.close, rounds=ROUNDS)
