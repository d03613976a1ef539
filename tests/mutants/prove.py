"""`make prove-ledger`: puts a fault into a copy of the package, one at a time, and shows that a test notices it.

A mutant is a patch beside this file. Its head says which promise it breaks, and the test that notices that.
"""

import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import click
from tests.package import Package, StalePatchError, copied, patched

PATCHES = Path(__file__).parent
ROOT = PATCHES.parents[1]
# What a mutant does not break, or it would be no more than a release that fails at once.
ORDINARY_USE = "tests/metering/test_ordinary_use.py"
# For one test: what is not over by then says nothing, so a busy machine makes no mutant noticed.
TEST_SECONDS = 300


class Mutant(NamedTuple):
    """A fault of the ledger."""

    patch: Path
    promise: str
    check: str

    @property
    def name(self) -> str:
        return self.patch.stem


def mutant(patch: Path) -> Mutant:
    """Reads the head of a patch."""
    head = re.match(r"Promise: (.+)\nNoticed by: (tests/.+)\n", patch.read_text("utf-8"))
    if not head:
        raise click.ClickException(f"{patch.name} has to begin with two lines: Promise: ..., and Noticed by: tests/...")
    return Mutant(patch, *head.groups())


def mutants(names: Sequence[str] = ()) -> list[Mutant]:
    """Reads all mutants, or those of these names."""
    patches = [PATCHES / f"{name}.patch" for name in names] or sorted(PATCHES.glob("*.patch"))
    if missing := [patch.stem for patch in patches if not patch.exists()]:
        raise click.ClickException(f"there is no mutant {', '.join(missing)}; they are the patches in {PATCHES}")
    return [mutant(patch) for patch in patches]


def failures(package: Package, *checks: str) -> tuple[list[str], str]:
    """Runs tests with a copy of the package: which fail, and what pytest says if some say nothing.

    Such are skipped, not even begun, or not over in time.
    """
    command = [sys.executable, "-m", "pytest", "-q", "-rfEs", "-p", "no:cacheprovider", f"--timeout={TEST_SECONDS}"]
    done = subprocess.run(
        [*command, *checks], cwd=ROOT, env=package.environment, capture_output=True, text=True, check=False
    )
    says_nothing = re.search(r"^(ERROR tests|SKIPPED \[)|from pytest-timeout", done.stdout, re.MULTILINE)
    unusable = done.returncode > 1 or says_nothing
    return re.findall(r"^FAILED (.+?)(?: - .*)?$", done.stdout, re.MULTILINE), done.stdout[-2000:] if unusable else ""


class Trial(NamedTuple):
    """What became of a mutant."""

    mutant: Mutant
    seconds: float
    noticed_by: str
    why: str
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
            failed, unusable = failures(patched(Path(directory), one.patch), ordinary_use, one.check)
        except StalePatchError as error:
            why = str(error)
        else:
            broken = [name for name in failed if name.startswith(ordinary_use)]
            if broken or unusable:
                why = f"it breaks more than its promise: {broken} {unusable}"
            elif failed:
                noticed_by = failed[0]
            else:
                why = f"it lives: {one.check} passes. Write a test that does not, or name another in the patch"
    return Trial(one, time.monotonic() - began, noticed_by, why)


def try_all(those: Sequence[Mutant], jobs: int) -> Iterator[Trial]:
    """Tries mutants, so many at a time; first, that their tests pass without one."""
    with tempfile.TemporaryDirectory(prefix="sepu-mutant-") as directory:
        failed, unusable = failures(copied(Path(directory)), ORDINARY_USE, *sorted({one.check for one in those}))
    if failed or unusable:
        raise click.ClickException(f"without a mutant, these tests have to pass: {failed} {unusable}")
    with ThreadPoolExecutor(jobs) as threads:
        yield from threads.map(try_out, those)


@click.command()
@click.option("--jobs", "-j", default=os.cpu_count() or 1, show_default=True, help="So many at a time.")
@click.argument("names", nargs=-1)
def main(jobs: int, names: tuple[str, ...]) -> None:
    """Tries all mutants, or those of these names; fails if one is not noticed by the test that it names."""
    those = mutants(names)
    noticed = 0
    for trial in try_all(those, jobs):
        click.echo(str(trial))
        noticed += bool(trial.noticed_by)
    click.echo(f"{noticed} of {len(those)} mutants noticed")
    sys.exit(noticed < len(those))


if __name__ == "__main__":
    main()
