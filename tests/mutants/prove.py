"""`make prove-ledger`: puts one fault at a time into the package or the client, and shows that a test notices it.

A mutant is a table in a `.toml` here: the promise that it breaks, the test that notices, and the edits
(`tests.package`).
"""

import os
import re
import sys
import tempfile
import time
import tomllib
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import click
from tests.harness.processes import completed
from tests.package import Edits, Package, StaleEditError, copied, edited

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
ORDINARY_USE = "tests/metering/test_ordinary_use.py"
ORDINARY_CALLS = "tests/client/test_connections.py::test_a_certificate_of_ones_own"  # for the client
# Per test. A time-out does not count as a failure, so a busy machine makes no mutant noticed.
TEST_SECONDS = 300


class Mutant(NamedTuple):
    name: str
    promise: str
    check: str
    edits: Edits

    @property
    def ordinary(self) -> str:
        """A test that still passes with the mutant; otherwise the mutant would only be a release that always fails."""
        return ORDINARY_CALLS if self.name.startswith("client_") else ORDINARY_USE


def mutants(names: Sequence[str] = (), check: str = "") -> list[Mutant]:
    """Reads all mutants, or those of these names; `check` replaces the test that each names."""
    tables = {
        name: table
        for path in sorted(HERE.glob("*.toml"))
        for name, table in tomllib.loads(path.read_text("utf-8")).items()
    }
    if unknown := set(names) - tables.keys():
        raise click.ClickException(f"there is no mutant {', '.join(sorted(unknown))} in {HERE}/*.toml")
    return [
        Mutant(name, one["promise"], check or one["noticed_by"], {key: one[key] for key in one if "/" in key})
        for name, one in tables.items()
        if name in names or not names
    ]


def failures(package: Package, *checks: str) -> tuple[list[str], str]:
    """Runs tests with a copy of the package: which fail, and pytest's output if some have no result.

    Those were skipped, could not begin, or timed out.
    """
    command = [sys.executable, "-m", "pytest", "-q", "-rfEs", "-p", "no:cacheprovider", f"--timeout={TEST_SECONDS}"]
    command.append("--hypothesis-profile=unshrunk")
    done = completed([*command, *checks], cwd=ROOT, env=package.environment, timeout=None)
    says_nothing = re.search(r"^(ERROR tests|SKIPPED \[)|from pytest-timeout", done.stdout, re.MULTILINE)
    unusable = done.returncode > 1 or says_nothing
    return re.findall(r"^FAILED (.+?)(?: - .*)?$", done.stdout, re.MULTILINE), done.stdout[-2000:] if unusable else ""


def try_out(one: Mutant) -> tuple[bool, str]:
    """Runs ordinary use and the mutant's own test with the mutant: whether it was noticed, and a text."""
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="sepu-mutant-") as directory:
        try:
            failed, unusable = failures(edited(Path(directory), one.edits), one.ordinary, one.check)
        except StaleEditError as error:
            failed, unusable = [], str(error)
    broken = [name for name in failed if name.startswith(one.ordinary)]
    noticed = bool(failed) and not broken and not unusable
    if noticed:
        what = failed[0]
    elif broken or unusable:
        what = f"it breaks more than its promise: {broken} {unusable}"
    else:
        what = f"it lives: {one.check} passes. Write a test that does not, or name another"
    told = "noticed" if noticed else "FAILED"
    seconds = time.monotonic() - began
    return noticed, f"{told:7}  {seconds:5.1f} s  {one.name:40}  {what}\n{'':19}{one.promise}"


@click.command()
@click.option("--jobs", "-j", default=os.cpu_count() or 1, show_default=True, help="So many at a time.")
@click.option("--check", default="", help="A test to run instead of the ones that the mutants name.")
@click.argument("names", nargs=-1)
def main(jobs: int, check: str, names: tuple[str, ...]) -> None:
    """Tries all mutants, or those of these names; fails if one is not noticed by the test that it names."""
    those = mutants(names, check)
    with tempfile.TemporaryDirectory(prefix="sepu-mutant-") as directory:
        failed, unusable = failures(
            copied(Path(directory)), *sorted({name for one in those for name in (one.ordinary, one.check)})
        )
    if failed or unusable:
        raise click.ClickException(f"without a mutant, these tests have to pass: {failed} {unusable}")
    noticed = 0
    with ThreadPoolExecutor(jobs) as threads:
        for it_was, told in threads.map(try_out, those):
            click.echo(told)
            noticed += it_was
    click.echo(f"{noticed} of {len(those)} mutants noticed")
    sys.exit(noticed < len(those))


if __name__ == "__main__":
    main()
