"""Compares answers by an index with those of the search without it, bit for bit; exits with 1 if any differ.

For each 8-bit colour: the release, with every difference, and a palette of 1,000 random colours. For a palette of
30,000, where the other search is slow, the 8-bit colours of every 16th red, or with `--all` of every red. For each
palette also real-valued colours: on cell borders, greys and near-greys, and its own.

Also compares answers to L*a*b* with a full scan: 10^7 points, most of them outside sRGB.
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
    """Prints and returns how many answers differ."""
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


def prove_lab(name: str, palette: Palette, lab: NDArray[np.float64], k: int = 3) -> int:
    """Prints and returns how many answers to L*a*b* differ from a full scan."""
    began, differ = perf_counter(), 0
    for chunk in np.array_split(lab, max(1, len(lab) * palette.size // 10**7)):
        found, delta_e = palette.nearest_batch(lab=chunk, k=k), palette.delta_e(lab=chunk)
        rows = np.arange(len(chunk))
        same = np.ones(len(chunk), bool)
        for place in range(k):  # `argmin` breaks ties by the first
            least = delta_e.argmin(axis=1)
            same &= (found[0][:, place] == least) & (found[1][:, place] == delta_e[rows, least])
            delta_e[rows, least] = np.inf
        differ += int((~same).sum())
    click.echo(
        f"{name}, {palette.difference}, nearest {k}: {differ} differ of {len(lab):,} points of L*a*b* "
        f"({perf_counter() - began:.0f} s)"
    )
    return differ


def points_of_lab(members: NDArray[np.float64], count: int) -> NDArray[np.float64]:
    """Points of a box around all visible colours, also rounded, and points next to the border of sRGB.

    The box contains every surface colour under D65.
    """
    rng = np.random.default_rng(31)
    box = rng.uniform((0, -200, -200), (100, 200, 200), (count, 3))
    border = rng.uniform(0, 255, (count // 10, 3))
    border[np.arange(len(border)), rng.integers(0, 3, len(border))] = rng.choice([0, 255], len(border))
    near = sepu.srgb_to_lab(border, scale=255) + rng.normal(0, 1e-3, border.shape)
    return np.concatenate(
        [box[: -2 * len(near)], box[: len(near)].round(2), near, sepu.srgb_to_lab(members, scale=255)]
    )


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
    members = np.array([record.rgb for record in release.records], dtype=float)
    twice = Palette(np.concatenate([members, members]), scale=255, index=True)  # every answer is a tie
    differ += prove_lab("the release", release.palette(), points_of_lab(members, 10_000_000))
    differ += prove_lab("the release's colours twice", twice, points_of_lab(members, 1_000_000))
    for difference in DIFFERENCE_NAMES[1:-1]:
        palette = Palette(members, index=True, difference=difference, scale=255)
        differ += prove_lab("the release's colours", palette, points_of_lab(members, 1_000_000))
    many = rng.integers(0, 256, (30_000, 3)).astype(float)
    differ += prove_lab("30,000 colours", Palette(many, index=True, scale=255), points_of_lab(members, 10_000))
    sys.exit(bool(differ))


if __name__ == "__main__":
    main()
