"""Compares base and head: times the hot paths of two commits in turns, on one machine, in one run.

Times are less exact than counts, but need no expectations, so this works on any machine. Each side has its own code,
hot paths and core; both run with the packages of .venv.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median

THRESHOLD = 1.25
ROUNDS = 21
LAP_SECONDS = 0.02
_ROOT = Path(__file__).parents[2]
_HOT_PATHS = "bench/gate/laps.py"


def _git(*arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=_ROOT, capture_output=True, text=True, check=False)
    return done.stdout.strip() if done.returncode == 0 else ""


def base() -> str | None:
    """Returns where this branch left main; on main the last commit but one, or the last if files have changed since."""
    head, changed = _git("rev-parse", "HEAD"), _git("status", "--porcelain", "--untracked-files=no")
    fork = next((fork for main in ("origin/main", "main") if (fork := _git("merge-base", main, "HEAD"))), "")
    if fork and fork != head:
        return fork
    return (head if changed else _git("rev-parse", "--verify", "HEAD^")) or None


def named(ref: str) -> str:
    """Returns the commit of a name; ends the program if there is none."""
    return _git("rev-parse", "--verify", f"{ref}^{{commit}}") or sys.exit(f"no commit {ref}")


def why_not(commit: str | None) -> str | None:
    """Returns why nothing can be compared, or None."""
    if sys.platform != "linux":
        return "both sides have to run on the same processor, and only Linux says where"
    if commit is None:
        return "there is no commit to compare with"
    return None if _git("ls-tree", commit, _HOT_PATHS) else f"{commit[:12]} is older than this gate"


@contextmanager
def checked_out(commit: str) -> Iterator[Path]:
    """Checks that commit out and builds it."""
    with tempfile.TemporaryDirectory(prefix="sepu-base-") as directory:
        tree = Path(directory)
        archive = subprocess.run(["git", "archive", commit], cwd=_ROOT, stdout=subprocess.PIPE, check=True)
        subprocess.run(["tar", "--extract", "--directory", directory], input=archive.stdout, check=True)
        if _git("diff", "--name-only", commit, "--", "cext", "setup.py"):
            build = [sys.executable, "-W", "ignore", "setup.py", "--quiet", "build_ext", "--inplace"]
            subprocess.run(build, cwd=tree, check=True, stdout=subprocess.DEVNULL)
        else:
            for core in (_ROOT / "src" / "sepu").glob("*.so"):
                shutil.copy(core, tree / "src" / "sepu")
        yield tree


class Side:
    """A process that times the hot paths of one commit."""

    def __init__(self, tree: Path) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "bench.gate.laps"],
            cwd=tree,
            env={**os.environ, "PYTHONPATH": str(tree / "src"), "PYTHONHASHSEED": "0"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        names: list[str] = json.loads(self._read())
        self.numbers = {name: number for number, name in enumerate(names)}

    def _read(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline()

    def move(self, cpu: int) -> None:
        os.sched_setaffinity(self._process.pid, {cpu})

    def lap(self, name: str, times: int) -> float:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{self.numbers[name]} {times}\n")
        self._process.stdin.flush()
        return float(self._read())

    def close(self) -> None:
        self._process.communicate()


def ratios(base_tree: Path) -> dict[str, float]:
    """Returns head's time over base's for each path that both have: the median of pairs of laps."""
    with ExitStack() as stack:
        sides = [Side(base_tree), Side(_ROOT)]
        for side in sides:
            stack.callback(side.close)
        old, new = sides
        cpus = sorted(os.sched_getaffinity(0))  # other programs may slow one of them down
        found = {}
        for name in (name for name in new.numbers if name in old.numbers):
            times = max(1, round(LAP_SECONDS / min(old.lap(name, 10) / 10 for _ in range(3))))
            laps = []
            for turn in range(ROUNDS):
                for side in sides:
                    side.move(cpus[turn // 2 % len(cpus)])
                first, second = (old, new) if turn % 2 else (new, old)  # neither is always first
                pair = {first: first.lap(name, times), second: second.lap(name, times)}
                laps.append(pair[new] / pair[old])
            found[name] = median(laps)
    return found


def compare(commit: str) -> dict[str, float]:
    """Returns the ratios. An alarm counts only if new processes measure it again."""
    with checked_out(commit) as tree:
        first = ratios(tree)
        if max(first.values()) <= THRESHOLD:
            return first
        again = ratios(tree)
        return {name: min(ratio, again[name]) for name, ratio in first.items()}


def alarms(found: dict[str, float]) -> list[str]:
    """Returns an alarm for each path that takes too much time."""
    return [f"{name}: {ratio - 1:+.0%} time against the base" for name, ratio in found.items() if ratio > THRESHOLD]
