"""Finds a place for the state directory, and checks who may enter it."""

import os
import pwd
import stat
import tempfile
from pathlib import Path

from sepu.server.embedded import system_user as system
from sepu.server.embedded.system_user import SYSTEM_USER, can_enter, make_reachable, system_user
from sepu.server.start_error import StartError, say, unwritable


def real(state_dir: Path) -> Path:
    """Returns the path without links, if Postgres can take it."""
    real = Path(os.path.realpath(state_dir))
    if not str(real).isprintable():
        raise StartError(f"Postgres cannot take the path {str(real)!a}; choose another, --state-dir")
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
        # Asked first: between these questions a server that starts at the same time may let the user in, and fill it.
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
