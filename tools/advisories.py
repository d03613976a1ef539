"""Looks for known vulnerabilities in all pinned packages of Python and npm, and in the embedded Postgres.

`make advisories` calls it. A source that cannot be asked is a failure; the others are still asked.
"""

import json
import re
import shutil
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import click

from sepu.database.embedded.programs import programs

ROOT = Path(__file__).parents[1]
AUDIT = ROOT / "build/advisories/bin/pip-audit"
VERSIONS = "https://www.postgresql.org/versions.json"
_SECONDS = 30


class AdvisoryError(Exception):
    """Says what was found, or why nothing could be asked."""


def python() -> None:
    """Asks PyPI about each lock of `requirements/`."""
    locks = sorted((ROOT / "requirements").glob("*.txt"))
    options = ["--strict", "--disable-pip", "--require-hashes", "--progress-spinner", "off"]
    _run([str(AUDIT), *options, *(word for lock in locks for word in ("-r", str(lock)))])


def npm() -> None:
    """Asks npm's registry about the lock of `requirements/npm`."""
    program = shutil.which("npm")
    if program is None:
        raise AdvisoryError("npm is missing (Debian: apt install npm)")
    _run([program, "audit", "--package-lock-only"], ROOT / "requirements/npm")


def embedded_version() -> str:
    """Returns the version of the embedded Postgres, such as 18.2."""
    said = subprocess.run([programs() / "postgres", "--version"], capture_output=True, text=True, check=True).stdout
    found = re.search(r"\d+\.\d+", said)
    if found is None:
        raise AdvisoryError(f"the embedded Postgres prints no version: {said!r}")
    return found[0]


def postgres(versions: str = VERSIONS) -> None:
    """Asks the PostgreSQL project whether the embedded one is supported and has its latest fixes."""
    own = embedded_version()
    major, minor = own.split(".")
    try:
        with urllib.request.urlopen(versions, timeout=_SECONDS) as answer:
            released: list[dict[str, Any]] = json.load(answer)
        latest = next((one for one in released if str(one["major"]) == major), None)
        fixed = int(latest["latestMinor"]) if latest is not None and latest["supported"] else None
    except (OSError, ValueError, LookupError, TypeError) as error:
        raise AdvisoryError(f"{versions} cannot be read: {error}") from error
    if fixed is None:
        raise AdvisoryError(f"PostgreSQL {own} is not supported any more")
    if fixed > int(minor):
        raise AdvisoryError(f"PostgreSQL {own} lacks the fixes of {major}.{fixed}; see its release notes")


def _run(command: Sequence[str], directory: Path = ROOT) -> None:
    status = subprocess.run(command, cwd=directory, check=False).returncode
    if status:
        raise AdvisoryError(f"{Path(command[0]).name} found something or could not ask, as it says above")


def main(checks: Sequence[Callable[[], None]] = (python, npm, postgres)) -> None:
    """Runs all checks, and exits with 1 if one fails."""
    failed = False
    for check in checks:
        try:
            check()
        except AdvisoryError as error:
            failed = True
            click.echo(f"sepu: advisories: {check.__name__}: {error}", err=True)
        else:
            click.echo(f"sepu: advisories: {check.__name__}: nothing is known")
    sys.exit(failed)


if __name__ == "__main__":
    main()
