"""The costs that commits accept, in lines at the end of their messages."""

import re
import sys
from collections.abc import Iterator
from fnmatch import fnmatchcase
from typing import NamedTuple

from bench.commits import git

GONE = "gone"
_LINE = re.compile(rf"(?P<path>.+?) (?:\+(?P<percent>\d+(?:\.\d+)?) ?%|{GONE}): (?P<reason>\S.*)")


class Accepted(NamedTuple):
    """A cost that a commit accepts for figures whose names match `path`; `percent` is None if they are gone."""

    commit: str
    path: str
    percent: float | None
    reason: str

    def is_of(self, name: str) -> bool:
        return fnmatchcase(name, self.path)


def line(name: str, percent: float | None, reason: str = "<the reason>") -> str:
    """Returns the line that accepts a cost."""
    return f"Cost: {name} {GONE if percent is None else f'+{percent:.1f} %'}: {reason}"


def accepted(since: str) -> Iterator[Accepted]:
    """Yields the costs that commits since then accept, or all commits if it is empty; the newest first."""
    form = "%h%x00%(trailers:key=Cost,valueonly,unfold,separator=%x00)%x01"
    for entry in git("log", f"--format={form}", f"{since}..HEAD" if since else "HEAD").split("\x01"):
        commit, *trailers = entry.strip().split("\0")
        for trailer in filter(None, trailers):
            if not (found := _LINE.fullmatch(trailer)):
                sys.exit(f"commit {commit}: write `{line('path', 1.5)}`, not `Cost: {trailer}`")
            percent = float(found["percent"]) if found["percent"] else None
            yield Accepted(commit, found["path"], percent, found["reason"])


def dated() -> list[str]:
    """Returns all accepted costs in words, each with its commit and the day."""
    return [f"{git('log', '-1', '--format=%as %h', each.commit)}  {line(*each[1:])}" for each in accepted("")]
