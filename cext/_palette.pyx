# cython: boundscheck=False, wraparound=False, cdivision=True
"""Colour numbers: sRGB to CIE L*a*b*, the CIEDE2000 difference, and the nearest colours of a palette.

Sources:
- IEC 61966-2-1:1999, the sRGB transfer function and primaries;
- CIE 15:2004, L*a*b* with the constants as exact rationals;
- Sharma, Wu and Dalal, "The CIEDE2000 color-difference formula: implementation notes, supplementary test
  data, and mathematical observations", Color Research and Application 30 (2005), 21-30. Equation numbers
  below are this paper's. The formula itself is in ciede2000_block.h.

The white point is D65 for the 2 degree observer throughout.
"""

cimport cython
from libc.math cimport INFINITY, M_PI, atan2, cos, exp, fabs, fma, isfinite, pow, sin, sqrt
from libc.stdint cimport uint64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy

import struct
from hashlib import sha256

import numpy as np


cdef extern from "ciede2000.h":
    enum:
        LANES
        MOST_PATHS
    ctypedef struct LabBlock:
        double lightness[LANES]
        double a[LANES]
        double b[LANES]
        double chroma[LANES]
    ctypedef void (*Differences)(const LabBlock* one, const LabBlock* two, double* out) noexcept nogil
    ctypedef struct Path:
        const char* name
        Differences differences
    int paths_here(Path* paths) noexcept nogil


cdef extern from "stdlib.h":
    int posix_memalign(void** memory, size_t alignment, size_t size) noexcept nogil


cdef struct Lab:
    double lightness
    double a
    double b
    double chroma  # C*ab, which depends on one colour only (eq. 2)


cdef struct Match:
    double distance
    Py_ssize_t index


# sRGB to L*a*b*

# Row i holds the exact shares of red, green and blue in X/Xn, Y/Yn and Z/Zn, derived from the primaries
# (0.64, 0.33), (0.30, 0.60), (0.15, 0.06) and the white (0.3127, 0.3290) of IEC 61966-2-1. Rounded to four
# decimals they are the standard's own matrix; the white is X, Z = 0.950456, 1.089058, not the rounder
# 0.95047, 1.08883 of other tables. The share of green is what the other two leave of 1.
cdef double X_RED = 1013504.0 / 2335869.0
cdef double X_BLUE = 443555.0 / 2335869.0
cdef double Y_RED = 87098.0 / 409605.0
cdef double Y_BLUE = 12673.0 / 175545.0
cdef double Z_RED = 15836.0 / 892167.0
cdef double Z_BLUE = 7008169.0 / 8029503.0

cdef double EPSILON = 216.0 / 24389.0
cdef double KAPPA = 24389.0 / 27.0


cdef double transfer(double channel) noexcept nogil:
    """The IEC 61966-2-1 transfer function, from 0..255 to 0..1."""
    cdef double value = channel / 255.0
    return value / 12.92 if value <= 0.04045 else pow((value + 0.055) / 1.055, 2.4)


cdef double[256] TRANSFERRED
for _channel in range(256):
    TRANSFERRED[_channel] = transfer(_channel)


cdef inline double linear(double channel) noexcept nogil:
    """`transfer`, looked up where the channel has 8 bits, as most have: the same bits sooner."""
    cdef int whole = <int> channel
    return TRANSFERRED[whole] if whole == channel else transfer(channel)


cdef inline double cube_root(double t) noexcept nogil:
    """Of a t above EPSILON, to 0.74 units in the last place.

    The C library's has other last bits on another processor (glibc's on 64-bit ARM, one root in five).
    """
    cdef uint64_t bits
    cdef double root, cubed
    memcpy(&bits, &t, sizeof(bits))
    bits = bits // 3 + 0x2A9F84FE36D22425ULL  # a third of the exponent, and of its bias: off by 3.5 %
    memcpy(&root, &bits, sizeof(root))
    cdef int step
    for step in range(2):  # Halley's method leaves 3e-5, then 2e-14
        cubed = root * root * root
        root *= (cubed + 2.0 * t) / (2.0 * cubed + t)
    return root - (root - t / (root * root)) / 3.0  # Newton's, which rounds less


cdef inline double lab_f(double t) noexcept nogil:
    return cube_root(t) if t > EPSILON else (KAPPA * t + 16.0) / 116.0


cdef inline Lab make_lab(double lightness, double a, double b) noexcept nogil:
    cdef Lab lab
    lab.lightness = lightness
    lab.a = a
    lab.b = b
    lab.chroma = sqrt(a * a + b * b)  # (2)
    return lab


