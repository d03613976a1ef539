# cython: boundscheck=False, wraparound=False, cdivision=True, auto_pickle=False
"""Matching: sRGB to CIE L*a*b*, colour differences, and the nearest colours of a palette.

Source of CIEDE2000: Sharma, Wu and Dalal, "The CIEDE2000 color-difference formula: implementation notes,
supplementary test data, and mathematical observations", Color Research and Application 30 (2005), 21-30.
srgb_to_lab.pxi names the sources of the conversion.
"""

cimport cython
from libc.math cimport INFINITY, fabs, fma, pow, sqrt
from libc.stdint cimport uint64_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memcmp, memcpy

import os
import struct
import sys
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from functools import partial
from hashlib import sha256
from math import nan

import numpy as np

from sepu.labels import LAB as LAB_LABELS, RGB as RGB_LABELS, find_positions, in_order

# PERF: looking these up in NumPy each time would make threads without a GIL contend for the module's reference count.
cdef object ndarray = np.ndarray, empty = np.empty, ascontiguousarray = np.ascontiguousarray
cdef object uint8 = np.uint8, uint32 = np.uint32

include "srgb_to_lab.pxi"
include "srgb_to_oklab.pxi"
include "hex_arrays.pxi"
include "rgb_arrays.pxi"
include "lab_queries.pxi"
include "nearest.pxi"
include "index_format.pxi"
include "match_writer.pxi"


cdef extern from "stdlib.h":
    int posix_memalign(void** memory, size_t alignment, size_t size) noexcept nogil


def instruction_sets():
    """Returns the names of the instruction sets with which this processor can compute differences, fastest first.

    Their results are bit-identical. `ciede2000` and `Palette` use the first, unless a test passes `instruction_set`.
    """
    return tuple([INSTRUCTION_SETS[i].name.decode("ascii") for i in range(instruction_set_count)])


cdef const DeltaE* find_differences(instruction_set) except NULL:
    if instruction_set is None:
        return INSTRUCTION_SETS[0].differences
    names = instruction_sets()
    if instruction_set not in names:
        raise ValueError(f"instruction_set must be one of {', '.join(names)}, not {instruction_set}")
    return INSTRUCTION_SETS[<int> names.index(instruction_set)].differences


cdef int find_difference(name) except -1:
    if name not in DIFFERENCE_NAMES:
        raise ValueError(f"difference must be one of {', '.join(DIFFERENCE_NAMES)}, not {name}")
    return DIFFERENCE_NAMES.index(name)


# The nearest colours of a palette; docs/develop/matching.md proves that the search finds what a full scan finds.

# The greatest rounding error in a difference or its lower bound: relative, and absolute where squares underflow.
cdef double RELATIVE_ERROR = 1e-12, LEAST_ERROR = 1e-150


cdef struct SortedColours:
    Py_ssize_t size
    bint weighted  # the difference weights lightness, as CIEDE2000 does
    LabBlock* blocks  # in order of lightness; copies of the lightest colour fill the last block
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


cdef inline double compute_lightness_term(const SortedColours* colours, double one, double two) noexcept nogil:
    """Returns the least difference between colours of these lightnesses: |dL'| / SL for CIEDE2000, otherwise |dL|."""
    return lightness_term(one, two) if colours.weighted else fabs(two - one)


cdef inline double bound_lighter_block(const SortedColours* colours, Py_ssize_t block, double lightness) noexcept nogil:
    """Returns a lower bound on the difference to `block` and lighter ones; INFINITY if there are none."""
    if block == count_blocks(colours.size):
        return INFINITY
    cdef double darkest = colours.blocks[block].lightness[0]
    return compute_lightness_term(colours, lightness, darkest) if darkest > lightness else 0.0


cdef inline double bound_darker_block(const SortedColours* colours, Py_ssize_t block, double lightness) noexcept nogil:
    """Returns a lower bound on the difference to `block` and darker ones; INFINITY if there are none."""
    if block < 0:
        return INFINITY
    return compute_lightness_term(colours, lightness, colours.blocks[block].lightness[LANES - 1])


