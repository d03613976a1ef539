"""Prints a hash of every 10,000 of a million matches and of the searches: the same on every processor. `make answers`.

With the number of a block, prints its answers instead.
"""

import sys
from collections.abc import Iterator
from hashlib import sha256

import click
import msgspec
import numpy as np
from bench.queries import QUERIES

import sepu
from sepu.operations.color import color
from sepu.operations.match import MAX_TOP, Matcher, MatchInput
from sepu.operations.search import MAX_LIMIT, Searcher, SearchInput

BLOCKS, BLOCK = 100, 10_000

_RELEASE = sepu.load()
_COLORS = [msgspec.json.encode(color(record)) for record in _RELEASE.records]


def matches(block: int) -> Iterator[bytes]:
    """The response bodies of one block, each with its unrounded differences: of 8-bit colours if the number is odd.

    Four decimals would hide most of what a fused multiply-add or another C library changes.
    """
    palette = _RELEASE.palette()
    matcher = Matcher(palette, _COLORS, _RELEASE.manifest.version)
    rng = np.random.default_rng(block)
    rgb = rng.integers(0, 256, (BLOCK, 3)) if block % 2 else rng.random((BLOCK, 3)) * 255
    delta_e = palette.nearest_batch(rgb, MAX_TOP, scale=255)[1]
    for (r, g, b), unrounded in zip(rgb.tolist(), delta_e.tolist(), strict=True):
        yield matcher.answer(MatchInput(((r, g, b),), MAX_TOP)) + b" %a" % unrounded


def searches() -> Iterator[bytes]:
    """The response bodies of what people search for."""
    searcher = Searcher(_RELEASE.names(), _COLORS, _RELEASE.manifest.version)
    for q in QUERIES:
        yield searcher.answer(SearchInput(q, MAX_LIMIT))


def answers(block: int) -> Iterator[bytes]:
    """Those of the matches, or in the last block of the searches."""
    return matches(block) if block < BLOCKS else searches()


def main(blocks: list[str]) -> None:
    """Prints the answers of these blocks, or the hash of each."""
    for block in map(int, blocks):
        for answer in answers(block):
            click.echo(answer)
    for block in range(0 if blocks else BLOCKS + 1):
        hashed = sha256(b"\n".join(answers(block))).hexdigest()
        click.echo(f"{block} {hashed}")


if __name__ == "__main__":
    main(sys.argv[1:])
