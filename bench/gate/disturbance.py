"""What the proof does to what is counted: more work of a known size, and memory that is laid out otherwise."""

import json
import random
from itertools import repeat
from pathlib import Path
from typing import NamedTuple

_kept: list[object] = []


class Disturbance(NamedTuple):
    """Slows each path by a share of what it is known to take, and shifts what is allocated; 0 and 0 do nothing."""

    slowdown: float = 0
    layout: int = 0
    known: dict[str, float] = {}  # noqa: RUF012


def read(path: str) -> Disturbance:
    return Disturbance(*json.loads(Path(path).read_text()))


def begin(path: str) -> Disturbance:
    """Reads a disturbance, and shifts what this process allocates from now on, as a change elsewhere would."""
    found = read(path)
    chosen = random.Random(found.layout)
    _kept.extend(bytes(chosen.randrange(600)) for _ in range(chosen.randrange(3000) if found.layout else 0))
    return found


def burn(turns: int) -> None:
    """Loops so many times."""
    for _ in repeat(None, turns):
        pass