cdef void find_nearest(
    const SortedColours* colours, DeltaEFunction compute_delta_e, const Lab* query, Py_ssize_t k, Match* best
) noexcept nogil:
    """Fills `best` with the k nearest colours, nearest first, ties in palette order; 1 <= k <= size."""
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
            count == k and bound > best[k - 1].delta_e * (1.0 + RELATIVE_ERROR) + LEAST_ERROR
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


# Finding the nearest colours with an index

cdef struct Index:
    Py_ssize_t k  # 0 without an index
    bint wide  # `lists` holds uint32 numbers
    double unit
    const unsigned int* cells
    const void* lists


ctypedef fused Number:
    unsigned short
    unsigned int


cdef inline Py_ssize_t find_list(const Index* index, double r, double g, double b) noexcept nogil:
    """Returns the position in `lists` of the list for the colour's cell."""
    cdef unsigned int red = <unsigned int> r, green = <unsigned int> g, blue = <unsigned int> b
    cdef unsigned int cell = index.cells[((red >> 4) * ROOT_SIDE + (green >> 4)) * ROOT_SIDE + (blue >> 4)]
    cdef int shift = 3
    while cell & DIVIDED:
        cell = index.cells[
            (cell ^ DIVIDED) + ((red >> shift & 1) << 2 | (green >> shift & 1) << 1 | (blue >> shift & 1))
        ]
        shift -= 1
    return cell


cdef void find_nearest_in_list(
    const Lab* labs, DeltaEFunction compute_delta_e, const Lab* query, const Number* list, double unit, Py_ssize_t k,
    Match* best
) noexcept nogil:
    """Fills `best` with the k nearest of the colours in `list`, nearest first, ties in palette order."""
    cdef Py_ssize_t count = 0, remaining = list[0], lanes, lane
    cdef double[LANES] delta_e
    cdef LabBlock queries, candidates
    fill_block(&queries, query)
    if remaining < LANES:
        fill_block(&candidates, query)
    list += 1
    while True:
        lanes = min(LANES, remaining)
        for lane in range(lanes):
            set_lane(&candidates, lane, &labs[list[lane]])
        compute_delta_e(&queries, &candidates, delta_e)
        for lane in range(lanes):
            count = insert_match(best, count, k, delta_e[lane], list[lane])
        remaining -= lanes
        if remaining == 0 or (count == k and list[lanes] * unit > best[k - 1].delta_e):
            return
        list += lanes + 1


cdef struct Claims:  # an index's contents, not yet checked
    const unsigned int* cells
    Py_ssize_t cell_count, list_count, size, k
    Py_ssize_t visited  # list entries checked so far


