"""Provides the user as whom root runs Postgres, because Postgres refuses to run as root."""

import os
import pwd
import shutil
import subprocess
from pathlib import Path
from typing import IO

from sepu import limits
from sepu.errors import StartError

SYSTEM_USER = "sepu-postgres"

# The directory that root creates for that user, who cannot enter /root, for example.
REACHABLE = Path("/var/lib") / SYSTEM_USER


def system_user() -> pwd.struct_passwd | None:
    """Returns the user for Postgres, or None for the current user; creates the user if necessary."""
    if os.geteuid() != 0:
        try:
            pwd.getpwuid(os.geteuid())
        except KeyError:
            raise StartError(
                f"Postgres runs only as a user with a name, and user id {os.geteuid()} has none; "
                "name a database of your own with --database-url, or give the id a name in /etc/passwd"
            ) from None
        return None
    try:
        return pwd.getpwnam(SYSTEM_USER)
    except KeyError:
        pass
    useradd = shutil.which("useradd", path="/usr/sbin:/sbin:/usr/bin:/bin")
    if useradd is None:
        raise StartError(
            "Postgres does not run as root, and useradd, which creates a user for it, is missing; "
            "start sepu as another user, or name a database with --database-url"
        )
    made = subprocess.run(  # noqa: S603
        [useradd, "--system", "--no-create-home", "--shell", "/usr/sbin/nologin", SYSTEM_USER],
        capture_output=True,
        text=True,
        check=False,
    )
    if made.returncode != 0:
        raise StartError(f"cannot create the user {SYSTEM_USER} for Postgres: {made.stderr.strip()}")
    return pwd.getpwnam(SYSTEM_USER)


def spawn(
    user: pwd.struct_passwd | None, *command: str | Path, output: IO[bytes] | int = subprocess.DEVNULL
) -> subprocess.Popen[bytes]:
    """Starts a program in a new session, where Ctrl-C does not reach it."""
    return subprocess.Popen(  # noqa: S603
        command,
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=subprocess.STDOUT,
        env={"LC_ALL": "C", "PATH": os.environ.get("PATH", os.defpath)},
        cwd="/",
        user=user and user.pw_uid,
        group=user and user.pw_gid,
        extra_groups=[] if user else None,
        start_new_session=True,
    )


def make_reachable(user: pwd.struct_passwd) -> None:
    """Creates the directory that the user can reach."""
    try:
        if not REACHABLE.exists():
            REACHABLE.mkdir()
            REACHABLE.chmod(0o711)
        can = can_enter(user, REACHABLE)
    except OSError:
        can = False
    if not can:
        raise StartError(
            f"Postgres runs as {SYSTEM_USER}, but {REACHABLE} cannot be created; start sepu as another user, with a "
            "--state-dir of its own, or name a database with --database-url"
        )


def can_enter(user: pwd.struct_passwd, path: Path) -> bool:
    """Returns whether the user can enter a directory."""
    return can_run(user, "/bin/sh", "-c", 'cd "$1"', "sh", path)


def can_run(user: pwd.struct_passwd, *command: str | Path) -> bool:
    """Returns whether the command succeeds when the user runs it."""
    try:
        return spawn(user, *command).wait(limits.embedded.START_SECONDS) == 0
    except (OSError, subprocess.TimeoutExpired):
        return False
