"""Own palettes and whole images: sepu with an index, without, and what its users would take instead.

The nearest one of each colour. Peers that are not exact are timed too, with the number of answers that differ from
those of a full scan.
"""

from collections.abc import Callable
from time import perf_counter
from typing import Any

import numpy as np
from bench.peers.colours import Coloraide, Colours, ColourScience, ScikitImage
from bench.peers.timing import Call, seconds
from numpy.typing import NDArray
from PIL import Image
from scipy.spatial import KDTree

import sepu

SIZES = (161, 1_000, 30_000)
COUNTED = 1_000
ROWS = 10_000
SIDE = 1_000  # of an image

Pixels = NDArray[np.uint8]
Row = tuple[str, ...]
Batch = Callable[[Any], NDArray[np.integer[Any]]]


def random_palette(size: int) -> NDArray[np.float64]:
    return np.random.default_rng(size).integers(0, 256, (size, 3)).astype(float)


def photograph() -> Pixels:
    """Smooth surfaces with a camera's noise: most colours of a photograph are neighbours, few are equal."""
    y, x = np.mgrid[0:SIDE, 0:SIDE] / SIDE
    waves = np.stack([np.sin(6 * x + 3 * y), np.sin(4 * y - 2 * x + 1), np.cos(5 * x * y + 2)], axis=-1)
    return np.clip(120 + 90 * waves + np.random.default_rng(5).normal(0, 4, waves.shape), 0, 255).astype(np.uint8)


def of_sepu(palette: sepu.Palette, k: int = 1, threads: int | None = 1) -> Batch:
    return lambda rgb: palette.nearest_batch(rgb, k, threads=threads, scale=255)[0][..., 0]


def of_tree(palette: NDArray[np.float64]) -> Batch:
    tree = KDTree(sepu.srgb_to_lab(palette, scale=255))
    return lambda rgb: np.asarray(tree.query(sepu.srgb_to_lab(rgb, scale=255), workers=-1)[1])


def of_pillow(palette: NDArray[np.float64]) -> Batch:
    own = Image.new("P", (1, 1))
    own.putpalette(palette.astype(np.uint8).tobytes())
    return lambda rgb: np.asarray(Image.fromarray(rgb).quantize(palette=own, dither=Image.Dither.NONE))


def of_peer(peer: type[Colours], palette: NDArray[np.float64]) -> tuple[Batch, int]:
    """Takes so many colours at a time as its pairs fit the cache."""
    made = peer(palette)
    return (lambda rgb: made.nearest_batch(np.asarray(rgb, dtype=float))[:, 0]), max(1, peer.rows * 161 // len(palette))


def own_palettes() -> list[tuple[str, list[Row]]]:
    """Returns a table for each size: title and rows."""
    tables: list[tuple[str, list[Row]]] = []
    rgb = np.random.default_rng(2).uniform(0, 255, (ROWS, 3))
    for size in SIZES:
        palette = random_palette(size)
        general = sepu.Palette(palette, scale=255)
        began = perf_counter()
        index = general.build_index()
        took = perf_counter() - began
        indexed = sepu.Palette(palette, index, scale=255)
        batches: list[tuple[str, Batch, int]] = [
            ("sepu", of_sepu(indexed), ROWS),
            ("the nearest ten", of_sepu(indexed, 10), ROWS),
            ("without an index", of_sepu(general), ROWS),
            ("KD-tree (L*a*b*), scipy", of_tree(palette), ROWS),
        ]
        batches += [(peer.name, *of_peer(peer, palette)) for peer in (ScikitImage, ColourScience, Coloraide)]
        title = f"{size:,} own colours, each of {ROWS:,}; index built in {took:.2g} s, {len(index) / 1e6:.3g} MB"
        tables.append((title, compared(batches, rgb)))
    return tables


def images() -> list[tuple[str, list[Row]]]:
    tables: list[tuple[str, list[Row]]] = []
    image = photograph()
    for size in SIZES:
        palette = random_palette(size)
        indexed = sepu.Palette(palette, index=True, scale=255)
        batches: list[tuple[str, Batch, int]] = [
            ("sepu", of_sepu(indexed, threads=None), SIDE),
            ("on one thread", of_sepu(indexed), SIDE),
            ("KD-tree (L*a*b*), scipy", of_tree(palette), SIDE),
        ]
        if size <= 256:
            batches.append(("Pillow, quantize", of_pillow(palette), SIDE))
        tables.append(
            (f"an image of {SIDE * SIDE:,} pixels, {size:,} colours: each pixel", compared(batches, image, SIDE))
        )
    return tables


def compared(batches: list[tuple[str, Batch, int]], rgb: NDArray[Any], width: int = 1) -> list[Row]:
    expected = batches[0][1](rgb)
    calls = [Call(name, batch, (rgb[:rows],), rows * width) for name, batch, rows in batches]
    times = seconds(calls)
    rows: list[Row] = []
    for (name, batch, count), time in zip(batches, times, strict=True):
        tried = rgb[: min(count, COUNTED)]
        differ = np.count_nonzero(batch(tried) != expected[: len(tried)])
        unlike = f"{differ:,} of {expected[: len(tried)].size:,} differ"
        rows.append((name, f"{time * 1e9:,.0f} ns", f"x {time / times[0]:,.1f}", unlike))
    return rows
