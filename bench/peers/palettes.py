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
from sepu.library.css import srgb_of_lab
from sepu.library.records import is_in_srgb

SIZES = (161, 1_000, 30_000)
COUNTED = 1_000
ROWS = 10_000
SIDE = 1_000  # of an image
PHOTOGRAPH = (3_000, 4_000)
TEXTS = 1_000_000
INDEXED = (1_000, 5_000)

Pixels = NDArray[np.uint8]
Row = tuple[str, ...]
Batch = Callable[[Any], NDArray[np.integer[Any]]]


def random_palette(size: int) -> NDArray[np.float64]:
    return np.random.default_rng(size).integers(0, 256, (size, 3)).astype(float)


def photograph(height: int = SIDE, width: int = SIDE) -> Pixels:
    """Smooth surfaces with a camera's noise: most colours of a photograph are neighbours, few are equal."""
    y, x = np.mgrid[0 : 1 : height * 1j, 0 : 1 : width * 1j]
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
    palette, picture = library(), photograph(*PHOTOGRAPH)
    rows = compared(
        [
            ("sepu", of_sepu(sepu.load().palette(), threads=None), len(picture)),
            ("on one thread", of_sepu(sepu.load().palette()), len(picture)),
            ("KD-tree (L*a*b*), scipy", of_tree(palette), len(picture)),
            ("Pillow, quantize", of_pillow(palette), len(picture)),
        ],
        picture,
        picture.shape[1],
    )
    tables.append((f"a photograph of {picture.size // 3:,} pixels, the library: each pixel", rows))
    return tables


def library() -> NDArray[np.float64]:
    return np.array([record.rgb for record in sepu.load()], dtype=np.float64)


def hex_texts() -> list[tuple[str, list[Row]]]:
    """Returns a table: a column of HEX, each text read and matched."""
    import colour
    from coloraide import Color

    numbers = np.random.default_rng(6).integers(0, 2**24, TEXTS).tolist()
    texts = np.array([f"#{number:06X}" for number in numbers], dtype=object)
    palette, numeric = library(), np.array(numbers)
    science, tree = ColourScience(palette), of_tree(palette)
    coloraide = Coloraide(palette)
    own = sepu.load().palette()

    def by_coloraide(some: NDArray[Any]) -> NDArray[np.integer[Any]]:
        return coloraide.nearest_batch(np.array([Color(text)[:3] for text in some]) * 255)[:, 0]

    batches: list[tuple[str, Batch, int]] = [
        ("sepu", of_sepu(own, threads=None), TEXTS),
        ("on one thread", of_sepu(own), TEXTS),
        ("sepu.match, one by one", lambda some: np.array([sepu.match(text)[0].ordinal - 1 for text in some]), COUNTED),
        (
            "KD-tree, int(text, 16)",
            lambda some: tree(np.array([[int(text[at : at + 2], 16) for at in (1, 3, 5)] for text in some])),
            TEXTS // 10,
        ),
        (
            science.name,
            lambda some: science.nearest_batch(np.asarray(colour.notation.HEX_to_RGB(some.astype(str))) * 255)[:, 0],
            COUNTED,
        ),
        (coloraide.name, by_coloraide, coloraide.rows),
    ]
    assert (own.nearest_batch(sepu.hex_to_rgb(numeric))[0] == own.nearest_batch(texts)[0]).all()
    return [(f"{TEXTS:,} texts such as {texts[0]}, the library: each", compared(batches, texts))]


def lab_queries() -> list[tuple[str, list[Row]]]:
    """Returns a table for colours of sRGB, and one for those that it lacks: L*a*b* matched with the library."""
    palette, own = library(), sepu.load().palette()
    members = sepu.srgb_to_lab(palette, scale=255)
    tree, arrays, coloraide = KDTree(members), (ScikitImage(palette), ColourScience(palette)), Coloraide(palette)
    rng = np.random.default_rng(7)
    spread = rng.uniform((0, -120, -120), (100, 120, 120), (4 * ROWS, 3))
    outside = spread[[not is_in_srgb(srgb_of_lab(row)) for row in spread.tolist()]][:ROWS]
    assert len(outside) == ROWS

    def by_arrays(peer: ColourScience) -> Batch:
        return lambda lab: np.argmin(peer.delta_e(lab[:, np.newaxis], peer.palette), axis=1)

    def by_coloraide(lab: NDArray[Any]) -> NDArray[np.integer[Any]]:
        colours = [coloraide.color("lab-d65", row) for row in lab.tolist()]
        return np.array([np.argmin([one.delta_e(two, method="2000") for two in coloraide.palette]) for one in colours])

    batches: list[tuple[str, Batch, int]] = [
        ("sepu", lambda lab: own.nearest_batch(lab=lab)[0][:, 0], ROWS),
        ("KD-tree (L*a*b*), scipy", lambda lab: np.asarray(tree.query(lab)[1]), ROWS),
        *((peer.name, by_arrays(peer), peer.rows) for peer in arrays),
        (coloraide.name, by_coloraide, coloraide.rows),
    ]
    return [
        (f"{ROWS:,} queries in L*a*b* {where} sRGB, the library: each", compared(batches, lab))
        for where, lab in (("in", sepu.srgb_to_lab(rng.uniform(0, 255, (ROWS, 3)), scale=255)), ("outside", outside))
    ]


def index_sizes() -> list[tuple[str, list[Row]]]:
    """Returns a table: what an index takes for how many nearest colours."""
    rows: list[Row] = []
    for size in INDEXED:
        palette = sepu.Palette(random_palette(size), scale=255)
        for k in (1, 3, 10):
            began = perf_counter()
            index = palette.build_index(k=k)
            rows.append((f"{size:,}, k = {k}", f"{len(index) / 1e6:.3g} MB", f"{perf_counter() - began:.2g} s"))
    return [("the index of so many own colours: its size, and the time to build it", rows)]


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
