"""The candidate grid: the same answers as the search without it. A palette refuses anything but its own grid."""

import struct

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from tests.core.colours import Rgb, colours, random_rgb
from tests.core.grid_queries import EDGES, queries, same_answers

from sepu._grid_builder import build_grid, delta_e_bounds
from sepu._palette import Palette, instruction_sets

HEADER = struct.Struct("<8sIIIII32s")
CELLS = 32**3


@pytest.fixture(scope="module")
def members() -> NDArray[np.float64]:
    """Colours of every kind: greys, doubles, neighbours, the corners, and others."""
    rng = np.random.default_rng(42)
    greys = np.repeat(rng.integers(0, 256, (6, 1)), 3, axis=1)
    corners = np.stack(np.meshgrid([0, 255], [0, 255], [0, 255]), axis=-1).reshape(-1, 3)
    others = rng.uniform(0, 255, (20, 3))
    return np.concatenate([greys, others, corners, others[:4], others[4:8] * 0.999, greys[:2]])


@pytest.fixture(scope="module")
def grid(members: NDArray[np.float64]) -> bytes:
    return build_grid(members)


@pytest.mark.parametrize("instruction_set", instruction_sets())
def test_every_instruction_set_by_the_grid(members: NDArray[np.float64], grid: bytes, instruction_set: str) -> None:
    same_answers(members, grid, queries(members, 50_000), instruction_set)


def test_the_same_palette_gives_the_same_bytes(members: NDArray[np.float64], grid: bytes) -> None:
    assert build_grid(np.asfortranarray(members)) == grid


@given(st.data())
def test_single_queries_by_the_grid(members: NDArray[np.float64], grid: bytes, data: st.DataObject) -> None:
    query: Rgb = data.draw(st.one_of(colours, st.tuples(*[st.sampled_from(EDGES)] * 3)))
    k = data.draw(st.integers(1, 5))
    assert Palette(members, grid).nearest(*query, k) == Palette(members).nearest(*query, k)


@settings(max_examples=8, deadline=None)
@given(st.lists(colours, min_size=1, max_size=5), st.lists(colours, min_size=1, max_size=200))
def test_the_grid_of_any_small_palette(members: list[Rgb], rgb: list[Rgb]) -> None:
    same_answers(members, build_grid(members), np.array([*rgb, *members]))


def test_no_cell_lacks_what_is_nearest_in_it(members: NDArray[np.float64], grid: bytes) -> None:
    """The lists themselves: every member of the nearest three of a random point is in its cell's list."""
    numbers = np.frombuffer(grid, "<u2", offset=HEADER.size)
    count = HEADER.unpack_from(grid)[5]
    lists = np.split(numbers[CELLS + count :], np.cumsum(numbers[CELLS : CELLS + count])[:-1])
    rgb = random_rgb(2000, seed=8)
    cells = np.array([32 * 32, 32, 1]) @ (rgb // 8).astype(int).T
    for cell, found in zip(cells, Palette(members).nearest_batch(rgb, 3)[0], strict=True):
        assert set(found) <= set(lists[numbers[cell]])


def test_the_bounds_hold_everywhere_in_a_box() -> None:
    """Colours and boxes of every kind: along the greys, where hues jump, and around the colour itself."""
    rng = np.random.default_rng(77)
    for trial in range(6000):
        width = 2.0 ** rng.integers(0, 4)
        low = rng.integers(0, int(256 / width), 3) * width
        colour = rng.uniform(0, 255, 3) if trial % 3 else np.clip(rng.uniform(0, 255) + rng.normal(0, 4, 3), 0, 255)
        if trial % 4 == 0:  # along the greys
            low[:] = low[0]
        inside = low + width * np.concatenate([rng.uniform(0, 1, (60, 3)), rng.integers(0, 2, (20, 3))])
        if trial % 5 == 0:  # the colour in its own box
            colour = inside[0].clip(0, 255)
        delta_e = Palette([colour]).delta_e(inside.clip(0, 255))
        least, most = delta_e_bounds(colour, low, width)
        assert least <= delta_e.min() + 1e-9
        assert delta_e.max() <= most + 1e-9


# What is no grid of this palette


def edited(grid: bytes, at: int, value: int, form: str = "<H") -> bytes:
    changed = bytearray(grid)
    struct.pack_into(form, changed, at, value)
    return bytes(changed)


def refused(members: NDArray[np.float64], grid: bytes, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Palette(members, grid)


def test_a_grid_of_another_palette(members: NDArray[np.float64], grid: bytes) -> None:
    refused(members[:-1], grid, "another palette")
    refused(members[::-1], grid, "another palette")
    refused(np.nextafter(members, 1), grid, "another palette")


def test_a_truncated_grid(members: NDArray[np.float64], grid: bytes) -> None:
    for end in (0, 7, HEADER.size - 1, HEADER.size, HEADER.size + CELLS, len(grid) - 2, len(grid) - 1):
        refused(members, grid[:end], "truncated")
    refused(members, grid + bytes(1), "truncated")
    refused(members, grid + bytes(2), "longer than its lists")


def test_what_is_no_grid(members: NDArray[np.float64], grid: bytes) -> None:
    refused(members, b"SEPUGRID" + grid[8:], "no candidate grid of version 1")
    for at in (8, 12, 16):  # version, k, cells a side
        refused(members, edited(grid, at, 9, "<I"), "no candidate grid of version 1")
    with pytest.raises(TypeError):
        Palette(members, "grid")  # type: ignore[arg-type]


def test_lists_that_are_malformed(members: NDArray[np.float64], grid: bytes) -> None:
    count = HEADER.unpack_from(grid)[5]
    first_length, first_list = HEADER.size + 2 * CELLS, HEADER.size + 2 * (CELLS + count)
    length, after = struct.unpack_from("<HH", grid, first_length)
    refused(members, edited(grid, HEADER.size, count), "malformed")  # a cell of no list
    refused(members, edited(grid, first_list, len(members)), "malformed")  # no colour of the palette
    refused(members, edited(grid, first_list, struct.unpack_from("<H", grid, first_list + 2)[0]), "malformed")  # twice
    refused(members, edited(edited(grid, first_length, 2), first_length + 2, after + length - 2), "malformed")  # short
    refused(members, edited(grid, 24, count + 1, "<I"), "truncated|malformed")
    refused(members, edited(grid, 24, 0, "<I"), "truncated|malformed")
    refused(members, edited(grid, 24, 2**32 - 1, "<I"), "truncated")


def test_too_few_or_too_many_colours_for_a_grid() -> None:
    for count in (0, 65536):
        with pytest.raises(ValueError, match=f"from 1 to 65535 colours, not {count}"):
            build_grid(np.zeros((count, 3)))
