"""Compares answers by an index with those of the search without it, to the last bit; the exit status says whether any
differ.

For each 8-bit colour: the release, with every difference, and a palette of 1,000 random colours. For a palette of
30,000, where the other search takes long, the 8-bit colours of every 16th red, or with `--all` each. For each palette
also real-valued colours, those on borders of cells, greys and near-greys, and its own.
"""

import sys
from collections.abc import Iterable
from time import perf_counter

import click
import numpy as np
from numpy.typing import NDArray
from tests.core.index_queries import queries

import sepu
from sepu._palette import DIFFERENCE_NAMES, Palette
from sepu.library.records import rgb_of

GREEN_AND_BLUE = np.indices((256, 256), dtype=np.uint8).reshape(2, -1)


def count_different(indexed: Palette, general: Palette, rgb: NDArray[np.generic], k: int) -> int:
    found, expected = (palette.nearest_batch(rgb, k, threads=None, scale=255) for palette in (indexed, general))
    return int(((found[0] != expected[0]) | (found[1] != expected[1])).any(axis=1).sum())


def prove(name: str, indexed: Palette, members: NDArray[np.float64], k: int, reds: Iterable[int] = range(256)) -> int:
    """Prints how many of the answers differ, and returns that."""
    assert indexed.index is not None
    began, asked, differ = perf_counter(), 0, 0
    general = Palette(members, difference=indexed.difference, scale=255)
    for red in reds:
        rgb = np.stack([np.full(256 * 256, red, np.uint8), *GREEN_AND_BLUE], axis=1)
        asked += len(rgb)
        differ += count_different(indexed, general, rgb, k)
    real = queries(members, 20_000)
    for fewer in range(1, k + 1):
        differ += count_different(indexed, general, real, fewer)
    click.echo(
        f"{name}, {indexed.difference}, nearest {k}: {differ} differ of {asked:,} 8-bit colours and "
        f"{k} x {len(real):,} others ({perf_counter() - began:.0f} s)"
    )
    return differ


@click.command()
@click.option("--all", "whole", is_flag=True, help="Each 8-bit colour for 30,000 colours too; takes half an hour.")
def main(whole: bool) -> None:
    """Compare answers by an index with those of the search without it."""
    release = sepu.load()
    members = np.array([rgb_of(record.hex) for record in release.records], dtype=float)
    rng = np.random.default_rng(19)
    differ = prove("the release", release.palette(), members, 3)
    for difference in DIFFERENCE_NAMES[1:]:
        differ += prove(
            "the release's colours", Palette(members, index=True, difference=difference, scale=255), members, 3
        )
    for size, k, reds in ((1_000, 10, range(256)), (30_000, 3, range(0, 256, 1 if whole else 16))):
        members = rng.integers(0, 256, (size, 3)).astype(float)
        for difference in DIFFERENCE_NAMES if size == 1_000 or whole else DIFFERENCE_NAMES[:1]:
            differ += prove(
                f"{size:,} colours", Palette(members, index=True, difference=difference, scale=255), members, k, reds
            )
    sys.exit(bool(differ))


if __name__ == "__main__":
    main()