cdef bint is_sound(Claims* claims, const Number* lists, Py_ssize_t slot, int divisions) noexcept nogil:
    """Returns whether each list of a cell ends within the index and holds enough colours of the palette."""
    cdef Py_ssize_t position = claims.cells[slot], length, i
    if position & DIVIDED:
        position ^= DIVIDED
        if divisions == MAX_DIVISIONS or position > claims.cell_count - 8:
            return False
        for i in range(8):
            if not is_sound(claims, lists, position + i, divisions + 1):
                return False
        return True
    if position >= claims.list_count:
        return False
    length = lists[position]
    claims.visited += 1 + length + (length - 1) // LANES
    if length < min(claims.k, claims.size) or claims.visited > claims.list_count:
        return False
    if position + 1 + length + (length - 1) // LANES > claims.list_count:
        return False
    for i in range(length):
        if lists[position + 1 + i + i // LANES] >= claims.size:
            return False
    return True


cdef bint are_sound(Claims* claims, const Number* lists) noexcept nogil:
    cdef Py_ssize_t slot
    for slot in range(ROOT_CELLS):
        if not is_sound(claims, lists, slot, 0):
            return False
    return claims.visited == claims.list_count


def read_index(bytes index, bytes digest not None, Py_ssize_t size, str difference not None):
    """Returns k, the cells and the lists of an index.

    Raises ValueError unless the bytes are an intact index of the palette with this hash, size and difference.
    """
    content = memoryview(index)
    header, checksum, numbers = (
        content[:INDEX_HEADER.size], content[INDEX_HEADER.size:INDEX_HEADER.size + 32], content[INDEX_HEADER.size + 32:]
    )
    if len(checksum) < 32:
        raise ValueError("index is truncated")
    magic, version, k, name, colours, cell_count, list_count, of_palette = INDEX_HEADER.unpack(header)
    if magic != INDEX_MAGIC or version != INDEX_VERSION:
        raise ValueError(f"index is not of version {INDEX_VERSION}")
    if name.rstrip(b"\0") != difference.encode():
        raise ValueError("index was built for another difference")
    if colours != size or of_palette != digest:
        raise ValueError("index belongs to another palette")
    number_type = np.dtype(list_type(size))
    if len(numbers) != 4 * cell_count + number_type.itemsize * list_count:
        raise ValueError("index is truncated, or has extra bytes")
    if hash_parts(header, numbers) != checksum:
        raise ValueError("index is not intact: its SHA-256 differs")
    cells = np.frombuffer(numbers, np.uint32, cell_count)
    lists = np.frombuffer(numbers, number_type, offset=4 * cell_count)
    cdef Claims claims
    cdef const unsigned int[::1] cell_view = cells
    cdef const unsigned short[::1] narrow
    cdef const unsigned int[::1] wide
    cdef bint sound = cell_count >= ROOT_CELLS and list_count > 0 and k >= 1
    if sound:
        claims = Claims(&cell_view[0], cell_count, list_count, size, k, 0)
        if number_type.itemsize == 2:
            narrow = lists
            with nogil:
                sound = are_sound(&claims, &narrow[0])
        else:
            wide = lists
            with nogil:
                sound = are_sound(&claims, &wide[0])
    if not sound:
        raise ValueError("index is malformed")
    return k, cells, lists


cdef inline int check_channels(double r, double g, double b) except -1:
    if not (0.0 <= r <= 255.0 and 0.0 <= g <= 255.0 and 0.0 <= b <= 255.0):  # false for NaN too
        raise ValueError("a channel is not a number from 0 to 255")
    return 0


def srgb_to_lab(rgb, *, scale=None):
    """Converts sRGB colours to CIE L*a*b* (D65, 2-degree observer).

    `rgb`, `scale`: as for `Palette.nearest_batch`, without alpha. Returns float64 (..., 3): L* (0 to 100), a* and b*.
    Raises ValueError for any other shape, for a channel that is NaN, infinite or out of range, and for strings that are
    not HEX; TypeError for other values that are not real numbers. Source: IEC 61966-2-1 and CIE 15, with the white
    point of sRGB.
    """
    array = read_rgb(rgb, scale)
    cdef const double[:, ::1] rows = as_rows(array)
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
    return result.reshape(array.shape)


def ciede2000(lab1, lab2, *, instruction_set=None):
    """Computes the CIEDE2000 difference between each row of `lab1` and the same row of `lab2`, with kL = kC = kH = 1.

    `lab1`, `lab2`: L*a*b*, shape (n, 3). Returns float64 (n,). Raises ValueError for any other shape, for different
    lengths and for values outside -1e12 to 1e12. Source: Sharma, Wu and Dalal 2005. `instruction_set`
    is for tests.
    """
    cdef DeltaEFunction compute_delta_e = find_differences(instruction_set)[<int> CIEDE2000].compute
    cdef const double[:, ::1] ones = read_rows(lab1, "lab1", [GREATEST_LAB] * 3, "is not three numbers from -1e12 to 1e12")
    cdef const double[:, ::1] twos = read_rows(lab2, "lab2", [GREATEST_LAB] * 3, "is not three numbers from -1e12 to 1e12")
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


ctypedef fused Channel:
    unsigned char
    double


cdef enum:
    REMEMBERED = 8192  # slots for colours that a chunk has already matched
    CHUNK = 65536  # rows that a thread takes at a time
    FEW = 16  # matches kept on the stack


cdef void find_rows(
    Palette palette, const Channel* rgb, Py_ssize_t count, Py_ssize_t k, Py_ssize_t* indices, double* delta_e,
    Match* best, Py_ssize_t* rows_seen
) noexcept nogil:
    """Finds the colours nearest to each row.

    PERF: 8-bit images repeat colours. `rows_seen`, unless NULL, maps a colour's hash to a row's number plus 1. If
    that row has the same colour, its answer is copied.
    """
    cdef Py_ssize_t row, j, same
    cdef unsigned int position
    cdef const Channel* one
    for row in range(count):
        one = rgb + 3 * row
        if Channel is uchar:
            if rows_seen != NULL:
                position = ((<unsigned int> one[0] << 16 | <unsigned int> one[1] << 8 | one[2]) * 2654435761U) >> 19
                same = rows_seen[position] - 1
                if same >= 0 and memcmp(one, rgb + 3 * same, 3) == 0:
                    memcpy(indices + row * k, indices + same * k, k * sizeof(Py_ssize_t))
                    memcpy(delta_e + row * k, delta_e + same * k, k * sizeof(double))
                    continue
                rows_seen[position] = row + 1
        palette.find(one[0], one[1], one[2], k, best)
        for j in range(k):
            indices[row * k + j] = best[j].index
            delta_e[row * k + j] = best[j].delta_e


cdef void find_lab_rows(
    Palette palette, const double* labs, Py_ssize_t count, Py_ssize_t k, Py_ssize_t* indices, double* delta_e, Match* best
) noexcept nogil:
    """Finds the colours nearest to each row of L*a*b*."""
    cdef Py_ssize_t row, j
    cdef Lab query
    for row in range(count):
        query = make_lab(labs[3 * row], labs[3 * row + 1], labs[3 * row + 2])
        palette.find_lab(&query, k, best)
        for j in range(k):
            indices[row * k + j] = best[j].index
            delta_e[row * k + j] = best[j].delta_e


def find_chunk(
    Palette palette not None, rows, bint in_lab, Py_ssize_t[:, ::1] indices, double[:, ::1] delta_e
):
    """Fills `indices` and `delta_e` with the colours nearest to each row.

    `rows`: sRGB, or L*a*b* if `in_lab`; uint8 or float64, shape (n, 3), n at least 1.
    """
    cdef const unsigned char[:, ::1] whole
    cdef const double[:, ::1] real
    cdef Py_ssize_t count = indices.shape[0], k = indices.shape[1]
    cdef Match* best = <Match*> malloc(k * sizeof(Match))
    cdef Py_ssize_t* rows_seen = NULL
    try:
        if best == NULL:
            raise MemoryError
        if rows.dtype == np.uint8:
            whole = rows
            if count >= REMEMBERED:
                rows_seen = <Py_ssize_t*> calloc(REMEMBERED, sizeof(Py_ssize_t))
            with nogil:
                find_rows(palette, &whole[0, 0], count, k, &indices[0, 0], &delta_e[0, 0], best, rows_seen)
        else:
            real = rows
            with nogil:
                if in_lab:
                    find_lab_rows(palette, &real[0, 0], count, k, &indices[0, 0], &delta_e[0, 0], best)
                else:
                    find_rows(palette, &real[0, 0], count, k, &indices[0, 0], &delta_e[0, 0], best, NULL)
    finally:
        free(best)
        free(rows_seen)


cdef count_threads(threads):
    if threads is None:
        return os.cpu_count() or 1
    if not isinstance(threads, int) or threads < 1:
        raise ValueError(f"threads must be an int of at least 1, or None, not {threads!r}")
    return threads


@cython.final
cdef class Palette:
    """Palette(rgb=None, index=None, *, lab=None, difference='ciede2000', scale=None, instruction_set=None)\n--\n
    Finds which of a fixed set of colours are nearest to any sRGB or L*a*b* colour, exactly as a full scan would.

    `rgb`: one or more sRGB colours, as for `nearest_batch`, without alpha; or `lab`: their L*a*b* values (D65), L* from
    0 to 100, a* and b* from -256 to 256. Raises ValueError or TypeError otherwise.

    `difference`: "ciede2000"; "cie76"; "cie94", for graphic arts, with the palette's colour as the standard; "hyab", in
    L*a*b*; or "oklab", the Euclidean distance in OKLab, for `rgb` only.

    `index`: True builds an index, which makes answers for k up to 10 faster without changing them. To load an index
    instead, pass the bytes that `build_index` returned for the same colours and difference. Raises ValueError for any
    other bytes. The `index` attribute holds the bytes, or None.

    A palette never changes, so threads may share one. `size` is its number of colours. `instruction_set`
    is for tests; copies and pickles use the default.
    """

    cdef SortedColours by_lightness
    cdef readonly Py_ssize_t size
    cdef readonly str difference
    cdef readonly bytes index
    cdef Index cell_lists
    cdef DeltaEFunction compute_delta_e
    cdef const Lab* labs  # in palette order
    cdef bint in_oklab
    cdef bytes digest
    cdef object source  # rebuilds this palette when called with its index
    cdef object lab_rows, cells, lists  # own the memory behind the pointers

    def __cinit__(
        self, rgb=None, index=None, *, lab=None, difference="ciede2000", scale=None, instruction_set=None
    ):
        cdef int number = find_difference(difference)
        cdef const double[:, ::1] rows
        cdef Py_ssize_t position, at, lanes
        cdef Lab converted
        self.compute_delta_e = find_differences(instruction_set)[number].compute
        self.difference = DIFFERENCE_NAMES[number]
        self.in_oklab = number == OKLAB
        if (rgb is None) == (lab is None):
            raise ValueError("a palette needs either rgb or lab")
        if lab is None:
            array = read_rgb(rgb, scale)
            if array.ndim != 2:
                raise ValueError(f"rgb must have the shape (n, 3), not {array.shape}")
            rows = as_rows(array)
        else:
            if self.in_oklab:
                raise ValueError('difference="oklab" needs rgb, not lab')
            rows = read_rows(lab, "lab", [100.0, 256.0, 256.0], "is not L* from 0 to 100, a* and b* from -256 to 256")
            if rows.shape[0] and np.asarray(rows)[:, 0].min() < 0.0:
                raise ValueError("lab has an L* below 0")
        self.size = self.by_lightness.size = rows.shape[0]
        if self.size == 0:
            raise ValueError("a palette needs at least one colour")
        self.lab_rows = np.empty((self.size, sizeof(Lab) // sizeof(double)))
        cdef double[:, ::1] labs = self.lab_rows
        self.labs = <const Lab*> &labs[0, 0]
        for at in range(self.size):
            if lab is not None:
                converted = make_lab(rows[at, 0], rows[at, 1], rows[at, 2])
            else:
                converted = self.convert(rows[at, 0], rows[at, 1], rows[at, 2])
            (<Lab*> &labs[at, 0])[0] = converted
        self.by_lightness.weighted = number == CIEDE2000
        lanes = count_blocks(self.size) * LANES
        if posix_memalign(<void**> &self.by_lightness.blocks, 64, lanes // LANES * sizeof(LabBlock)) != 0:
            self.by_lightness.blocks = NULL
            raise MemoryError
        self.by_lightness.indices = <Py_ssize_t*> malloc(lanes * sizeof(Py_ssize_t))
        if self.by_lightness.indices == NULL:
            raise MemoryError
        cdef const Py_ssize_t[::1] order = np.argsort(self.lab_rows[:, 0], kind="stable").astype(np.intp)
        for position in range(lanes):
            at = order[min(position, self.size - 1)]
            set_lane(&self.by_lightness.blocks[position // LANES], position % LANES, &self.labs[at])
            self.by_lightness.indices[position] = at
        given = np.asarray(rows).astype("<f8")
        self.source = (
            partial(Palette, given, difference=self.difference, scale=255) if lab is None
            else partial(Palette, None, lab=given, difference=self.difference)
        )
        self.digest = hash_parts(b"rgb" if lab is None else b"lab", given.tobytes())
        if index is True:
            index = self.build_index()
        if index is not None and index is not False:
            self.use_index(index)

    def __dealloc__(self):
        free(self.by_lightness.blocks)
        free(self.by_lightness.indices)

    def __len__(self):
        return self.size

    def __repr__(self):
        index = f", with an index for the nearest {self.cell_lists.k}" if self.cell_lists.k else ""
        return f"<Palette of {self.size} colours by {self.difference}{index}>"

    def __reduce__(self):
        return self.source, (self.index,)

    cdef int use_index(self, index) except -1:
        cdef const unsigned int[::1] cells, wide
        cdef const unsigned short[::1] narrow
        if not isinstance(index, bytes):  # a copy: a buffer that changes later could make `find` read outside it
            try:
                index = bytes(memoryview(index))
            except TypeError:
                raise TypeError(
                    f"index must be True or the bytes of an index, not {index!r}; for a file: pathlib.Path(…).read_bytes()"
                ) from None
        k, self.cells, self.lists = read_index(index, self.digest, self.size, self.difference)
        cells = self.cells
        self.cell_lists.cells = &cells[0]
        self.cell_lists.wide = self.lists.itemsize == 4
        if self.cell_lists.wide:
            wide = self.lists
            self.cell_lists.lists = &wide[0]
        else:
            narrow = self.lists
            self.cell_lists.lists = &narrow[0]
        self.cell_lists.unit = list_unit(find_difference(self.difference))
        self.cell_lists.k = k
        self.index = index
        return 0

    def build_index(self, *, int k=10, threads=None, progress=None):
        """Builds an index of the palette for up to `k` nearest colours, k from 1 to 10, and returns it as bytes.

        The same palette and `k` always give the same bytes. Pass them to `Palette` as `index` to avoid a rebuild.
        Releases the GIL. `threads`: how many to use; None means one for each processor. `progress` is called with the
        fraction done, above 0 and up to 1.
        """
        from sepu import _index_builder

        if not 1 <= k <= 10:
            raise ValueError(f"k must be from 1 to 10, not {k}")
        return _index_builder.build_index(
            self.lab_rows, find_difference(self.difference), k, self.digest, count_threads(threads), progress
        )

    cdef inline Lab convert(self, double r, double g, double b) noexcept nogil:
        return convert_srgb_to_oklab(r, g, b) if self.in_oklab else convert_srgb_to_lab(r, g, b)

    cdef void find(self, double r, double g, double b, Py_ssize_t k, Match* best) noexcept nogil:
        cdef Lab query = self.convert(r, g, b)
        if k > self.cell_lists.k:
            find_nearest(&self.by_lightness, self.compute_delta_e, &query, k, best)
        else:
            self.find_in_cell(&query, r, g, b, k, best)

    cdef void find_lab(self, const Lab* query, Py_ssize_t k, Match* best) noexcept nogil:
        cdef double[3] rgb
        if k > self.cell_lists.k or not find_in_srgb(query, rgb):
            find_nearest(&self.by_lightness, self.compute_delta_e, query, k, best)
        else:
            self.find_in_cell(query, rgb[0], rgb[1], rgb[2], k, best)

    cdef inline void find_in_cell(
        self, const Lab* query, double r, double g, double b, Py_ssize_t k, Match* best
    ) noexcept nogil:
        cdef const Index* index = &self.cell_lists
        cdef Py_ssize_t position = find_list(index, r, g, b)
        if index.wide:
            find_nearest_in_list(
                self.labs, self.compute_delta_e, query, <const unsigned int*> index.lists + position, index.unit,
                k, best
            )
        else:
            find_nearest_in_list(
                self.labs, self.compute_delta_e, query, <const unsigned short*> index.lists + position, index.unit,
                k, best
            )

    cdef read_queries(self, rgb, lab, white, scale, background):
        """Reads the colours of an array."""
        if (rgb is None) == (lab is None):
            raise ValueError("a query needs either rgb or lab")
        if lab is None:
            return read_rgb(rgb, scale, background, 4)
        if self.in_oklab:
            raise ValueError('difference="oklab" needs rgb, not lab')
        if scale is not None or background is not None:
            raise ValueError("scale and background belong to rgb, not to lab")
        return read_lab(lab, white)

    def nearest(self, r=None, g=None, b=None, Py_ssize_t k=1, *, lab=None, white="D65"):
        """Returns the `k` colours nearest to one colour, as a list of (index, delta_e), nearest first.

        The colour is three sRGB channels from 0 to 255, or `lab` and its `white` as for `nearest_batch`. Ties are in
        palette order. Raises ValueError for a channel outside 0 to 255 or k outside 1 to size.
        """
        if lab is not None:
            if r is not None or g is not None or b is not None:
                raise TypeError("nearest takes r, g and b, or lab, not both")
            indices, delta_e = self.nearest_batch(None, k, lab=lab, white=white)
            if indices.ndim != 1:
                raise ValueError("lab must have the shape (3,); nearest_batch takes more colours")
            return list(zip(indices.tolist(), delta_e.tolist()))
        if b is None:
            raise TypeError("nearest takes r, g and b, or lab=(L, a, b); for a tuple: palette.nearest(*color)")
        cdef double red = r, green = g, blue = b
        self.check_k(k)
        check_channels(red, green, blue)
        cdef Match[FEW] few  # PERF: malloc takes as long as a dozen comparisons
        cdef Match* best = &few[0]
        if k > FEW:
            best = <Match*> malloc(k * sizeof(Match))
        if best == NULL:
            raise MemoryError
        cdef Py_ssize_t i
        try:
            self.find(red, green, blue, k, best)
            return [(best[i].index, best[i].delta_e) for i in range(k)]
        finally:
            if k > FEW:
                free(best)

    def nearest_batch(
        self, rgb=None, Py_ssize_t k=1, *, lab=None, white="D65", scale=None, background=None, threads=1
    ):
        """Finds the `k` colours nearest to each colour of an array, ordered as in `nearest`.

        `rgb`: real numbers, shape (..., 3), such as an image's (height, width, 3), fastest as uint8; or HEX strings of
        any shape. `scale`: the greatest value of a channel, 1 or 255; required except for HEX, uint8 and int64, whose
        channels are from 0 to 255. A fourth channel, alpha, requires `background` (three numbers from 0 to 255), which shows
        through. `threads`: how many to use; None means one for each processor.

        `lab`, instead of `rgb`: L*a*b* for the 2-degree observer, shape (..., 3); colours outside sRGB are allowed.
        `white`: its white point, "D65", or "D50", which is adapted with the Bradford transform (ICC.1, CSS Color 4).

        Returns positions in the palette, intp (..., k), and differences, float64 (..., k). Raises ValueError for any
        other shape, for other types without `scale`, for a channel outside the scale, for L*a*b* outside -1e12 to 1e12,
        for k outside 1 to size, and for texts that are not HEX; TypeError for other values that are not real numbers.
        Releases the GIL.
        """
        self.check_k(k)
        threads = count_threads(threads)
        array = self.read_queries(rgb, lab, white, scale, background)
        in_lab = lab is not None
        leading = array.shape[:array.ndim - 1]
        indices = np.empty((*leading, k), dtype=np.intp)
        delta_e = np.empty((*leading, k))
        rows, out = array.reshape(-1, 3), (indices.reshape(-1, k), delta_e.reshape(-1, k))
        chunks = [slice(first, first + CHUNK) for first in range(0, len(rows), CHUNK)]
        if threads == 1 or len(chunks) < 2:
            if len(rows):
                find_chunk(self, rows, in_lab, *out)
        else:
            with ThreadPoolExecutor(threads) as pool:
                for _ in pool.map(
                    lambda chunk: find_chunk(self, rows[chunk], in_lab, *[into[chunk] for into in out]), chunks
                ):
                    pass
        return indices, delta_e

    def delta_e(self, rgb=None, *, lab=None, white="D65", scale=None, background=None):
        """Returns the difference between each colour of an array and every colour of the palette: float64 (..., size).

        Arguments and errors are as for `nearest_batch`. Releases the GIL.
        """
        array = self.read_queries(rgb, lab, white, scale, background)
        cdef bint in_lab = lab is not None
        cdef const double[:, ::1] rows = as_rows(array)
        result = np.empty((rows.shape[0], self.size))
        cdef double[:, ::1] out = result
        cdef Py_ssize_t i, block, lane
        cdef Lab query
        cdef LabBlock queries
        cdef double[LANES] delta_e
        with nogil:
            for i in range(rows.shape[0]):
                if in_lab:
                    query = make_lab(rows[i, 0], rows[i, 1], rows[i, 2])
                else:
                    query = self.convert(rows[i, 0], rows[i, 1], rows[i, 2])
                fill_block(&queries, &query)
                for block in range(count_blocks(self.size)):
                    self.compute_delta_e(&queries, &self.by_lightness.blocks[block], delta_e)
                    for lane in range(min(LANES, self.size - block * LANES)):
                        out[i, self.by_lightness.indices[block * LANES + lane]] = delta_e[lane]
        return result.reshape(*array.shape[:array.ndim - 1], self.size)

    cdef int check_k(self, Py_ssize_t k) except -1:
        if k < 1 or k > self.size:
            raise ValueError(f"k must be from 1 to {self.size}, not {k}")
        return 0
