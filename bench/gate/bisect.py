"""Finds the commit that made a figure of the gate grow: git bisects, and head's harness counts each commit."""

import asyncio
import os
import subprocess
import sys
import tempfile

from bench.commits import ROOT, git, named
from bench.gate.sides import CORE, KINDS, SQL, sides

_CANNOT_COUNT = 125  # to `git bisect run`: skip this commit


def _kind(figure: str) -> str:
    return "database" if figure.startswith(SQL) else "core" if figure.startswith(CORE) else "worker"


def count(figure: str, *commits: str) -> list[float | None]:
    """Returns a figure of one or two commits; None where it cannot be counted."""

    async def counted() -> list[float | None]:
        with sides(commits[0], commits[-1]) as both:
            found = await asyncio.gather(*(side.count([_kind(figure)], ROOT) for side in both[: len(commits)]))
        return [counts.figures.get(figure) for counts in found]

    return asyncio.run(counted())


def bisect(tolerance: float, figure: str, good: str, bad: str) -> None:
    """Prints the commit of good..bad with which a figure passes the middle of its growth."""
    good, bad = named(good), named(bad)
    before, after = count(figure, good, bad)
    if before is None or after is None:
        sys.exit(f"{good[:12]} or {bad[:12]} has no figure {figure!r}")
    if after <= before * (1 + tolerance):
        sys.exit(f"it has not grown: {before:,.0f} and {after:,.0f}")
    print(f"{before:,.0f} in {good[:12]}, {after:,.0f} in {bad[:12]}", flush=True)
    with tempfile.TemporaryDirectory(prefix="sepu-bisect-") as tree:
        git("worktree", "add", "--detach", tree, bad)
        try:
            start = ["git", "bisect", "start", "--first-parent", bad, good, "--", *KINDS[_kind(figure)]]
            # -P: the harness is head's, not that of the commit in the current directory.
            run = [sys.executable, "-P", "-m", "bench.gate", "judge", figure, str((before + after) / 2)]
            environment = os.environ | {"PYTHONPATH": str(ROOT)}
            subprocess.run(start, cwd=tree, check=True)
            subprocess.run(["git", "bisect", "run", *run], cwd=tree, env=environment, check=True)
        finally:
            git("worktree", "remove", "--force", tree)


def judge(figure: str, bound: str) -> None:
    """Exits as `git bisect run` wants it: 1 if the commit of the current directory has more."""
    head = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True, check=True).stdout.strip()
    try:
        [found] = count(figure, head)
    except (Exception, SystemExit) as error:  # what cannot be built is skipped
        print(error, file=sys.stderr)
        found = None
    print(f"{head[:12]}: {found}", flush=True)
    sys.exit(_CANNOT_COUNT if found is None else int(found > float(bound)))
