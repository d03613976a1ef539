"""Own palettes and whole images: sepu with an index, without, and what its users would take instead.

The nearest one of each colour. Peers that are not exact are timed too, with the number of answers that differ from
sepu's.
"""

from collections.abc import Callable, Iterator
from time import perf_counter
from typing import Any

import numpy as np
from bench.peers.colours import Coloraide, Colours, ColourScience, ScikitImage
from bench.peers.timing import Call, Row, seconds
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

Batch = Callable[[Any], NDArray[np.integer[Any]]]
Timed = tuple[str, Batch, int]  # with the rows that it takes at once
Table = tuple[str, list[Row]]

OWN = sepu.load().palette()
LIBRARY = np.array([record.rgb for record in sepu.load()], dtype=np.float64)


def tables() -> Iterator[Table]:
    yield hex_texts()
    yield from lab_queries()
    yield from map(own_palette, SIZES)
    yield index_sizes()
    square = photograph(SIDE, SIDE)
    for size in SIZES:
        palette = random_palette(size)
        title = f"an image of {SIDE * SIDE:,} pixels, {size:,} colours: each pixel"
        yield title, image(square, sepu.Palette(palette, index=True, scale=255), palette)
    picture = photograph(*PHOTOGRAPH)
    yield f"a photograph of {picture.size // 3:,} pixels, the library: each pixel", image(picture, OWN, LIBRARY)


def random_palette(size: int) -> NDArray[np.float64]:
    return np.random.default_rng(size).integers(0, 256, (size, 3)).astype(float)


def photograph(height: int, width: int) -> NDArray[np.uint8]:
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


