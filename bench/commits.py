"""The commits to compare, and their files."""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).parents[1]
_CORE = ("cext", "setup.py")
# Locks of what compiles the core, and of what runs; if the trees differ in them, each has its own packages.
LOCKS = ("requirements/core.txt", "requirements/embedded.txt")
PACKAGES = "packages"
_SECONDS = 600


def git(*arguments: str, **environment: str) -> str:
    """Runs git; returns what it prints, or nothing if it fails."""
    done = subprocess.run(
        ["git", *arguments], cwd=ROOT, env=os.environ | environment, capture_output=True, text=True, check=False
    )
    return done.stdout.strip() if done.returncode == 0 else ""


def named(ref: str) -> str:
    """Returns the commit that a ref names."""
    return git("rev-parse", "--verify", "--end-of-options", f"{ref}^{{commit}}") or sys.exit(f"no commit {ref}")


def base(head: str) -> str:
    """Returns where that commit left main; on main, its parent."""
    forks = (git("merge-base", main, head) for main in ("origin/main", "main"))
    if (fork := next(filter(None, forks), "")) and fork != named(head):
        return fork
    return git("rev-parse", "--verify", f"{head}^") or sys.exit(
        "no commit to compare with: fetch the history (git fetch --unshallow), or name a commit"
    )


def working_tree() -> str:
    """Returns the tree of the files as they are now, committed or not."""
    with tempfile.TemporaryDirectory() as directory:
        index = {"GIT_INDEX_FILE": f"{directory}/index"}
        git("read-tree", "HEAD", **index)
        git("add", "--all", **index)
        return git("write-tree", **index) or sys.exit("no commit to compare with: this is not a git repository")


def objects(tree: str, paths: Iterable[str]) -> str:
    """Returns the object names of these files and directories."""
    return git("ls-tree", tree, *paths)


@contextmanager
def built(base: str, head: str) -> Iterator[tuple[Path, Path]]:
    """Builds two trees or commits, in directories whose names are equally long, because the gate counts paths too."""
    locks_differ = objects(base, LOCKS) != objects(head, LOCKS)
    with tempfile.TemporaryDirectory(prefix="sepu-bench-") as made:
        directory = Path(made)
        directory.chmod(0o711)  # Postgres may run as another user
        for tree, name in ((base, "base"), (head, "head")):
            _build(tree, directory / name, locks_differ)
        yield directory / "base", directory / "head"


def _build(tree: str, directory: Path, with_packages: bool) -> None:
    """Writes the files of a tree, and compiles its core, or copies the one built here if it is the same."""
    done = subprocess.run(["git", "archive", tree], cwd=ROOT, stdout=subprocess.PIPE, check=True, timeout=_SECONDS)
    directory.mkdir()
    subprocess.run(["tar", "-x"], cwd=directory, input=done.stdout, check=True, timeout=_SECONDS)
    packages = directory / PACKAGES
    if with_packages:
        print(f"installing the packages of {tree[:12]}", file=sys.stderr, flush=True)
        locks = [f"--requirement={directory / lock}" for lock in LOCKS]
        install = (sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--require-hashes")
        subprocess.run([*install, *locks, f"--target={packages}"], check=True, timeout=_SECONDS)
    elif objects(tree, _CORE) == objects(working_tree(), _CORE):
        for module in (ROOT / "src" / "sepu").glob("*.so"):
            shutil.copy(module, directory / "src" / "sepu")
        return
    print(f"compiling the core of {tree[:12]}", file=sys.stderr, flush=True)
    command = (sys.executable, "-W", "ignore", "setup.py", "--quiet", "build_ext", "--inplace")
    environment = os.environ | {"PYTHONPATH": str(packages)}
    subprocess.run(command, cwd=directory, env=environment, check=True, stdout=subprocess.DEVNULL, timeout=_SECONDS)
