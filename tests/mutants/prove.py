"""`make prove-ledger`: puts a fault into a copy of the package, one at a time, and shows that a test notices it.

A mutant is a patch beside this file. Its head says which promise it breaks, and the test that notices that.
"""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree

import click
from tests.package import Package, StalePatchError, copied, patched

PATCHES = Path(__file__).parent
ROOT = PATCHES.parents[1]
# What a mutant does not break, or it would be no more than a release that fails at once.
ORDINARY_USE = "tests/metering/test_ordinary_use.py"
MOST_SECONDS = 1800
# For one test: what is not over by then says nothing, so a busy machine makes no mutant noticed.
TEST_SECONDS = 300


class BadMutantError(Exception):
    """A mutant that shows nothing; the message says why."""


class Mutant(NamedTuple):
    """A fault of the ledger."""

    patch: Path
    promise: str
    check: str

    @property
    def name(self) -> str:
        return self.patch.stem


def mutant(patch: Path) -> Mutant:
    """Reads the head of a patch.

    Raises:
        BadMutantError: it has another form.
    """
    head = patch.read_text("utf-8").splitlines()[:2]
    values = [line.removeprefix(name) for name, line in zip(("Promise: ", "Noticed by: "), head, strict=False)]
    if len(values) != 2 or any(value == line or not value for value, line in zip(values, head, strict=True)):
        raise BadMutantError(f"{patch.name} has to begin with two lines: Promise: ..., and Noticed by: tests/...")
    return Mutant(patch, *values)


def mutants(names: Sequence[str] = ()) -> list[Mutant]:
    """Reads all mutants, or those of these names.

    Raises:
        BadMutantError: there is no such mutant.
    """
    patches = [PATCHES / f"{name}.patch" for name in names] or sorted(PATCHES.glob("*.patch"))
    if missing := [patch.stem for patch in patches if not patch.exists()]:
        raise BadMutantError(f"there is no mutant {', '.join(missing)}; they are the patches in {PATCHES}")
    return [mutant(patch) for patch in patches]


@dataclass(frozen=True)
class Report:
    """What came of some tests, by their names: what pytest says of each that did not pass."""

    failed: dict[str, str]
    unusable: dict[str, str]
    """Skipped, not even begun, or not over in time: tests that say nothing."""


def run(package: Package, *checks: str) -> Report:
    """Runs tests of this directory with a copy of the package."""
    with tempfile.TemporaryDirectory() as directory:
        report = Path(directory) / "report.xml"
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--timeout={TEST_SECONDS}"]
        try:
            done = subprocess.run(
                [*command, f"--junitxml={report}", *checks],
                cwd=ROOT,
                env=package.environment,
                capture_output=True,
                text=True,
                check=False,
                timeout=MOST_SECONDS,
            )
        except subprocess.TimeoutExpired:
            return Report({}, {" ".join(checks): f"not over after {MOST_SECONDS} s"})
        cases = list(ElementTree.parse(report).iter("testcase")) if report.exists() else []
        found = Report({}, {} if cases else {" ".join(checks): (done.stdout + done.stderr)[-2000:]})
        for case in cases:
            name = f"{(case.get('classname') or '').replace('.', '/')}.py::{case.get('name')}"
            bad = [part for part in case if part.tag in ("failure", "error", "skipped")]
            said = {part.tag: (part.get("message") or "").partition("\n")[0] for part in bad}
            if "failure" in said and "from pytest-timeout" not in said["failure"]:
                found.failed[name] = said["failure"]
            elif said:
                found.unusable[name] = str(said)
        return found


class Trial(NamedTuple):
    """What became of a mutant."""

    mutant: Mutant
    seconds: float
    noticed_by: str = ""
    why: str = ""
    """What is wrong with the mutant or its test."""

    def __str__(self) -> str:
        told = "noticed" if self.noticed_by else "FAILED"
        what = self.noticed_by or self.why
        return f"{told:7}  {self.seconds:5.1f} s  {self.mutant.name:40}  {what}\n{'':19}{self.mutant.promise}"


def try_out(one: Mutant, ordinary_use: str = ORDINARY_USE) -> Trial:
    """Runs what is ordinary and the test that the mutant names, with the mutant."""
    began = time.monotonic()
    noticed_by = why = ""
    with tempfile.TemporaryDirectory(prefix="sepu-mutant-") as directory:
        try:
            report = run(patched(Path(directory), one.patch), ordinary_use, one.check)
        except StalePatchError as error:
            why = str(error)
        else:
            broken = {name: said for name, said in report.failed.items() if name.startswith(ordinary_use)}
            if broken | report.unusable:
                why = f"it breaks more than its promise: {broken | report.unusable}"
            elif report.failed:
                noticed_by = next(iter(report.failed))
            else:
                why = f"it lives: {one.check} passes. Write a test that does not, or name another in the patch"
    return Trial(one, time.monotonic() - began, noticed_by, why)


def try_all(those: Sequence[Mutant], jobs: int) -> Iterator[Trial]:
    """Tries mutants, so many at a time.

    Raises:
        BadMutantError: a test that has to notice a mutant does not pass without one.
    """
    with tempfile.TemporaryDirectory(prefix="sepu-mutant-") as directory:
        report = run(copied(Path(directory)), ORDINARY_USE, *sorted({one.check for one in those}))
    if report.failed or report.unusable:
        raise BadMutantError(f"without a mutant, these tests have to pass: {report.failed | report.unusable}")
    with ThreadPoolExecutor(jobs) as threads:
        yield from threads.map(try_out, those)


@click.command()
@click.option("--jobs", "-j", default=os.cpu_count() or 1, show_default=True, help="So many at a time.")
@click.argument("names", nargs=-1)
def main(jobs: int, names: tuple[str, ...]) -> None:
    """Tries all mutants, or those of these names; fails if one is not noticed by the test that it names."""
    began = time.monotonic()
    noticed = 0
    try:
        those = mutants(names)
        for trial in try_all(those, jobs):
            click.echo(str(trial))
            noticed += bool(trial.noticed_by)
    except BadMutantError as error:
        raise click.ClickException(str(error)) from error
    click.echo(f"{noticed} of {len(those)} mutants noticed, {time.monotonic() - began:.0f} s")
    sys.exit(noticed < len(those))


if __name__ == "__main__":
    main()
