# cython: boundscheck=False, wraparound=False, cdivision=True
"""Builds the index of a palette. Serving never imports this module.

docs/develop/indexes.md derives the bounds; index_format.pxi describes the bytes.
"""

from libc.math cimport INFINITY, fabs, fma, sqrt
from libc.stdint cimport uint64_t
from libc.stdlib cimport free, malloc, qsort, realloc
from libc.string cimport memcpy

import struct
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256

import numpy as np

include "srgb_to_lab.pxi"
include "srgb_to_oklab.pxi"
include "nearest.pxi"
include "index_format.pxi"

cdef enum:
    MAX_K = 10
    PARTS = 64  # each thread builds one at a time
    PART_WIDTH = 64
    PART_CELLS = 64  # of the root
    MIN_WIDTH = 2  # of a cell; narrower ones, mostly near the greys, cost much memory and save little time

# Cells whose lists are longer than `max_length` are divided. Octants are reunited if the joint list is not much longer
# than theirs. PERF: of the values tried, this needs the least memory for its speed.
cdef double UNITED = 1.5

# The most that rounding can change a bound. In L*a*b* the quantities are below 1e5 and come from about a hundred
# operations, so a square is off by less than 1e-8, and its root, near 0, by less than 1e-4. In OKLab they are below 10,
# and no square comes from a subtraction.
cdef double LAB_BOUND_ERROR = 1e-3
cdef double OKLAB_BOUND_ERROR = 1e-9


cdef double bound_error(int difference) noexcept:
    return OKLAB_BOUND_ERROR if difference == OKLAB else LAB_BOUND_ERROR


# Boxes around cells

# Each component is the curve of a weighted sum of the linear channels; each axis is a weighted sum of the components.
cdef struct ColourSpace:
    double[3][3] components
    double[3][3] axes
    double[3] offset
    double (*curve)(double t) noexcept nogil
    double (*slope)(double value) noexcept nogil  # of the curve, where it has this value


cdef double lab_curve(double t) noexcept nogil:
    return lab_f(t)


cdef double lab_slope(double f) noexcept nogil:
    return 1.0 / (3.0 * f * f) if f > 6.0 / 29.0 else KAPPA / 116.0


cdef double oklab_curve(double t) noexcept nogil:
    return oklab_f(t)


cdef double oklab_slope(double root) noexcept nogil:
    return 1.0 / (3.0 * max(root * root, 1e-30))  # infinite at 0, where the mean value theorem is of no use


cdef ColourSpace LAB_SPACE, OKLAB_SPACE
LAB_SPACE.components = [
    [X_RED, 1.0 - X_RED - X_BLUE, X_BLUE], [Y_RED, 1.0 - Y_RED - Y_BLUE, Y_BLUE], [Z_RED, 1.0 - Z_RED - Z_BLUE, Z_BLUE]
]
LAB_SPACE.axes = [[0.0, 116.0, 0.0], [500.0, -500.0, 0.0], [0.0, 200.0, -200.0]]
LAB_SPACE.offset = [-16.0, 0.0, 0.0]
LAB_SPACE.curve, LAB_SPACE.slope = lab_curve, lab_slope
OKLAB_SPACE.components, OKLAB_SPACE.axes, OKLAB_SPACE.offset = OKLAB_CONES, OKLAB_AXES, [0.0, 0.0, 0.0]
OKLAB_SPACE.curve, OKLAB_SPACE.slope = oklab_curve, oklab_slope


cdef const ColourSpace* space_of(int difference) noexcept:
    return &OKLAB_SPACE if difference == OKLAB else &LAB_SPACE


