# cython: boundscheck=False, wraparound=False, cdivision=True
"""Matching: sRGB to CIE L*a*b*, the CIEDE2000 difference, and the nearest colours of a palette.

Source of the formula: Sharma, Wu and Dalal, "The CIEDE2000 color-difference formula: implementation notes,
supplementary test data, and mathematical observations", Color Research and Application 30 (2005), 21-30. Equation
numbers are this paper's. srgb_to_lab.pxi names the sources of the conversion.
"""

cimport cython
from libc.float cimport DBL_MAX
from libc.math cimport INFINITY, fabs, fma, pow, sqrt
from libc.stdint cimport uint64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy

import struct
from hashlib import sha256

import numpy as np

include "srgb_to_lab.pxi"
include "nearest.pxi"
include "grid_format.pxi"
include "similarity.pxi"


cdef extern from "stdlib.h":
    int posix_memalign(void** memory, size_t alignment, size_t size) noexcept nogil


def instruction_sets():
    """Returns the names of the instruction sets that this processor has for the formula, the fastest first.

    They give the same bits. `ciede2000` and `Palette` use the first, or the one that tests name as `instruction_set`.
    """
    return tuple([INSTRUCTION_SETS[i].name.decode("ascii") for i in range(instruction_set_count)])


cdef DeltaEFunction find_delta_e_function(instruction_set) except NULL:
    if instruction_set is None:
        return INSTRUCTION_SETS[0].compute_delta_e
    names = instruction_sets()
    if instruction_set not in names:
        raise ValueError(f"instruction_set must be one of {', '.join(names)}, not {instruction_set}")
    return INSTRUCTION_SETS[<int> names.index(instruction_set)].compute_delta_e


# The nearest colours of a palette; docs/matching.md proves that the search finds what a full scan finds.

cdef double SQUARE_ERROR = 1e-9  # twice the most that rounding can change the square of a difference


cdef struct SortedColours:
    Py_ssize_t size
    LabBlock* blocks  # in order of lightness; copies of the lightest colour fill up the last block
    Py_ssize_t* indices  # for each lane of each block, the index in the palette


cdef inline Py_ssize_t find_first_block_not_darker(const SortedColours* colours, double lightness) noexcept nogil:
    """Returns the first block with a colour at least as light as `lightness`; the number of blocks if there is none."""
    cdef Py_ssize_t low = 0, high = count_blocks(colours.size), middle
    while low < high:
        middle = (low + high) // 2
        if colours.blocks[middle].lightness[LANES - 1] < lightness:
            low = middle + 1
        else:
            high = middle
    return low


cdef inline double bound_lighter_block(const SortedColours* colours, Py_ssize_t block, double lightness) noexcept nogil:
    """Returns the least difference of a query of this lightness to `block` and all lighter ones; INFINITY if none."""
    if block == count_blocks(colours.size):
        return INFINITY
    cdef double darkest = colours.blocks[block].lightness[0]
    return compute_lightness_term(lightness, darkest) if darkest > lightness else 0.0


cdef inline double bound_darker_block(const SortedColours* colours, Py_ssize_t block, double lightness) noexcept nogil:
    """Returns the least difference of a query of this lightness to `block` and all darker ones; INFINITY if none."""
    if block < 0:
        return INFINITY
    return compute_lightness_term(lightness, colours.blocks[block].lightness[LANES - 1])


cdef void find_nearest(
    const SortedColours* colours, DeltaEFunction compute_delta_e, const Lab* query, Py_ssize_t k, Match* best
) noexcept nogil:
    """Fills `best` with the k nearest colours, nearest first, equal ones in palette order; 1 <= k <= size."""
    cdef Py_ssize_t lighter = find_first_block_not_darker(colours, query.lightness)
    cdef Py_ssize_t darker = lighter - 1
    cdef double lighter_bound = bound_lighter_block(colours, lighter, query.lightness)
    cdef double darker_bound = bound_darker_block(colours, darker, query.lightness)
    cdef Py_ssize_t count = 0, block, lane
    cdef double bound
    cdef double[LANES] delta_e
    cdef LabBlock queries
    fill_block(&queries, query)
    while True:
        bound = lighter_bound if lighter_bound < darker_bound else darker_bound
        if bound == INFINITY or (
            count == k and bound * bound > best[k - 1].delta_e * best[k - 1].delta_e + SQUARE_ERROR
        ):
            return
        if lighter_bound < darker_bound:
            block = lighter
            lighter += 1
            lighter_bound = bound_lighter_block(colours, lighter, query.lightness)
        else:
            block = darker
            darker -= 1
            darker_bound = bound_darker_block(colours, darker, query.lightness)
        compute_delta_e(&queries, &colours.blocks[block], delta_e)
        for lane in range(min(LANES, colours.size - block * LANES)):
            count = insert_match(best, count, k, delta_e[lane], colours.indices[block * LANES + lane])


