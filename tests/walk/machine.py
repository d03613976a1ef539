"""A fresh Debian 12 with systemd, in a container without a network; its changes are discarded."""

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
from tests.harness.processes import children, completed, running, until

ROOT = Path(__file__).parents[2]
BUILD = ROOT / "build" / "walk"
_TREE = BUILD / "debian"
_WHEELS = BUILD / "wheels"
_CLONE = BUILD / "sepu"
# Packages that the pages install, and those of an ordinary Debian server.
_INSTALLED = (
    "python3-venv,python3-dev,gcc,libc6-dev,nginx,openssl,postgresql-15,prometheus-node-exporter"
    ",prometheus-postgres-exporter,systemd-sysv,dbus,curl,git,procps,iproute2,jq,ca-certificates"
)
_DEBOOTSTRAP, _NSPAWN, _NSENTER = "/usr/sbin/debootstrap", "/usr/bin/systemd-nspawn", "/usr/bin/nsenter"
_START_SECONDS = 120
_COMMAND_SECONDS = 600
_SCRIPT = "/run/walk.sh"


def lacking() -> str | None:
    """What to install first, if anything."""
    if os.geteuid() == 0 and Path(_DEBOOTSTRAP).exists() and Path(_NSPAWN).exists():
        return None
    return "make walk needs root and two programs (Debian: apt install debootstrap systemd-container)"


def prepare() -> None:
    """Installs Debian and fetches the requirements, once; only this needs the network. Clones the last commit."""
    BUILD.mkdir(parents=True, exist_ok=True)
    ready = BUILD / "debian-ready"
    if not ready.exists() or ready.read_text() != _INSTALLED:
        shutil.rmtree(_TREE, ignore_errors=True)
        subprocess.run([_DEBOOTSTRAP, f"--include={_INSTALLED}", "bookworm", _TREE], check=True)
        ready.write_text(_INSTALLED)
    fetch = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--require-hashes"]
    debian = ["-d", str(_WHEELS), "--python-version", "3.11"]
    what = ["-r", "requirements/build.txt", "-r", "requirements/server.txt"]
    subprocess.run([*fetch, *debian, *what], cwd=ROOT, check=True)
    shutil.rmtree(_CLONE, ignore_errors=True)  # a clone: a work tree's history may be elsewhere
    subprocess.run(["git", "clone", "--quiet", "--no-hardlinks", ROOT, _CLONE], check=True)


def _inits(container: int) -> list[psutil.Process]:
    """The container's systemd processes; empty until it has booted that far."""
    return [each for each in children(container) if each.name() == "systemd"]


@contextmanager
def machine() -> Iterator[int]:
    """Boots it; yields the process id of its systemd."""
    start = [_NSPAWN, "--quiet", "--register=no", "--keep-unit", "--private-network", "--volatile=overlay"]
    binds = [f"--bind-ro={_CLONE}:/mnt/sepu", f"--bind-ro={_WHEELS}:/mnt/wheels"]
    named = [f"--directory={_TREE}", f"--machine=sepu-walk-{os.getpid()}", "--console=pipe", "--boot"]
    with (BUILD / "boot.log").open("w") as log:
        streams = {"stdin": subprocess.DEVNULL, "stdout": log, "stderr": log}
        with running([*start, *binds, *named], **streams) as container:
            until(lambda: _inits(container.pid), seconds=_START_SECONDS, why=(BUILD / "boot.log").read_text)
            (init,) = _inits(container.pid)
            until(
                lambda: _inside(init.pid, "systemctl", "is-system-running").stdout.strip() in {"running", "degraded"},
                seconds=_START_SECONDS,
                why=(BUILD / "boot.log").read_text,
            )
            try:
                yield init.pid
            finally:
                init.kill()  # the others end with it


def _inside(init: int, *command: str, text: str = "") -> subprocess.CompletedProcess[str]:
    return completed([_NSENTER, "--target", str(init), "--all", *command], input=text)


# Runs a command, and returns its exit status, output and duration in seconds.
Run = Callable[[str], tuple[int, str, float]]


@contextmanager
def shell(init: int, prepared: str) -> Iterator[Run]:
    """A root's bash in the machine: a command's exports hold for the next ones."""
    command = [_NSENTER, "--target", str(init), "--all", "timeout", str(_COMMAND_SECONDS), "bash", "-l"]
    environment = {"HOME": "/root", "TERM": "dumb", "PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LANG": "C.UTF-8"}
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    with running(command, text=True, env=environment, **pipes) as process:
        stdin, stdout = process.stdin, process.stdout
        assert stdin is not None
        assert stdout is not None

        def run(command: str) -> tuple[int, str, float]:
            _inside(init, "sh", "-c", f"cat > {_SCRIPT}", text=f"{command}\n")
            began = time.monotonic()
            mark = f"--- {time.monotonic_ns()} "
            stdin.write(f". {_SCRIPT} < /dev/null 2>&1; printf '\\n%s%s\\n' '{mark}' $?\n")
            stdin.flush()
            printed = ""
            for line in stdout:
                if line.startswith(mark):
                    return int(line.removeprefix(mark)), printed.strip(), time.monotonic() - began
                printed += line
            return -1, printed, time.monotonic() - began  # the shell ended

        status, printed, _ = run(prepared)
        assert status == 0, printed
        yield run
