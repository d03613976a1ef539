"""The mutants apply, name a test and are documented, and `make prove-ledger` tells a mutant that lives."""

from difflib import unified_diff
from pathlib import Path

import pytest
from tests.mutants.prove import ROOT, BadMutantError, Mutant, mutant, mutants, try_all, try_out
from tests.package import Package, StalePatchError, apply, copied, patched

KEYS = "sepu/metering/key_format.py"
FORM = "tests/metering/test_keys.py::test_form"
ORDINARY_USE = "tests/metering/test_keys.py::test_a_credential_shows_no_secret"
MALFORMED = "tests/metering/test_keys.py::test_malformed"
DETAILS = ROOT / "docs/reliability-details.md"


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Package:
    return copied(tmp_path_factory.mktemp("package"))


def planted(directory: Path, old: str, new: str, check: str = FORM) -> Mutant:
    """A mutant of the keys."""
    text = (ROOT / "src" / KEYS).read_text("utf-8")
    assert old in text
    diff = unified_diff(
        text.splitlines(keepends=True), text.replace(old, new).splitlines(keepends=True), f"a/{KEYS}", f"b/{KEYS}", n=2
    )
    patch = directory / "planted.patch"
    patch.write_text(f"Promise: A key has its form.\nNoticed by: {check}\n\n{''.join(diff)}", "utf-8")
    return mutant(patch)


def test_there_are_thirty() -> None:
    assert len(mutants()) >= 30
    assert len({one.promise for one in mutants()}) == len(mutants())


@pytest.mark.parametrize("one", mutants(), ids=lambda one: one.name)
def test_a_mutant_applies_and_names_a_test(one: Mutant, package: Package) -> None:
    apply(one.patch, package, "--check")
    path, _, name = one.check.partition("::")
    assert f"def {name.partition('[')[0]}(" in (ROOT / path).read_text("utf-8")


def test_the_documents_tell_who_notices_which() -> None:
    table = "\n".join(f"| `{one.name}` | {one.promise} | `{one.check.removeprefix('tests/')}` |" for one in mutants())
    assert f"\n{table}\n\n" in DETAILS.read_text("utf-8"), f"the table of {DETAILS.name} has to be:\n{table}"


# old, new, test, who notices, what is told
TRIALS = {
    "noticed by its test": (".fullmatch(key)\n", ".match(key)\n", MALFORMED, MALFORMED, "noticed"),
    "noticed by another": (".fullmatch(key)\n", ".match(key)\n", FORM, MALFORMED, "name it in the patch"),
    "alive": ("# of 35 bits", "# of thirty-five bits", FORM, "", "it lives: no test of"),
    "crude": ("if form is None", "if form", FORM, "", "it breaks more than its promise"),
}


@pytest.mark.parametrize("what", TRIALS)
def test_what_becomes_of_a_mutant_is_told(tmp_path: Path, what: str) -> None:
    old, new, check, noticed_by, told = TRIALS[what]
    trial = try_out(planted(tmp_path, old, new, check), others=[MALFORMED], ordinary_use=ORDINARY_USE)
    assert (trial.noticed_by.partition("[")[0], trial.as_named) == (noticed_by, noticed_by == check)
    assert told in str(trial)


def test_a_test_that_does_not_pass_by_itself_notices_nothing(tmp_path: Path) -> None:
    one = planted(tmp_path, "# of 35 bits", "# of thirty-five bits", f"{FORM}_that_there_is_not")
    with pytest.raises(BadMutantError, match="without a mutant, these tests have to pass"):
        list(try_all([one], jobs=1))


def test_a_patch_that_does_not_apply_tells_what_to_do(tmp_path: Path) -> None:
    one = planted(tmp_path, "# of 35 bits", "# of thirty-five bits")
    one.patch.write_text(one.patch.read_text("utf-8").replace("of 35 bits", "of 36 bits"), "utf-8")
    with pytest.raises(StalePatchError, match="git apply --reject"):
        patched(tmp_path, one.patch)
    assert "make its change anew" in str(try_out(one))


def test_a_patch_without_a_promise_is_refused(tmp_path: Path) -> None:
    patch = tmp_path / "nothing.patch"
    for head in ("", "Promise: it holds\n", "Promise: \nNoticed by: tests\n", "Noticed by: tests\nPromise: it holds\n"):
        patch.write_text(head, "utf-8")
        with pytest.raises(BadMutantError, match="has to begin with two lines"):
            mutant(patch)