cdef inline Py_ssize_t locate_cell(double r, double g, double b) noexcept nogil:
    """Returns the number of the grid's cell that holds the colour; an integer division by GRID_CELL_WIDTH."""
    return ((<int> r >> 3) * GRID_SIDE + (<int> g >> 3)) * GRID_SIDE + (<int> b >> 3)


def read_grid(bytes grid not None, const double[:, ::1] rows):
    """Returns where the list of each cell begins, and the lists, each after its length.

    Raises ValueError for other bytes than a grid of the palette `rows`.
    """
    if len(grid) < GRID_HEADER.size or (len(grid) - GRID_HEADER.size) % 2:
        raise ValueError("grid is truncated")
    magic, version, k, side, size, count, digest = GRID_HEADER.unpack_from(grid)
    if magic != GRID_MAGIC or (version, k, side) != (GRID_VERSION, GRID_K, GRID_SIDE):
        raise ValueError(f"grid is no candidate grid of version {GRID_VERSION}")
    if size != rows.shape[0] or digest != hash_palette(rows):
        raise ValueError("grid belongs to another palette")
    numbers = np.frombuffer(grid, "<u2", offset=GRID_HEADER.size)
    if len(numbers) < GRID_CELLS + count:
        raise ValueError("grid is truncated")
    cells, lengths, members = np.split(numbers, [GRID_CELLS, GRID_CELLS + count])
    ends = np.cumsum(lengths, dtype=np.int64)
    if len(members) != lengths.sum(dtype=np.int64):
        raise ValueError("grid is truncated, or longer than its lists")
    begins = ends - lengths
    ascends = np.diff(members.astype(np.int64), prepend=-1) > 0
    ascends[begins[lengths > 0]] = True
    in_range = (cells < count).all() and (lengths >= min(GRID_K, size)).all() and (members < size).all()
    if not (in_range and ascends.all()):
        raise ValueError("grid is malformed")
    lists = np.insert(members, begins, lengths).astype(np.uint16)
    return (begins + np.arange(count))[cells].astype(np.uint32), lists


cdef inline int check_channels(double r, double g, double b) except -1:
    if not (0.0 <= r <= 255.0 and 0.0 <= g <= 255.0 and 0.0 <= b <= 255.0):  # nor NaN
        raise ValueError("a channel is not a number from 0 to 255")
    return 0


def srgb_to_lab(rgb):
    """Converts sRGB colours to CIE L*a*b* (D65, 2 degree observer).

    `rgb`: shape (n, 3), real numbers from 0 to 255, any real dtype and strides. Returns float64 (n, 3): L* from 0 to
    100, a* and b*. Raises ValueError for another shape and for a channel that is NaN, infinite or out of range,
    TypeError for other values than real numbers. Source: IEC 61966-2-1 and CIE 15, with the white of sRGB.
    """
    cdef const double[:, ::1] rows = read_rgb_rows(rgb)
    result = np.empty((rows.shape[0], 3))
    cdef double[:, ::1] out = result
    cdef Py_ssize_t i
    cdef Lab lab
    with nogil:
        for i in range(rows.shape[0]):
            lab = convert_srgb_to_lab(rows[i, 0], rows[i, 1], rows[i, 2])
            out[i, 0] = lab.lightness
            out[i, 1] = lab.a
            out[i, 2] = lab.b
    return result