cdef struct Stimulus:  # lab_f of X/Xn, Y/Yn and Z/Zn
    double x
    double y
    double z


cdef inline Stimulus stimulus(double r, double g, double b) noexcept nogil:
    """Of linear light."""
    # NOTE: measured from green, so that a grey comes out exactly neutral: a residue of 1e-15 in a* and b*
    # would have a hue, and a hue counts.
    cdef Stimulus f
    f.x = lab_f(g + X_RED * (r - g) + X_BLUE * (b - g))
    f.y = lab_f(g + Y_RED * (r - g) + Y_BLUE * (b - g))
    f.z = lab_f(g + Z_RED * (r - g) + Z_BLUE * (b - g))
    return f


cdef Lab lab_of_srgb(double red, double green, double blue) noexcept nogil:
    cdef Stimulus f = stimulus(linear(red), linear(green), linear(blue))
    return make_lab(116.0 * f.y - 16.0, 500.0 * (f.x - f.y), 200.0 * (f.y - f.z))


# CIEDE2000

cdef Path[MOST_PATHS] PATHS
cdef int path_count = paths_here(PATHS)


def paths():
    """The names of the instruction sets that the formula can use here, the fastest first; it uses that one.

    They give the same bits. The `path` of `ciede2000` and of `Palette` names another one, for tests.
    """
    return tuple([PATHS[i].name.decode("ascii") for i in range(path_count)])


cdef Differences differences_on(path) except NULL:
    if path is None:
        return PATHS[0].differences
    names = paths()
    if path not in names:
        raise ValueError(f"path must be one of {', '.join(names)}, not {path}")
    return PATHS[<int> names.index(path)].differences


cdef inline void put(LabBlock* block, Py_ssize_t lane, const Lab* lab) noexcept nogil:
    block.lightness[lane] = lab.lightness
    block.a[lane] = lab.a
    block.b[lane] = lab.b
    block.chroma[lane] = lab.chroma


cdef inline void fill(LabBlock* block, const Lab* lab) noexcept nogil:
    cdef Py_ssize_t lane
    for lane in range(LANES):
        put(block, lane, lab)


cdef inline double lightness_term(double lightness1, double lightness2) noexcept nogil:
    """|dL'| / SL, the first term of the difference."""
    cdef double centred = (lightness1 + lightness2) / 2.0 - 50.0  # (12)
    cdef double squared = centred * centred
    return fabs(lightness2 - lightness1) / (1.0 + 0.015 * squared / sqrt(20.0 + squared))  # (8) (18)


# The nearest of a palette
#
# Swatches lie in order of lightness, in blocks. From the query's own lightness the search walks outwards, always
# to the side whose next block begins with the smaller lightness term, and stops when that term exceeds the k-th
# best difference. The answer still equals a full scan:
#
# 1. The term is a lower bound of the difference. With x = dC'/SC and y = dH'/SH the rest of the square is
#    x^2 + y^2 + RT x y. RT = -sin(2 dtheta) RC, and RC = 2 sqrt(C^7 / (C^7 + 25^7)) < 2, so |RT| < 2 and the
#    form is never negative: its discriminant RT^2 - 4 is.
# 2. The term grows with the distance d in lightness, on either side, so no swatch further out has a smaller
#    one. Let u = L - 50 + d/2 (below the query: - d/2) and S(u) = 1 + 0.015 u^2 / sqrt(20 + u^2). The
#    derivative of d / S has the sign of S - d/2 |S'| or more, where
#    |S'| = 0.015 |u| (40 + u^2) / (20 + u^2)^1.5 is greatest at u^2 = 40, with 0.015 sqrt(32/27) < 0.0164.
#    As d <= 100 and S >= 1 this is at least 1 - 0.82 > 0.
# 3. Rounding: the terms of an sRGB pair are below 300, their squares below 1e5, and a square comes out of less
#    than 40 roundings (those of SC and SH, which the sum is multiplied and divided by, cancel), so it errs by less
#    than 1e5 * 40 * 2^-53 < 5e-10. SLACK leaves twice that.

cdef double SLACK = 1e-9


cdef inline bint precedes(double distance, Py_ssize_t index, const Match* other) noexcept nogil:
    return distance < other.distance or (distance == other.distance and index < other.index)


cdef inline Py_ssize_t keep(
    Match* best, Py_ssize_t count, Py_ssize_t k, double distance, Py_ssize_t index
) noexcept nogil:
    """Puts a match in its place among the `count` best so far, at most `k`; returns the new count."""
    cdef Py_ssize_t place = count
    if count == k:
        if not precedes(distance, index, &best[k - 1]):
            return count
        place = k - 1
    else:
        count += 1
    while place > 0 and precedes(distance, index, &best[place - 1]):
        best[place] = best[place - 1]
        place -= 1
    best[place].distance = distance
    best[place].index = index
    return count


