"""The mutants apply, name a test and are documented, and `make prove-ledger` tells a mutant that lives."""

import subprocess
import sys
from difflib import unified_diff
from pathlib import Path

import pytest
from tests.mutants.prove import ROOT, Mutant, mutant, mutants, try_out
from tests.package import Package, apply, copied

KEYS = "sepu/metering/key_format.py"
ORDINARY_USE = "tests/metering/test_keys.py::test_a_credential_shows_no_secret"
MALFORMED = "tests/metering/test_keys.py::test_malformed"
DETAILS = ROOT / "docs/reliability-details.md"


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Package:
    return copied(tmp_path_factory.mktemp("package"))


@pytest.mark.parametrize("one", mutants(), ids=lambda one: one.name)
def test_a_mutant_applies_and_names_a_test(one: Mutant, package: Package) -> None:
    apply(one.patch, package, "--check")
    path, _, name = one.check.partition("::")
    assert f"def {name.partition('[')[0]}(" in (ROOT / path).read_text("utf-8")


def test_the_documents_tell_who_notices_which() -> None:
    table = "\n".join(f"| `{one.name}` | {one.promise} | `{one.check.removeprefix('tests/')}` |" for one in mutants())
    assert f"\n{table}\n\n" in DETAILS.read_text("utf-8"), f"the table of {DETAILS.name} has to be:\n{table}"


# Only `make test-all` runs what is real enough for these: servers and deliverers under fire.
OUTER = ("tests/faults/", "tests/cli/test_events.py")


@pytest.mark.slow
def test_what_notices_a_mutant_is_run_by_make_test() -> None:
    checks = sorted({one.check for one in mutants()})
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-m", "not slow", *checks]
    inner = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False).stdout
    assert [check for check in checks if check not in inner and not check.startswith(OUTER)] == []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        (".fullmatch(key)\n", ".match(key)\n", MALFORMED),
        ("# of 35 bits", "# of thirty-five bits", "it lives: "),
        ("if form is None", "if form", "it breaks more than its promise"),
    ],
)
def test_what_becomes_of_a_mutant_is_told(tmp_path: Path, old: str, new: str, told: str) -> None:
    before = (ROOT / "src" / KEYS).read_text("utf-8")
    a, b = (text.splitlines(keepends=True) for text in (before, before.replace(old, new)))
    diff = "".join(unified_diff(a, b, f"a/{KEYS}", f"b/{KEYS}", n=2))
    patch = tmp_path / "planted.patch"
    patch.write_text(f"Promise: A key has its form.\nNoticed by: {MALFORMED}\n\n{diff}", "utf-8")
    trial = try_out(mutant(patch), ORDINARY_USE)
    assert bool(trial.noticed_by) == (told == MALFORMED)
    assert told in str(trial)