def ciede2000(lab1, lab2, *, instruction_set=None):
    """Computes the CIEDE2000 difference of each row of `lab1` and the same row of `lab2`, with kL = kC = kH = 1.

    `lab1`, `lab2`: shape (n, 3), L*a*b*. Returns float64 (n,). Raises ValueError for another shape, for different
    lengths and for values that are not finite. Source: Sharma, Wu and Dalal 2005. `instruction_set`: see
    `instruction_sets`.
    """
    cdef DeltaEFunction compute_delta_e = find_delta_e_function(instruction_set)
    cdef const double[:, ::1] ones = read_rows(lab1, "lab1", -DBL_MAX, DBL_MAX, "is not finite")
    cdef const double[:, ::1] twos = read_rows(lab2, "lab2", -DBL_MAX, DBL_MAX, "is not finite")
    if ones.shape[0] != twos.shape[0]:
        raise ValueError(f"lab1 and lab2 differ in length: {ones.shape[0]} and {twos.shape[0]}")
    result = np.empty(ones.shape[0])
    cdef double[::1] out = result
    cdef Py_ssize_t i, block, lane
    cdef LabBlock one, two
    cdef Lab lab = make_lab(0.0, 0.0, 0.0)
    cdef double[LANES] delta_e
    with nogil:
        fill_block(&one, &lab)
        fill_block(&two, &lab)
        for block in range(count_blocks(ones.shape[0])):
            for lane in range(min(LANES, ones.shape[0] - block * LANES)):
                i = block * LANES + lane
                lab = make_lab(ones[i, 0], ones[i, 1], ones[i, 2])
                set_lane(&one, lane, &lab)
                lab = make_lab(twos[i, 0], twos[i, 1], twos[i, 2])
                set_lane(&two, lane, &lab)
            compute_delta_e(&one, &two, delta_e)
            for lane in range(min(LANES, ones.shape[0] - block * LANES)):
                out[block * LANES + lane] = delta_e[lane]
    return result


