"""A run of the tests says at its end what it left out, and how to run it."""

import sys
from pathlib import Path

import pytest
from tests.left_out import ELSEWHERE, elsewhere
from tests.processes import completed

ROOT = Path(__file__).parents[1]
TESTS = """
import pytest

@pytest.mark.slow
@pytest.mark.parametrize("number", range(3))
def test_slow(number): ...

@pytest.mark.parametrize("number", range(4))
def test_of_a_program(number):
    pytest.skip("there is no promtool (Debian: apt install prometheus)")

def test_of_root():
    pytest.skip("only root can")
"""
PLUGIN = "from tests.left_out import LeftOut\ndef pytest_configure(config): config.pluginmanager.register(LeftOut())"


@pytest.mark.slow
def test_it_says_how_to_run_what_it_left_out(tmp_path: Path) -> None:
    (tmp_path / "test_some.py").write_text(TESTS)
    (tmp_path / "conftest.py").write_text(PLUGIN)
    settings = ("testpaths=.", f"pythonpath={ROOT}", "markers=slow")
    chosen = [part for setting in settings for part in ("-o", setting)]
    done = completed([sys.executable, "-m", "pytest", *chosen, "-m", "not slow", "-n", "2"], cwd=tmp_path)
    assert done.stdout.partition(" left out ")[2].splitlines()[1:-1] == [
        "3 slow tests: make test-all",
        "4 skipped: there is no promtool (Debian: apt install prometheus)",
        "1 skipped: only root can",
        *elsewhere(),
    ]


def test_each_target_is_described_in_the_makefile() -> None:
    assert [line.rpartition(": make ")[2] for line in elsewhere()] == list(ELSEWHERE)