def of_peer(peer: type[Colours], palette: NDArray[np.float64]) -> Timed:
    """Takes fewer colours at a time from larger palettes, so that the pairs fit the cache."""
    made, rows = peer(palette), max(1, peer.rows * 161 // len(palette))
    return peer.name, lambda rgb: made.nearest_batch(np.asarray(rgb, dtype=float))[:, 0], rows


def own_palette(size: int) -> Table:
    palette = random_palette(size)
    general = sepu.Palette(palette, scale=255)
    began = perf_counter()
    index = general.build_index()
    took = perf_counter() - began
    indexed = sepu.Palette(palette, index, scale=255)
    batches: list[Timed] = [
        ("sepu", of_sepu(indexed), ROWS),
        ("the nearest ten", of_sepu(indexed, 10), ROWS),
        ("without an index", of_sepu(general), ROWS),
        ("KD-tree (L*a*b*), scipy", of_tree(palette), ROWS),
        *(of_peer(peer, palette) for peer in (ScikitImage, ColourScience, Coloraide)),
    ]
    title = f"{size:,} own colours, each of {ROWS:,}; index built in {took:.2g} s, {len(index) / 1e6:.3g} MB"
    return title, compared(batches, np.random.default_rng(2).uniform(0, 255, (ROWS, 3)))


def image(picture: NDArray[np.uint8], palette: sepu.Palette, colours: NDArray[np.float64]) -> list[Row]:
    height = len(picture)
    batches: list[Timed] = [
        ("sepu", of_sepu(palette, threads=None), height),
        ("on one thread", of_sepu(palette), height),
        ("KD-tree (L*a*b*), scipy", of_tree(colours), height),
    ]
    if len(colours) <= 256:
        batches.append(("Pillow, quantize", of_pillow(colours), height))
    return compared(batches, picture, picture.shape[1])


def hex_texts() -> Table:
    """A column of HEX, each text read and matched."""
    import colour
    from coloraide import Color

    numbers = np.random.default_rng(6).integers(0, 2**24, TEXTS)
    texts = np.array([f"#{number:06X}" for number in numbers.tolist()], dtype=object)
    science, tree, coloraide = ColourScience(LIBRARY), of_tree(LIBRARY), Coloraide(LIBRARY)

    def by_tree(some: NDArray[Any]) -> NDArray[np.integer[Any]]:
        return tree(np.array([[int(text[at : at + 2], 16) for at in (1, 3, 5)] for text in some]))

    def by_science(some: NDArray[Any]) -> NDArray[np.integer[Any]]:
        return science.nearest_batch(np.asarray(colour.notation.HEX_to_RGB(some.astype(str))) * 255)[:, 0]

    def by_coloraide(some: NDArray[Any]) -> NDArray[np.integer[Any]]:
        return coloraide.nearest_batch(np.array([Color(text)[:3] for text in some]) * 255)[:, 0]

    batches: list[Timed] = [
        ("sepu", of_sepu(OWN, threads=None), TEXTS),
        ("on one thread", of_sepu(OWN), TEXTS),
        ("sepu.match, one by one", lambda some: np.array([sepu.match(text)[0].ordinal - 1 for text in some]), COUNTED),
        ("KD-tree, int(text, 16)", by_tree, TEXTS // 10),
        (science.name, by_science, COUNTED),
        (coloraide.name, by_coloraide, coloraide.rows),
    ]
    assert (OWN.nearest_batch(sepu.hex_to_rgb(numbers))[0] == OWN.nearest_batch(texts)[0]).all()
    return f"{TEXTS:,} texts such as {texts[0]}, the library: each", compared(batches, texts)


def lab_queries() -> Iterator[Table]:
    """Colours of sRGB, and those that it lacks: L*a*b* matched with the library."""
    tree, coloraide = KDTree(sepu.srgb_to_lab(LIBRARY, scale=255)), Coloraide(LIBRARY)
    rng = np.random.default_rng(7)
    spread = rng.uniform((0, -120, -120), (100, 120, 120), (4 * ROWS, 3))
    outside = spread[[not is_in_srgb(srgb_of_lab(row)) for row in spread.tolist()]][:ROWS]
    assert len(outside) == ROWS

    def by_arrays(peer: ColourScience) -> Batch:
        return lambda lab: np.argmin(peer.delta_e(lab[:, np.newaxis], peer.palette), axis=1)

    def by_coloraide(lab: NDArray[Any]) -> NDArray[np.integer[Any]]:
        colours = [coloraide.color("lab-d65", row) for row in lab.tolist()]
        return np.array([np.argmin([one.delta_e(two, method="2000") for two in coloraide.palette]) for one in colours])

    batches: list[Timed] = [
        ("sepu", lambda lab: OWN.nearest_batch(lab=lab)[0][:, 0], ROWS),
        ("KD-tree (L*a*b*), scipy", lambda lab: np.asarray(tree.query(lab)[1]), ROWS),
        *((peer.name, by_arrays(peer), peer.rows) for peer in (ScikitImage(LIBRARY), ColourScience(LIBRARY))),
        (coloraide.name, by_coloraide, coloraide.rows),
    ]
    for where, lab in (("in", sepu.srgb_to_lab(rng.uniform(0, 255, (ROWS, 3)), scale=255)), ("outside", outside)):
        yield f"{ROWS:,} queries in L*a*b* {where} sRGB, the library: each", compared(batches, lab)


def index_sizes() -> Table:
    """The size of an index and the time to build it, by k."""
    rows: list[Row] = []
    for size in INDEXED:
        palette = sepu.Palette(random_palette(size), scale=255)
        for k in (1, 3, 10):
            began = perf_counter()
            index = palette.build_index(k=k)
            rows.append((f"{size:,}, k = {k}", f"{len(index) / 1e6:.3g} MB", f"{perf_counter() - began:.2g} s"))
    return "the index of a palette, by its colours and k: its size, and the time to build it", rows


def compared(batches: list[Timed], rgb: NDArray[Any], width: int = 1) -> list[Row]:
    expected = batches[0][1](rgb)
    times = seconds([Call(name, batch, (rgb[:rows],), rows * width) for name, batch, rows in batches])
    rows: list[Row] = []
    for (name, batch, count), time in zip(batches, times, strict=True):
        tried = rgb[: min(count, COUNTED)]
        differ = np.count_nonzero(batch(tried) != expected[: len(tried)])
        unlike = f"{differ:,} of {expected[: len(tried)].size:,} differ"
        rows.append((name, f"{time * 1e9:,.0f} ns", f"x {time / times[0]:,.1f}", unlike))
    return rows
