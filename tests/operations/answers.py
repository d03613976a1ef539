"""Answers to a million matches and to searches for every name: the same bytes on every machine.

`make answers` writes the hash of each block into answers.txt. With a block's number, prints its answers instead, to
compare two machines.
"""

import sys
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path

import click
import numpy as np
from tests.operations.reference import ENCODED, MATCHER

import sepu
from sepu import limits
from sepu.operations.match import MatchInput
from sepu.operations.search import Searcher, SearchInput

HASHES = Path(__file__).with_suffix(".txt")
BLOCKS, BLOCK = 10, 100_000

_RELEASE = sepu.load()


def matches(block: int) -> Iterator[bytes]:
    """The response bodies of one block, each with its unrounded differences: of 8-bit colours if the number is odd.

    Four decimals would hide most effects of a fused multiply-add or another C library.
    """
    rng = np.random.default_rng(block)
    rgb = rng.integers(0, 256, (BLOCK, 3)) if block % 2 else rng.random((BLOCK, 3)) * 255
    delta_e = _RELEASE.palette().nearest_batch(rgb, limits.inputs.MAX_TOP, scale=255)[1]
    for (r, g, b), unrounded in zip(rgb.tolist(), delta_e.tolist(), strict=True):
        yield MATCHER.answer(MatchInput(((r, g, b),), limits.inputs.MAX_TOP)) + b" %a" % unrounded


def searches() -> Iterator[bytes]:
    """The response bodies for each name, for its beginning, and without its second letter."""
    searcher = Searcher(_RELEASE.names(), ENCODED, _RELEASE.manifest.version)
    for record in _RELEASE.records:
        for name in (record.name.zh, record.name.pinyin, record.name.en, record.slug):
            for q in (name, name[:3], name[:1] + name[2:]):
                yield searcher.answer(SearchInput(q, limits.inputs.MAX_LIMIT))


def answers(block: int) -> Iterator[bytes]:
    """Those of matches, or of the searches in the last block."""
    return matches(block) if block < BLOCKS else searches()


def hashed(block: int) -> str:
    """A line of answers.txt."""
    hash_of_all = sha256(b"\n".join(answers(block))).hexdigest()
    return f"{block} {hash_of_all}"


if __name__ == "__main__":
    if blocks := sys.argv[1:]:
        for answer in (answer for block in blocks for answer in answers(int(block))):
            click.echo(answer)
    else:
        HASHES.write_text("".join(f"{hashed(block)}\n" for block in range(BLOCKS + 1)))