@cython.final
cdef class Palette:
    """Finds the nearest of a fixed set of sRGB colours to any sRGB colour, exactly, by CIEDE2000.

    `rgb`: shape (n, 3), n at least 1, real numbers from 0 to 255; raises ValueError otherwise. A palette never changes,
    so threads may share one. `size` is the number of its colours.

    `grid`: None, or the bytes that `sepu._grid_builder.build_grid` made of the same palette; raises ValueError for
    anything else. A grid makes answers for k up to 3 faster, and changes none. `instruction_set`: see
    `instruction_sets`.
    """

    cdef SortedColours by_lightness
    cdef Lab* labs  # in palette order
    cdef DeltaEFunction compute_delta_e
    cdef readonly Py_ssize_t size
    cdef readonly bint has_grid
    cdef const unsigned int[::1] list_starts  # for each cell of the grid
    cdef const unsigned short[::1] lists

    def __cinit__(self, rgb, grid=None, *, instruction_set=None):
        cdef const double[:, ::1] rows = read_rgb_rows(rgb)
        cdef Py_ssize_t place, index, lanes = count_blocks(rows.shape[0]) * LANES
        cdef Lab lab
        if rows.shape[0] == 0:
            raise ValueError("a palette needs at least one colour")
        self.compute_delta_e = find_delta_e_function(instruction_set)
        cdef const double[:, ::1] labs = srgb_to_lab(rows)
        cdef const Py_ssize_t[::1] order = np.argsort(labs[:, 0], kind="stable").astype(np.intp)
        self.size = self.by_lightness.size = rows.shape[0]
        if posix_memalign(<void**> &self.by_lightness.blocks, 64, lanes // LANES * sizeof(LabBlock)) != 0:
            self.by_lightness.blocks = NULL
            raise MemoryError
        self.by_lightness.indices = <Py_ssize_t*> malloc(lanes * sizeof(Py_ssize_t))
        self.labs = <Lab*> malloc(self.size * sizeof(Lab))
        if self.by_lightness.indices == NULL or self.labs == NULL:
            raise MemoryError
        for place in range(lanes):
            index = order[min(place, self.size - 1)]
            lab = make_lab(labs[index, 0], labs[index, 1], labs[index, 2])
            set_lane(&self.by_lightness.blocks[place // LANES], place % LANES, &lab)
            self.by_lightness.indices[place] = index
            self.labs[index] = lab
        if grid is not None:
            self.list_starts, self.lists = read_grid(grid, rows)
            self.has_grid = True

    def __dealloc__(self):
        free(self.by_lightness.blocks)
        free(self.by_lightness.indices)
        free(self.labs)

    cdef void find(self, double r, double g, double b, Py_ssize_t k, Match* best) noexcept nogil:
        cdef Lab query = convert_srgb_to_lab(r, g, b)
        cdef const unsigned short* candidates
        if self.has_grid and k <= GRID_K:
            candidates = &self.lists[self.list_starts[locate_cell(r, g, b)]]
            find_nearest_candidates(self.labs, self.compute_delta_e, &query, candidates + 1, candidates[0], k, best)
        else:
            find_nearest(&self.by_lightness, self.compute_delta_e, &query, k, best)

    def nearest(self, double r, double g, double b, Py_ssize_t k):
        """Returns the `k` colours nearest to one sRGB colour, as a list of (index, delta_e), nearest first.

        Colours at the same difference come in palette order. Raises ValueError for a channel that is not a number
        from 0 to 255, and unless 1 <= k <= size.
        """
        self.check_k(k)
        check_channels(r, g, b)
        cdef Match* best = <Match*> malloc(k * sizeof(Match))
        if best == NULL:
            raise MemoryError
        cdef Py_ssize_t i
        try:
            self.find(r, g, b, k, best)
            return [(best[i].index, best[i].delta_e) for i in range(k)]
        finally:
            free(best)

    def nearest_batch(self, rgb, Py_ssize_t k):
        """Finds the `k` colours nearest to each row of `rgb`, shape (n, 3), in the order of `nearest`.

        Returns indices, intp (n, k), and their CIEDE2000 differences, float64 (n, k). Raises ValueError for another
        shape or channel, and unless 1 <= k <= size. Works without the GIL.
        """
        self.check_k(k)
        cdef const double[:, ::1] rows = read_rgb_rows(rgb)
        indices = np.empty((rows.shape[0], k), dtype=np.intp)
        delta_e = np.empty((rows.shape[0], k))
        cdef Py_ssize_t[:, ::1] out_index = indices
        cdef double[:, ::1] out_delta_e = delta_e
        cdef Match* best = <Match*> malloc(k * sizeof(Match))
        if best == NULL:
            raise MemoryError
        cdef Py_ssize_t i, j
        with nogil:
            for i in range(rows.shape[0]):
                self.find(rows[i, 0], rows[i, 1], rows[i, 2], k, best)
                for j in range(k):
                    out_index[i, j] = best[j].index
                    out_delta_e[i, j] = best[j].delta_e
            free(best)
        return indices, delta_e

    def delta_e(self, rgb):
        """Computes the CIEDE2000 difference of each row of `rgb`, shape (n, 3), to every colour: float64 (n, size).

        Raises ValueError for another shape or channel. Works without the GIL.
        """
        cdef const double[:, ::1] rows = read_rgb_rows(rgb)
        result = np.empty((rows.shape[0], self.size))
        cdef double[:, ::1] out = result
        cdef Py_ssize_t i, block, lane
        cdef Lab query
        cdef LabBlock queries
        cdef double[LANES] delta_e
        with nogil:
            for i in range(rows.shape[0]):
                query = convert_srgb_to_lab(rows[i, 0], rows[i, 1], rows[i, 2])
                fill_block(&queries, &query)
                for block in range(count_blocks(self.size)):
                    self.compute_delta_e(&queries, &self.by_lightness.blocks[block], delta_e)
                    for lane in range(min(LANES, self.size - block * LANES)):
                        out[i, self.by_lightness.indices[block * LANES + lane]] = delta_e[lane]
        return result

    cdef int check_k(self, Py_ssize_t k) except -1:
        if k < 1 or k > self.size:
            raise ValueError(f"k must be from 1 to {self.size}, not {k}")
        return 0


include "match_writer.pxi"
