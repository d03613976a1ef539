"""Finds the commit by which a figure of the gate has grown, with what head's harness counts of others."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from itertools import groupby

from bench.commits import ROOT, git, named, objects
from bench.gate.sides import CORE, KINDS, SQL, sides
from bench.load.report import table

# Counts a figure of two commits at once.
Count = Callable[[str, str], Awaitable[tuple[float, float]]]


async def bisect(tolerance: float, figure: str, good: str, bad: str) -> list[str]:
    """Says by which commits of good..bad a figure has grown by more than the tolerance, the most first."""
    kind = "database" if figure.startswith(SQL) else "core" if figure.startswith(CORE) else "worker"

    async def count(one: str, other: str) -> tuple[float, float]:
        print(f"counting {one[:12]} and {other[:12]}", flush=True)
        with sides(one, other) as both:
            found = await asyncio.gather(*(side.count([kind], ROOT) for side in both))
        for commit, counts in zip((one, other), found, strict=True):
            if figure not in counts.figures:
                raise LookupError(f"{commit[:12]} has no figure {figure!r}; it has {', '.join(counts.figures)}")
        return found[0].figures[figure], found[1].figures[figure]

    listed = git("rev-list", "--reverse", "--first-parent", f"{good}..{bad}").split()
    commits = [named(good), *(next(same) for _, same in groupby(listed, lambda one: objects(one, KINDS[kind])))]
    steps, counted = await search(commits, count, tolerance)
    rows = [[git("log", "-1", "--format=%h %s", commit), f"{figure:,.0f}"] for commit, figure in counted]
    told = [f"{share:+.2%} by {git('log', '-1', '--format=%h (%an, %as): %s', commit)}" for commit, share in steps]
    return [*(told or ["It has not grown."]), "", table(("counted", figure), rows)]


async def search(
    commits: Sequence[str], count: Count, tolerance: float
) -> tuple[list[tuple[str, float]], list[tuple[str, float]]]:
    """Returns the commits by which a figure grew, with the growth as a share of the first figure, and all figures.

    Two commits are counted at a time, which cut a range in three; the part that grew most is cut on.
    """
    figures: dict[int, float] = {}

    async def counted(one: int, other: int) -> None:
        figures[one], figures[other] = await count(commits[one], commits[other])

    def grown(part: tuple[int, int]) -> float:
        return (figures[part[1]] - figures[part[0]]) / figures[0]

    await counted(0, len(commits) - 1)
    steps = []
    while True:
        parts = [part for part in zip(sorted(figures), sorted(figures)[1:], strict=False) if grown(part) > tolerance]
        steps = [part for part in parts if part[1] - part[0] == 1]
        if len(steps) == len(parts):
            break
        low, high = max((part for part in parts if part not in steps), key=grown)
        third = (high - low) // 3 or 1
        await counted(low + third, max(high - third, low + third))
    steps.sort(key=grown, reverse=True)
    return [(commits[at], grown((before, at))) for before, at in steps], [
        (commits[at], figures[at]) for at in sorted(figures)
    ]
