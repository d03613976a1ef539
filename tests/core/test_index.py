"""The index of a palette gives the same answers as the search without it. A palette refuses any index but its own."""

import struct
import threading
from hashlib import sha256
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from tests.core import differences_reference as reference
from tests.core.colours import Rgb, colours, random_rgb
from tests.core.index_queries import assert_same_answers, mixed_palette, queries

from sepu._index_builder import delta_e_bounds
from sepu._palette import DIFFERENCE_NAMES, Palette, instruction_sets, srgb_to_lab

if TYPE_CHECKING:
    from sepu._palette import DifferenceName

HEADER = struct.Struct("<8sII16sIQQ32s32s")  # ends with the SHA-256 of all other bytes
DIVIDED = 0x40000000
ROOT_CELLS = 16**3
BORDERS = st.integers(0, 127).map(lambda i: 2.0 * i)  # borders of cells


@pytest.fixture(scope="module")
def members() -> NDArray[np.float64]:
    return mixed_palette()


@pytest.fixture(scope="module")
def index(members: NDArray[np.float64]) -> bytes:
    return Palette(members, scale=255).build_index(threads=2)


@pytest.mark.parametrize("instruction_set", instruction_sets())
def test_every_instruction_set_by_the_index(members: NDArray[np.float64], index: bytes, instruction_set: str) -> None:
    indexed = Palette(members, index, instruction_set=instruction_set, scale=255)
    assert_same_answers(indexed, Palette(members, scale=255), queries(members, 4_000), 12)


@pytest.mark.parametrize("difference", DIFFERENCE_NAMES)
def test_every_difference_by_the_index(members: NDArray[np.float64], difference: "DifferenceName") -> None:
    general = Palette(members, difference=difference, scale=255)
    indexed = Palette(members, general.build_index(k=4), difference=difference, scale=255)
    assert_same_answers(indexed, general, queries(members, 4_000), 5)


@pytest.mark.parametrize("difference", DIFFERENCE_NAMES)
def test_hundreds_of_colours(difference: "DifferenceName") -> None:
    rgb = random_rgb(500).round()
    general = Palette(rgb, difference=difference, scale=255)
    indexed = Palette(rgb, index=True, difference=difference, scale=255)
    assert_same_answers(indexed, general, queries(rgb, 300), 10)


def test_colours_in_lab() -> None:
    """Including colours outside sRGB."""
    rng = np.random.default_rng(5)
    lab = np.column_stack([rng.uniform(0, 100, 300), rng.uniform(-200, 200, (300, 2))])
    general = Palette(lab=lab)
    assert_same_answers(Palette(lab=lab, index=general.build_index(k=5)), general, queries(random_rgb(3), 500), 5)
    assert Palette(lab=srgb_to_lab([(200, 60, 35)])).nearest(200, 60, 35, 1) == [(0, 0.0)]


def test_more_colours_than_16_bits_count() -> None:
    rgb = np.random.default_rng(6).integers(0, 256, (66_000, 3))
    rgb[1000:] = rgb[-1]  # an index needs few of equal colours
    rgb[65_990:] = [[250, 250, i] for i in range(10)]
    general = Palette(rgb, difference="cie76", scale=255)
    indexed = Palette(rgb, general.build_index(k=2), difference="cie76", scale=255)
    assert_same_answers(indexed, general, queries(rgb[65_990:].astype(float), 5), 2)


def test_the_same_palette_gives_the_same_bytes(members: NDArray[np.float64], index: bytes) -> None:
    palette = Palette(np.asfortranarray(members), index=True, scale=255)
    assert palette.index == index
    assert Palette(members, palette.index, scale=255).index is palette.index
    assert Palette(members, memoryview(bytearray(index)), scale=255).nearest(1, 2, 3, 1) == palette.nearest(1, 2, 3, 1)
    assert Palette(members, index=False, scale=255).index is None


def test_an_index_does_not_follow_its_source(members: NDArray[np.float64], index: bytes) -> None:
    """The checked bytes are copied: later changes could make a palette read out of bounds."""
    source = bytearray(index)
    palette, rgb = Palette(members, source, scale=255), queries(members, 100)
    source[HEADER.size :] = b"\x3f" * (len(source) - HEADER.size)
    assert_same_answers(palette, Palette(members, scale=255), rgb, 3)
    assert palette.index == index


