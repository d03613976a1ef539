"""The mutants apply, and each names a test."""

import subprocess
import sys

import pytest
from tests.mutants.prove import ROOT, Mutant, mutants
from tests.package import Package, copied, edited_files


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Package:
    return copied(tmp_path_factory.mktemp("package"))


@pytest.mark.parametrize("one", mutants(), ids=lambda one: one.name)
def test_a_mutant_applies_and_names_a_test(one: Mutant, package: Package) -> None:
    edited_files(package, one.edits)
    path, _, name = one.check.partition("::")
    assert f"def {name.partition('[')[0]}(" in (ROOT / path).read_text("utf-8")


# Only `make test-all` runs tests with real servers and deliverers under load.
OUTER = ("tests/faults/", "tests/cli/test_events.py")


@pytest.mark.slow
def test_what_notices_a_mutant_is_run_by_make_test() -> None:
    checks = sorted({one.check for one in mutants()})
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-m", "not slow", *checks]
    inner = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False).stdout
    assert [check for check in checks if check not in inner and not check.startswith(OUTER)] == []