cdef struct Swatches:
    Py_ssize_t size
    LabBlock* blocks  # in order of lightness; the last is filled up with copies of the last swatch
    Py_ssize_t* indices  # of each lane, the place in the palette as it was given


cdef inline Py_ssize_t block_count(Py_ssize_t size) noexcept nogil:
    return (size + LANES - 1) // LANES


cdef inline Py_ssize_t first_not_darker(const Swatches* swatches, double lightness) noexcept nogil:
    """The first block that has a swatch as light as that, or the number of blocks."""
    cdef Py_ssize_t low = 0, high = block_count(swatches.size), middle
    while low < high:
        middle = (low + high) // 2
        if swatches.blocks[middle].lightness[LANES - 1] < lightness:
            low = middle + 1
        else:
            high = middle
    return low


cdef inline double bound_above(const Swatches* swatches, Py_ssize_t block, double lightness) noexcept nogil:
    if block == block_count(swatches.size):
        return INFINITY
    cdef double darkest = swatches.blocks[block].lightness[0]
    return lightness_term(lightness, darkest) if darkest > lightness else 0.0


cdef inline double bound_below(const Swatches* swatches, Py_ssize_t block, double lightness) noexcept nogil:
    if block < 0:
        return INFINITY
    return lightness_term(lightness, swatches.blocks[block].lightness[LANES - 1])


cdef void find_nearest(
    const Swatches* swatches, Differences differences, const Lab* query, Py_ssize_t k, Match* best
) noexcept nogil:
    """Fills `best` with the k nearest swatches, nearest first, equal ones in palette order; 1 <= k <= size."""
    cdef Py_ssize_t above = first_not_darker(swatches, query.lightness)
    cdef Py_ssize_t below = above - 1
    cdef double over = bound_above(swatches, above, query.lightness)
    cdef double under = bound_below(swatches, below, query.lightness)
    cdef Py_ssize_t count = 0, block, lane
    cdef double bound
    cdef double[LANES] found
    cdef LabBlock queries
    fill(&queries, query)
    while True:
        bound = over if over < under else under
        if bound == INFINITY or (count == k and bound * bound > best[k - 1].distance * best[k - 1].distance + SLACK):
            return
        if over < under:
            block = above
            above += 1
            over = bound_above(swatches, above, query.lightness)
        else:
            block = below
            below -= 1
            under = bound_below(swatches, below, query.lightness)
        differences(&queries, &swatches.blocks[block], found)
        for lane in range(min(LANES, swatches.size - block * LANES)):
            count = keep(best, count, k, found[lane], swatches.indices[block * LANES + lane])


cdef void find_among(
    const Lab* labs, Differences differences, const Lab* query, const unsigned short* candidates, Py_ssize_t size,
    Py_ssize_t k, Match* best
) noexcept nogil:
    """`find_nearest` of those candidates only; `labs` lie in palette order; 1 <= k <= size."""
    cdef Py_ssize_t count = 0, block, lane, lanes
    cdef double[LANES] found
    cdef LabBlock queries, block_of_candidates
    fill(&queries, query)
    fill(&block_of_candidates, query)
    for block in range(block_count(size)):
        lanes = min(LANES, size - block * LANES)
        for lane in range(lanes):
            put(&block_of_candidates, lane, &labs[candidates[lane]])
        differences(&queries, &block_of_candidates, found)
        for lane in range(lanes):
            count = keep(best, count, k, found[lane], candidates[lane])
        candidates += lanes


include "grid.pxi"


# Python's side

def _triples(values, str what):
    """A C-contiguous float64 array (n, 3), or ValueError; TypeError where the values are no real numbers."""
    array = np.asarray(values)
    if array.ndim != 2 or array.shape[1] != 3:
        raise ValueError(f"{what} must have the shape (n, 3), not {array.shape}")
    if array.dtype.kind not in "uif":
        raise TypeError(f"{what} must be real numbers, not {array.dtype}")
    return np.ascontiguousarray(array, dtype=np.float64)


cdef inline bint is_channel(double value) noexcept nogil:
    return 0.0 <= value <= 255.0  # false for NaN


cdef inline int check_channels(double r, double g, double b) except -1:
    if not (is_channel(r) and is_channel(g) and is_channel(b)):
        raise ValueError("a channel is not a number from 0 to 255")
    return 0