def test_building_tells_its_progress_and_lets_others_run(members: NDArray[np.float64]) -> None:
    told: list[tuple[float, int]] = []
    others = threading.active_count()
    palette = Palette(members, scale=255)
    assert palette.build_index(k=1, threads=2, progress=lambda share: told.append((share, threading.active_count())))
    assert told == sorted(told)
    assert 0 < told[0][0] < 0.1
    assert told[-1][0] == 1
    assert max(active for _, active in told) <= others + 2
    assert threading.active_count() == others


def test_what_interrupts_building_is_raised(members: NDArray[np.float64]) -> None:
    def stop(_: float) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Palette(members, scale=255).build_index(progress=stop)


@pytest.mark.parametrize("k", [0, 11, -1])
def test_an_index_for_too_few_or_too_many(members: NDArray[np.float64], k: int) -> None:
    with pytest.raises(ValueError, match="k must be from 1 to 10"):
        Palette(members, scale=255).build_index(k=k)


@pytest.mark.parametrize("threads", [0, -1, 1.5, "2"])
def test_no_number_of_threads(members: NDArray[np.float64], threads: object) -> None:
    with pytest.raises(ValueError, match="threads must be an int of at least 1"):
        Palette(members, scale=255).build_index(threads=threads)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="threads must be an int of at least 1"):
        Palette(members, scale=255).nearest_batch(members, 1, threads=threads, scale=255)  # type: ignore[arg-type]


@given(query=st.one_of(colours, st.tuples(BORDERS, BORDERS, BORDERS)), k=st.integers(1, 12))
def test_single_queries_by_the_index(members: NDArray[np.float64], index: bytes, query: Rgb, k: int) -> None:
    assert Palette(members, index, scale=255).nearest(*query, k) == Palette(members, scale=255).nearest(*query, k)


@settings(max_examples=8, deadline=None)
@given(st.lists(colours, min_size=1, max_size=5), st.lists(colours, min_size=1, max_size=200))
def test_the_index_of_any_small_palette(members: list[Rgb], rgb: list[Rgb]) -> None:
    general = Palette(members, scale=255)
    assert_same_answers(
        Palette(members, index=True, scale=255), general, np.array([*rgb, *members, (255.0, 0.0, 255.0)]), 5
    )


def parse(index: bytes) -> tuple[list[int], list[int], int]:
    """Returns the cells, the lists' numbers, and where the lists begin, of a palette of few colours."""
    cell_count, list_count = HEADER.unpack_from(index)[5:7]
    at = HEADER.size + 4 * cell_count
    return (
        np.frombuffer(index, "<u4", cell_count, HEADER.size).tolist(),
        np.frombuffer(index, "<u2", list_count, at).tolist(),
        at,
    )