cdef LabBox enclose_cube(const ColourSpace* space, const double* low, double width) noexcept nogil:
    """Returns a box in the colour space around the sRGB cube with this corner and width, from 0 to 255."""
    cdef double[3] dark, bright, middle, half, least, most, centre, steepest, flattest, ends_low, ends_high
    cdef double value, radius, slope_low, slope_high, direct_low, direct_high, share
    cdef int i, j, axis
    for i in range(3):
        dark[i] = linearize_channel(low[i])
        bright[i] = linearize_channel(min(low[i] + width, 255.0))
        middle[i] = (dark[i] + bright[i]) / 2.0
        half[i] = (bright[i] - dark[i]) / 2.0
    for j in range(3):  # the components grow with every channel, and their slopes fall
        least[j] = space.curve(multiply_row(space.components[j], dark))
        most[j] = space.curve(multiply_row(space.components[j], bright))
        centre[j] = space.curve(multiply_row(space.components[j], middle))
        steepest[j] = space.slope(least[j])
        flattest[j] = space.slope(most[j])
    for axis in range(3):
        # The tighter bound: of each component alone, or by the mean value theorem from the middle, channel by channel.
        direct_low = direct_high = value = space.offset[axis]
        radius = 0.0
        for j in range(3):
            share = space.axes[axis][j]
            value += share * centre[j]
            direct_low += min(share * least[j], share * most[j])
            direct_high += max(share * least[j], share * most[j])
        for i in range(3):
            slope_low = slope_high = 0.0
            for j in range(3):
                share = space.axes[axis][j] * space.components[j][i]
                slope_low += min(share * flattest[j], share * steepest[j])
                slope_high += max(share * flattest[j], share * steepest[j])
            radius += half[i] * max(fabs(slope_low), fabs(slope_high))
        ends_low[axis] = max(value - radius, direct_low)
        ends_high[axis] = min(value + radius, direct_high)
    cdef LabBox box
    box.lightness_low, box.lightness_high = ends_low[0], ends_high[0]
    box.a_low, box.a_high = ends_low[1], ends_high[1]
    box.b_low, box.b_high = ends_low[2], ends_high[2]
    box.chroma_low = norm(clamp(0.0, box.a_low, box.a_high), clamp(0.0, box.b_low, box.b_high))
    box.chroma_high = norm(max(-box.a_low, box.a_high), max(-box.b_low, box.b_high))
    return box


def delta_e_bounds(const double[:, ::1] labs, low, double width, int difference, int instruction_set=0):
    """Bounds the difference between each colour, L*a*b* and C*, and any point of the sRGB cube with the corner `low`.

    For tests. `difference` and `instruction_set` index `DIFFERENCE_NAMES` and `instruction_sets()`.
    """
    cdef const double[:, ::1] rows = np.array([low], dtype=np.float64)
    cdef LabBox box = enclose_cube(space_of(difference), &rows[0, 0], width)
    cdef BoundsFunction bound = INSTRUCTION_SETS[instruction_set].differences[difference].bound
    result = np.empty((labs.shape[0], 2))
    cdef double[:, ::1] out = result
    cdef LabBlock block
    cdef double[LANES] least, most
    cdef Py_ssize_t i
    for i in range(labs.shape[0]):
        fill_block(&block, <const Lab*> &labs[i, 0])
        bound(&block, &box, least, most)
        out[i, 0], out[i, 1] = least[0], most[0]
    return result


# Building

cdef struct Candidate:
    double least  # a lower bound of the difference to any point of a cell
    unsigned int colour


cdef int compare_candidates(const void* one, const void* two) noexcept nogil:
    cdef const Candidate* first = <const Candidate*> one
    cdef const Candidate* second = <const Candidate*> two
    if first.least != second.least:
        return -1 if first.least < second.least else 1
    return -1 if first.colour < second.colour else 1


cdef struct Numbers:  # a growable array
    unsigned int* at
    Py_ssize_t count, capacity


cdef unsigned int* extend(Numbers* numbers, Py_ssize_t count) noexcept nogil:
    """Returns where `count` new numbers begin; NULL if out of memory."""
    cdef unsigned int* grown
    if numbers.count + count > numbers.capacity:
        numbers.capacity = 2 * (numbers.count + count)
        grown = <unsigned int*> realloc(numbers.at, numbers.capacity * sizeof(unsigned int))
        if grown == NULL:
            return NULL
        numbers.at = grown
    numbers.count += count
    return numbers.at + numbers.count - count


cdef struct Builder:
    const Lab* labs  # in palette order
    const ColourSpace* space
    BoundsFunction bound
    Py_ssize_t k, max_length
    double error, unit
    double* leasts  # scratch space: INFINITY for each colour
    Numbers cells, lists


cdef Py_ssize_t find_candidates(
    const Builder* builder, const LabBox* box, const Candidate* given, Py_ssize_t count, Candidate* found
) noexcept nogil:
    """Fills `found`, in order, with those of `given` that can be among the nearest k of a point of the box.

    `given` is ordered by the lower bounds of an enclosing box.
    """
    cdef Py_ssize_t i, lane, lanes, j, kept = 0, known = 0, remaining = 0
    cdef LabBlock block
    cdef double[LANES] least, most
    cdef Match[MAX_K] best  # the smallest upper bounds
    cdef double limit = INFINITY
    fill_block(&block, &builder.labs[given[0].colour])
    for j in range(count_blocks(count)):
        i = j * LANES
        if given[i].least > limit:
            break
        lanes = min(LANES, count - i)
        for lane in range(lanes):
            set_lane(&block, lane, &builder.labs[given[i + lane].colour])
        builder.bound(&block, box, least, most)
        for lane in range(lanes):
            known = insert_match(best, known, builder.k, most[lane], given[i + lane].colour)
            if least[lane] <= limit:
                found[kept] = Candidate(least[lane], given[i + lane].colour)
                kept += 1
        if known == builder.k:
            limit = best[builder.k - 1].delta_e + builder.error
    for i in range(kept):
        if found[i].least <= limit:
            found[remaining] = found[i]
            remaining += 1
    qsort(found, remaining, sizeof(Candidate), compare_candidates)
    return remaining