cdef const double[:, ::1] rgb_rows(values) except *:
    cdef const double[:, ::1] rows = _triples(values, "rgb")
    cdef Py_ssize_t i
    for i in range(rows.shape[0]):
        if not (is_channel(rows[i, 0]) and is_channel(rows[i, 1]) and is_channel(rows[i, 2])):
            raise ValueError(f"rgb row {i} has a channel that is not a number from 0 to 255")
    return rows


cdef const double[:, ::1] lab_rows(values, str what) except *:
    cdef const double[:, ::1] rows = _triples(values, what)
    cdef Py_ssize_t i
    for i in range(rows.shape[0]):
        if not (isfinite(rows[i, 0]) and isfinite(rows[i, 1]) and isfinite(rows[i, 2])):
            raise ValueError(f"{what} row {i} is not finite")
    return rows


def srgb_to_lab(rgb):
    """CIE L*a*b* (D65, 2 degree observer) of sRGB colours.

    `rgb`: shape (n, 3), real numbers from 0 to 255, any real dtype and strides. Returns float64 (n, 3): L*
    from 0 to 100, a* and b*. Raises ValueError for another shape and for a channel that is NaN, infinite or
    out of range. Source: IEC 61966-2-1 and CIE 15, with the sRGB primaries and white (0.3127, 0.3290).
    """
    cdef const double[:, ::1] rows = rgb_rows(rgb)
    result = np.empty((rows.shape[0], 3))
    cdef double[:, ::1] out = result
    cdef Py_ssize_t i
    cdef Lab lab
    with nogil:
        for i in range(rows.shape[0]):
            lab = lab_of_srgb(rows[i, 0], rows[i, 1], rows[i, 2])
            out[i, 0] = lab.lightness
            out[i, 1] = lab.a
            out[i, 2] = lab.b
    return result


def ciede2000(lab1, lab2, *, path=None):
    """The CIEDE2000 difference of each row of `lab1` to the same row of `lab2`, with kL = kC = kH = 1.

    Both: shape (n, 3), L*a*b*. Returns float64 (n,). Raises ValueError for another shape, for different
    lengths and for values that are not finite. Source: Sharma, Wu and Dalal 2005. `path`: see `paths`.
    """
    cdef Differences differences = differences_on(path)
    cdef const double[:, ::1] ones = lab_rows(lab1, "lab1")
    cdef const double[:, ::1] twos = lab_rows(lab2, "lab2")
    if ones.shape[0] != twos.shape[0]:
        raise ValueError(f"lab1 and lab2 differ in length: {ones.shape[0]} and {twos.shape[0]}")
    result = np.empty(ones.shape[0])
    cdef double[::1] out = result
    cdef Py_ssize_t i, block, lane
    cdef LabBlock one, two
    cdef Lab lab = make_lab(0.0, 0.0, 0.0)
    cdef double[LANES] found
    with nogil:
        fill(&one, &lab)
        fill(&two, &lab)
        for block in range(block_count(ones.shape[0])):
            for lane in range(min(LANES, ones.shape[0] - block * LANES)):
                i = block * LANES + lane
                lab = make_lab(ones[i, 0], ones[i, 1], ones[i, 2])
                put(&one, lane, &lab)
                lab = make_lab(twos[i, 0], twos[i, 1], twos[i, 2])
                put(&two, lane, &lab)
            differences(&one, &two, found)
            for lane in range(min(LANES, ones.shape[0] - block * LANES)):
                out[block * LANES + lane] = found[lane]
    return result