def blocks_of(index: bytes, r: float, g: float, b: float) -> list[tuple[list[int], float]]:
    """Reads the index with plain code: the blocks of a colour's list, each with the bound of those after it."""
    cells, lists, _ = parse(index)
    cell, width, place = cells[int(r // 16) * 256 + int(g // 16) * 16 + int(b // 16)], 16.0, [r % 16, g % 16, b % 16]
    while cell & DIVIDED:
        width /= 2
        octant = [int(x >= width) for x in place]
        place = [x % width for x in place]
        cell = cells[(cell ^ DIVIDED) + octant[0] * 4 + octant[1] * 2 + octant[2]]
    length, blocks = lists[cell], []
    at = cell + 1
    for first in range(0, length, 8):
        count = min(8, length - first)
        rest = lists[at + count] / 128 if first + 8 < length else np.inf
        blocks.append((lists[at : at + count], rest))
        at += count + 1
    return blocks


def test_the_lists_and_their_bounds_are_right_read_plainly(members: NDArray[np.float64], index: bytes) -> None:
    """The nearest colours are in their cell's list; those outside its first blocks respect the blocks' bounds."""
    general = Palette(members, scale=255)
    for r, g, b in queries(members, 60).tolist():
        blocks = blocks_of(index, r, g, b)
        listed = [colour for block, _ in blocks for colour in block]
        assert len(set(listed)) == len(listed)
        found = general.nearest(r, g, b, 10)
        assert {colour for colour, _ in found} <= set(listed)
        for number, (_, rest) in enumerate(blocks):
            later = {colour for block, _ in blocks[number + 1 :] for colour in block}
            assert all(delta_e >= rest for colour, delta_e in found if colour in later)


def assert_bounds_hold(
    palette: Palette, axes: NDArray[np.float64], low: NDArray[np.float64], width: float, inside: NDArray[np.float64]
) -> None:
    """Checks the bounds of the palette's colours, `axes` in its space, against points in the box."""
    difference = DIFFERENCE_NAMES.index(palette.difference)
    labs = np.column_stack([axes, np.hypot(axes[:, 1], axes[:, 2])])
    least, most = delta_e_bounds(labs, low, width, difference).T
    for other in range(1, len(instruction_sets())):
        np.testing.assert_array_equal(delta_e_bounds(labs, low, width, difference, other).T, (least, most))
    delta_e = palette.delta_e(inside, scale=255)
    assert (least <= delta_e.min(axis=0) + 1e-9).all()
    assert (delta_e.max(axis=0) <= most + 1e-9).all()


@pytest.mark.parametrize("difference", range(len(DIFFERENCE_NAMES)), ids=DIFFERENCE_NAMES)
def test_the_bounds_hold_everywhere_in_a_box(difference: int) -> None:
    """Colours and boxes of every kind: along the greys, where hues jump, and around the colour itself."""
    rng = np.random.default_rng(77)
    for trial in range(1500):
        width = 2.0 ** rng.integers(0, 7)
        low = rng.integers(0, int(256 / width), 3) * width
        if trial % 4 == 0:  # along the greys
            low[:] = low[0]
        inside = low + width * np.concatenate([rng.uniform(0, 1, (60, 3)), rng.integers(0, 2, (20, 3))])
        inside = inside.clip(0, 255)
        near_grey = np.clip(rng.uniform(0, 255, (4, 1)) + rng.normal(0, 4, (4, 3)), 0, 255)
        tried = np.concatenate([rng.uniform(0, 255, (8, 3)), near_grey, inside[:2]])
        palette = Palette(tried, difference=DIFFERENCE_NAMES[difference], scale=255)
        axes = reference.oklab(tried) if DIFFERENCE_NAMES[difference] == "oklab" else srgb_to_lab(tried, scale=255)
        assert_bounds_hold(palette, axes, low, width, inside)


@pytest.mark.parametrize("width", [2.0, 4.0, 8.0, 16.0])
def test_the_bounds_hold_opposite_in_hue(width: float) -> None:
    """Where T dominates: between red and magenta a box is thin and lies across the hue."""
    rng = np.random.default_rng(78)
    for blue in np.arange(96, 176, width):
        low = np.array([256 - width, 0, blue])
        inside = (low + width * np.indices((2, 2, 5)).reshape(3, -1).T / [1, 1, 4]).clip(0, 255)
        middle = srgb_to_lab(inside, scale=255).mean(axis=0)
        hue = np.arctan2(middle[2], middle[1]) + np.pi + np.radians(rng.uniform(-width, width, 200))
        chroma = rng.uniform(80, 250, 200)
        lab = np.column_stack([np.full(200, middle[0]), chroma * np.cos(hue), chroma * np.sin(hue)])
        assert_bounds_hold(Palette(lab=lab), lab, low, width, inside)


# Bytes that are not an index of this palette


def sealed(index: bytes) -> bytes:
    """The same bytes with the right SHA-256, as an attacker would write them."""
    before, after = index[: HEADER.size - 32], index[HEADER.size :]
    return before + sha256(before + after).digest() + after


def edited(index: bytes, at: int, value: int, form: str = "<H") -> bytes:
    changed = bytearray(index)
    struct.pack_into(form, changed, at, value)
    return sealed(bytes(changed))


def assert_refused(members: NDArray[np.float64], index: bytes, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Palette(members, index, scale=255)


def test_an_index_of_another_palette(members: NDArray[np.float64], index: bytes) -> None:
    assert_refused(members[:-1], index, "another palette")
    assert_refused(members[::-1], index, "another palette")
    assert_refused(np.nextafter(members, 1), index, "another palette")
    with pytest.raises(ValueError, match="another palette"):
        Palette(lab=FEW, index=Palette(FEW, scale=255).build_index())  # the same numbers
    with pytest.raises(ValueError, match="another difference"):
        Palette(members, index, difference="cie76", scale=255)


def test_a_truncated_index(members: NDArray[np.float64], index: bytes) -> None:
    for end in (0, 7, HEADER.size - 1, HEADER.size, HEADER.size + 4 * ROOT_CELLS, len(index) - 2, len(index) - 1):
        assert_refused(members, index[:end], "truncated")
    assert_refused(members, index + bytes(1), "truncated")
    assert_refused(members, index + bytes(2), "has extra bytes")


def test_what_is_no_index(members: NDArray[np.float64], index: bytes) -> None:
    assert_refused(members, b"SEPUINDX" + index[8:], "index is not of version 1")
    assert_refused(members, edited(index, 8, 2, "<I"), "index is not of version 1")
    with pytest.raises(TypeError):
        Palette(members, "index", scale=255)  # type: ignore[arg-type]


def test_every_changed_byte_is_noticed(members: NDArray[np.float64], index: bytes) -> None:
    for at in [*range(HEADER.size), *range(HEADER.size, len(index), len(index) // 50)]:
        changed = bytearray(index)
        changed[at] ^= 1
        assert_refused(members, bytes(changed), "index")


def test_lists_that_are_malformed(members: NDArray[np.float64]) -> None:
    index = Palette(members, scale=255).build_index(k=3)
    cells, lists, at = parse(index)
    leaf = next(slot for slot, cell in enumerate(cells) if not cell & DIVIDED)
    node = next(slot for slot, cell in enumerate(cells) if cell & DIVIDED)
    of_leaf = HEADER.size + 4 * leaf
    first_list = at + 2 * cells[leaf]
    for changed in (
        edited(index, of_leaf, len(lists), "<I"),  # past the lists
        edited(index, of_leaf, DIVIDED | len(cells) - 7, "<I"),  # past the cells
        edited(index, HEADER.size + 4 * node, DIVIDED | node // 8 * 8, "<I"),  # points to itself
        edited(index, of_leaf, 0xFFFFFFFF, "<I"),
        edited(index, first_list, 0),
        edited(index, first_list, 2),  # a list of fewer than k
        edited(index, first_list, 65535),
        edited(index, first_list + 2, len(members)),  # not a colour of the palette
        edited(index, 12, 0, "<I"),  # k
        edited(index, 12, 2**31, "<I"),
    ):
        assert_refused(members, changed, "malformed")
    for slot in range(0, len(cells), 97):  # the first number that is beyond each array
        for beyond in (len(lists), DIVIDED | len(cells) - 7):
            assert_refused(members, edited(index, HEADER.size + 4 * slot, beyond, "<I"), "malformed")
    assert_refused(members, edited(index, HEADER.size - 80, 2**63, "<Q"), "truncated")  # the number of cells
    assert_refused(members, edited(index, HEADER.size - 72, 2**63, "<Q"), "truncated")


def crafted(cells: list[int], lists: list[int]) -> bytes:
    """An index of three colours by these numbers, with the right checksum."""
    header = Palette(FEW, index=True, scale=255).index
    assert header is not None
    numbers = np.array(cells, "<u4").tobytes() + np.array(lists, "<u2").tobytes()
    before = (
        header[: HEADER.size - 80] + struct.pack("<QQ", len(cells), len(lists)) + header[HEADER.size - 64 : HEADER.size]
    )
    return sealed(edited(before, 12, 2, "<I")[: HEADER.size] + numbers)


FEW = np.array([(0.0, 0.0, 0.0), (9.0, 9.0, 9.0), (99.0, 9.0, 9.0)])
LIST = [2, 0, 2]  # of two colours


def test_a_cell_or_a_list_that_only_what_follows_its_array_completes() -> None:
    """What lies beyond an array may look like a part of the index; only the bounds tell."""
    leaves = [len(LIST) * place for place in range(ROOT_CELLS + 7)]
    divided = [*leaves[: ROOT_CELLS - 1], DIVIDED | ROOT_CELLS, *leaves[ROOT_CELLS - 1 :]]
    Palette(FEW, crafted(divided, LIST * len(leaves)), scale=255)
    # The eighth cell of the last node would be the lists' first two numbers: the place 2, where a list could begin.
    assert_refused(FEW, crafted(divided[:-1], LIST * len(leaves)), "malformed")
    # The last list would end one number after the lists, and another number is unused instead.
    shifted = [*leaves[: ROOT_CELLS - 1], leaves[ROOT_CELLS - 1] + 1]
    assert_refused(FEW, crafted(shifted, [*LIST * (ROOT_CELLS - 1), 0, 2, 0]), "malformed")