cdef struct Cell:
    Candidate* list  # of a cell that is not divided; freed by `write_cell`
    Py_ssize_t length  # 0 if out of memory
    unsigned int octants  # DIVIDED and their position, or 0


cdef int write_cell(Builder* builder, Py_ssize_t slot, Cell* cell) noexcept nogil:
    """Puts a cell and its list into the index; returns 0 if out of memory."""
    cdef unsigned int* list
    cdef Py_ssize_t i
    builder.cells.at[slot] = cell.octants
    if cell.octants:
        return 1
    builder.cells.at[slot] = builder.lists.count
    list = extend(&builder.lists, 1 + cell.length + (cell.length - 1) // LANES) if cell.length else NULL
    if list != NULL:
        list[0] = cell.length
        list += 1
        for i in range(cell.length):
            if i and i % LANES == 0:
                list[0] = <unsigned int> min(max(cell.list[i].least - builder.error, 0.0) / builder.unit, 65535.0)
                list += 1
            list[0] = cell.list[i].colour
            list += 1
    free(cell.list)
    cell.list = NULL
    return list != NULL


cdef Cell unite(Builder* builder, const Cell* octants) noexcept nogil:
    """Returns the cell of all octants' candidates; length 0 if out of memory."""
    cdef Cell cell = Cell(NULL, 0, 0)
    cdef Py_ssize_t total = 0, i, j
    cdef const Candidate* one
    for i in range(8):
        total += octants[i].length
    cell.list = <Candidate*> malloc(total * sizeof(Candidate))
    if cell.list == NULL:
        return cell
    for i in range(8):
        for j in range(octants[i].length):
            one = &octants[i].list[j]
            if builder.leasts[one.colour] == INFINITY:
                cell.list[cell.length].colour = one.colour
                cell.length += 1
            builder.leasts[one.colour] = min(builder.leasts[one.colour], one.least)
    for i in range(cell.length):
        cell.list[i].least = builder.leasts[cell.list[i].colour]
        builder.leasts[cell.list[i].colour] = INFINITY
    qsort(cell.list, cell.length, sizeof(Candidate), compare_candidates)
    return cell


cdef Cell build_cell(
    Builder* builder, const double* low, double width, const Candidate* given, Py_ssize_t count, Py_ssize_t slot
) noexcept nogil:
    """Returns the cell of the cube with the corner `low`, with its octants, if any, already in the index.

    A cube wider than a root cell is always divided; its cells are put into the index from `slot`.
    """
    cdef LabBox box = enclose_cube(builder.space, low, width)
    cdef Cell cell = Cell(<Candidate*> malloc(count * sizeof(Candidate)), 0, 0)
    cdef Cell[8] octants
    cdef double half = width / 2.0
    cdef double[3] corner
    cdef Py_ssize_t i, first = slot, step = 8 if width == PART_WIDTH else 1, lengths = 0
    cdef bint whole = True, divided = width > ROOT_WIDTH
    if cell.list == NULL:
        return cell
    cell.length = find_candidates(builder, &box, given, count, cell.list)
    if not divided and (width <= MIN_WIDTH or cell.length <= builder.max_length):
        return cell
    for i in range(8):
        corner[0] = low[0] + (half if i & 4 else 0.0)
        corner[1] = low[1] + (half if i & 2 else 0.0)
        corner[2] = low[2] + (half if i & 1 else 0.0)
        octants[i] = build_cell(builder, corner, half, cell.list, cell.length, first + i * step)
        whole = whole and (octants[i].length > 0 or octants[i].octants)
        divided = divided or octants[i].octants
        lengths += octants[i].length
    free(cell.list)
    cell = Cell(NULL, 0, 0)
    if whole and not divided:
        cell = unite(builder, octants)
        if cell.length <= max(<double> builder.max_length, UNITED * lengths / 8.0):
            for i in range(8):
                free(octants[i].list)
            return cell
        free(cell.list)
        cell = Cell(NULL, 0, 0)
    if width <= ROOT_WIDTH and whole:
        first = builder.cells.count
        whole = extend(&builder.cells, 8) != NULL
        cell.octants = DIVIDED | first
    for i in range(8):
        if not whole:
            free(octants[i].list)
        elif width <= 2 * ROOT_WIDTH:
            whole = write_cell(builder, first + i, &octants[i])
    if not whole:
        cell.octants = 0
    elif width > ROOT_WIDTH:
        cell.octants = DIVIDED
    return cell


def find_first_equals(labs, Py_ssize_t k):
    """Returns the indices of the first k of each set of equal colours; no others can be among the nearest k."""
    equals = np.unique(labs, axis=0, return_inverse=True)[1].ravel()
    order = np.argsort(equals, kind="stable")
    begins = np.searchsorted(equals[order], equals[order])
    return np.sort(order[np.arange(len(order)) - begins < k]).astype(np.uint32)


def build_part(const double[:, ::1] labs, const unsigned int[::1] colours, int difference, int k, int number):
    """Returns the cells and the lists of a part; the first PART_CELLS cells are the root's."""
    cdef Builder builder
    cdef Py_ssize_t size = labs.shape[0], i
    cdef double[3] corner
    cdef Cell cell = Cell(NULL, 0, 0)
    corner[0], corner[1], corner[2] = number // 16 * PART_WIDTH, number // 4 % 4 * PART_WIDTH, number % 4 * PART_WIDTH
    builder.labs = <const Lab*> &labs[0, 0]
    builder.space = space_of(difference)
    builder.bound = INSTRUCTION_SETS[0].differences[difference].bound
    builder.k = min(k, size)
    builder.max_length = max(LANES, 3 * k * k // 4)
    builder.error = bound_error(difference)
    builder.unit = list_unit(difference)
    builder.cells = Numbers(NULL, 0, 0)
    builder.lists = Numbers(NULL, 0, 0)
    builder.leasts = <double*> malloc(size * sizeof(double))
    cdef Candidate* every = <Candidate*> malloc(colours.shape[0] * sizeof(Candidate))
    try:
        with nogil:
            if every != NULL and builder.leasts != NULL and extend(&builder.cells, PART_CELLS) != NULL:
                for i in range(size):
                    builder.leasts[i] = INFINITY
                for i in range(colours.shape[0]):
                    every[i] = Candidate(0.0, colours[i])
                cell = build_cell(&builder, corner, PART_WIDTH, every, colours.shape[0], 0)
        if not cell.octants:
            raise MemoryError
        return (
            np.array(<unsigned int[:builder.cells.count]> builder.cells.at),
            np.array(<unsigned int[:builder.lists.count]> builder.lists.at),
        )
    finally:
        free(every)
        free(builder.leasts)
        free(builder.cells.at)
        free(builder.lists.at)


def build_index(labs, Py_ssize_t difference, int k, bytes digest, threads, progress):
    """Returns the index of a palette as bytes. `Palette.build_index` checks the arguments."""
    root = np.empty((4, 4, 4, 4, 4, 4), dtype=np.uint32)  # red, green, blue; of each the part, then the cell in it
    cells, lists = [root.reshape(-1)], []
    cell_count, list_count = ROOT_CELLS - PART_CELLS, 0
    colours = find_first_equals(labs, k)
    with ThreadPoolExecutor(threads) as pool:
        parts = pool.map(lambda number: build_part(labs, colours, difference, k, number), range(PARTS))
        for number, (part_cells, part_lists) in enumerate(parts):
            divided = part_cells >= <unsigned int> DIVIDED
            part_cells += np.where(divided, cell_count, list_count).astype(np.uint32)
            octants = part_cells[:PART_CELLS].reshape(2, 2, 2, 2, 2, 2).transpose(0, 3, 1, 4, 2, 5)
            root[number // 16, :, number // 4 % 4, :, number % 4, :] = octants.reshape(4, 4, 4)
            cells.append(part_cells[PART_CELLS:])
            lists.append(part_lists)
            cell_count += len(part_cells) - PART_CELLS
            list_count += len(part_lists)
            if progress is not None:
                progress((number + 1) / PARTS)
    if list_count >= DIVIDED:
        raise ValueError("too many colours for an index")
    numbers = [
        np.concatenate(cells).astype("<u4").tobytes(), np.concatenate(lists).astype(list_type(len(labs))).tobytes()
    ]
    header = INDEX_HEADER.pack(
        INDEX_MAGIC, INDEX_VERSION, k, DIFFERENCE_NAMES[difference].encode(), len(labs), cell_count + PART_CELLS,
        list_count, digest,
    )
    return b"".join([header, hash_parts(header, *numbers), *numbers])
