"""Finds a place for the state directory, and checks who may enter it."""

import os
import pwd
import stat
import tempfile
from datetime import UTC, datetime
from pathlib import Path

from sepu.database.embedded import system_user as system
from sepu.database.embedded.locks import unwritable
from sepu.database.embedded.system_user import SYSTEM_USER, can_enter, make_reachable, system_user
from sepu.errors import StartError
from sepu.printable import say

_MOVED = "moved"


def real(state_dir: Path) -> Path:
    """Returns the path without links, if Postgres accepts it."""
    real = Path(os.path.realpath(state_dir))
    if not str(real).isprintable():
        raise StartError(f"Postgres cannot take the path {str(real)!a}; choose another with --state-dir")
    return real


def prepared(state_dir: Path, *, create: bool) -> Path:
    """Returns the real path of a state directory that exists and can be used."""
    path = real(state_dir)
    try:
        if not create and not (path / "postgres").exists():
            raise StartError(
                f"there is no database in {path}: `sepu serve` makes one there; or name another place with "
                "--state-dir, or your own Postgres with --database-url"
            )
        user = system_user()
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            if user is None or can_enter(user, path.parent):
                path.mkdir(mode=0o700, exist_ok=True)
            else:
                path = _placed_elsewhere(path, user)
        if stat.S_IMODE(path.stat().st_mode) & stat.S_IWOTH:
            raise StartError(f"everybody can write to {path}; choose another --state-dir, such as {path / 'sepu'}")
        # Checked first: between these checks, another starting server may let the user in and fill the directory.
        filled = user is not None and any(path.iterdir())
        if user is not None and not can_enter(user, path):
            if filled or not can_enter(user, path.parent):
                raise StartError(
                    f"Postgres runs as {SYSTEM_USER}, who cannot enter {path}; "
                    f"choose another with --state-dir, such as {system.REACHABLE}/state"
                )
            _let_in(path, user)
    except OSError as error:
        raise unwritable(path, error) from error
    return path


def mark_moved(state_dir: Path) -> None:
    """Records in a state directory with a database that the service now uses another database."""
    try:
        if (state_dir / "postgres").exists() and not (state_dir / _MOVED).exists():
            (state_dir / _MOVED).write_text(f"{datetime.now(UTC).date()}\n")  # a person reads it
            say(f"the database in {state_dir} is not used any more; commands without --database-url will say so")
    except OSError as error:
        say(f"cannot record in {state_dir} that the service uses another database: {error.strerror}")


def refuse_moved(state_dir: Path) -> None:
    """Checks that the service has not moved from a state directory to another database.

    Raises:
        StartError: the service has moved.
    """
    if (state_dir / _MOVED).exists():
        raise StartError(
            f"since {(state_dir / _MOVED).read_text().strip()} the service uses another database than the one in "
            f"{state_dir}: name it with SEPU_DATABASE_URL or --database-url; or use the one in {state_dir} with "
            "--state-dir"
        )


def mark_used(state_dir: Path) -> None:
    """Records that the service uses the database of a state directory."""
    (state_dir / _MOVED).unlink(missing_ok=True)


def _placed_elsewhere(path: Path, user: pwd.struct_passwd) -> Path:
    """Creates the state directory where the user can reach it, and a link to it."""
    make_reachable(user)
    real = Path(tempfile.mkdtemp(prefix=f"{path.parent.name}-", dir=system.REACHABLE))
    _let_in(real, user)
    path.symlink_to(real)
    say(f"the database is in {real}, and {path} is a link to it: Postgres runs as {SYSTEM_USER}, who cannot reach it")
    return real


def _let_in(path: Path, user: pwd.struct_passwd) -> None:
    os.chown(path, -1, user.pw_gid)
    path.chmod(0o710)