@cython.final
cdef class Palette:
    """A fixed set of sRGB colours, and the exact CIEDE2000 nearest of them to any sRGB colour.

    `rgb`: shape (n, 3), n at least 1, real numbers from 0 to 255; ValueError otherwise. A palette never
    changes and holds no scratch space: threads may share one. `size` is the number of its colours.

    `grid`: bytes that `candidate_grid` made of the same palette, or None; ValueError for anything else. The answers
    are the same, for k up to 3 they come sooner. `path`: see `paths`.
    """

    cdef Swatches swatches
    cdef Lab* labs  # in palette order
    cdef Differences differences
    cdef readonly Py_ssize_t size
    cdef readonly bint has_grid
    cdef const unsigned int[::1] cells
    cdef const unsigned short[::1] lists

    def __cinit__(self, rgb, grid=None, *, path=None):
        cdef const double[:, ::1] rows = rgb_rows(rgb)
        cdef Py_ssize_t place, source, lanes = block_count(rows.shape[0]) * LANES
        cdef Lab lab
        if rows.shape[0] == 0:
            raise ValueError("a palette needs at least one colour")
        self.differences = differences_on(path)
        cdef const double[:, ::1] labs = srgb_to_lab(rows)
        cdef const Py_ssize_t[::1] by_lightness = np.argsort(labs[:, 0], kind="stable").astype(np.intp)
        self.size = self.swatches.size = rows.shape[0]
        if posix_memalign(<void**> &self.swatches.blocks, 64, lanes // LANES * sizeof(LabBlock)) != 0:
            self.swatches.blocks = NULL
            raise MemoryError
        self.swatches.indices = <Py_ssize_t*> malloc(lanes * sizeof(Py_ssize_t))
        self.labs = <Lab*> malloc(self.size * sizeof(Lab))
        if self.swatches.indices == NULL or self.labs == NULL:
            raise MemoryError
        for place in range(lanes):
            source = by_lightness[min(place, self.size - 1)]
            lab = make_lab(labs[source, 0], labs[source, 1], labs[source, 2])
            put(&self.swatches.blocks[place // LANES], place % LANES, &lab)
            self.swatches.indices[place] = source
            self.labs[source] = lab
        if grid is not None:
            self.cells, self.lists = read_grid(grid, rows)
            self.has_grid = True

    def __dealloc__(self):
        free(self.swatches.blocks)
        free(self.swatches.indices)
        free(self.labs)

    cdef void find(self, double r, double g, double b, Py_ssize_t k, Match* best) noexcept nogil:
        cdef Lab query = lab_of_srgb(r, g, b)
        cdef const unsigned short* candidates
        if self.has_grid and k <= GRID_K:
            candidates = &self.lists[self.cells[cell_of(r, g, b)]]
            find_among(self.labs, self.differences, &query, candidates + 1, candidates[0], k, best)
        else:
            find_nearest(&self.swatches, self.differences, &query, k, best)

    def nearest(self, double r, double g, double b, Py_ssize_t k):
        """The `k` colours nearest to one sRGB colour, as a list of (index, difference), nearest first.

        Colours at the same difference come in palette order. Raises ValueError for a channel that is not a
        number from 0 to 255, and unless 1 <= k <= size.
        """
        self.check_k(k)
        check_channels(r, g, b)
        cdef Match* best = <Match*> malloc(k * sizeof(Match))
        if best == NULL:
            raise MemoryError
        cdef Py_ssize_t i
        try:
            self.find(r, g, b, k, best)
            return [(best[i].index, best[i].distance) for i in range(k)]
        finally:
            free(best)

    def nearest_batch(self, rgb, Py_ssize_t k):
        """The `k` nearest colours of each row of `rgb`, shape (n, 3), as `nearest` orders them.

        Returns indices, intp (n, k), and differences, float64 (n, k). Raises ValueError for another shape or
        channel, and unless 1 <= k <= size. Works without the GIL.
        """
        self.check_k(k)
        cdef const double[:, ::1] rows = rgb_rows(rgb)
        indices = np.empty((rows.shape[0], k), dtype=np.intp)
        differences = np.empty((rows.shape[0], k))
        cdef Py_ssize_t[:, ::1] out_index = indices
        cdef double[:, ::1] out_difference = differences
        cdef Match* best = <Match*> malloc(k * sizeof(Match))
        if best == NULL:
            raise MemoryError
        cdef Py_ssize_t i, j
        with nogil:
            for i in range(rows.shape[0]):
                self.find(rows[i, 0], rows[i, 1], rows[i, 2], k, best)
                for j in range(k):
                    out_index[i, j] = best[j].index
                    out_difference[i, j] = best[j].distance
            free(best)
        return indices, differences

    def distances(self, rgb):
        """The difference of each row of `rgb`, shape (n, 3), to every colour: float64 (n, size).

        Raises ValueError for another shape or channel. Works without the GIL.
        """
        cdef const double[:, ::1] rows = rgb_rows(rgb)
        result = np.empty((rows.shape[0], self.size))
        cdef double[:, ::1] out = result
        cdef Py_ssize_t i, block, lane
        cdef Lab query
        cdef LabBlock queries
        cdef double[LANES] found
        with nogil:
            for i in range(rows.shape[0]):
                query = lab_of_srgb(rows[i, 0], rows[i, 1], rows[i, 2])
                fill(&queries, &query)
                for block in range(block_count(self.size)):
                    self.differences(&queries, &self.swatches.blocks[block], found)
                    for lane in range(min(LANES, self.size - block * LANES)):
                        out[i, self.swatches.indices[block * LANES + lane]] = found[lane]
        return result

    cdef int check_k(self, Py_ssize_t k) except -1:
        if k < 1 or k > self.size:
            raise ValueError(f"k must be from 1 to {self.size}, not {k}")
        return 0


include "text.pxi"
