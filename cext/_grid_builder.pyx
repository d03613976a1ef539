# cython: boundscheck=False, wraparound=False, cdivision=True
"""Builds the candidate grid of a palette, for the release. Serving never imports this module.

docs/matching.md derives the bounds; grid_format.pxi describes the bytes. Equation numbers are those of Sharma, Wu and
Dalal 2005.
"""

from libc.math cimport INFINITY, M_PI, atan2, cos, exp, fabs, pow, sin, sqrt
from libc.stdint cimport uint64_t
from libc.string cimport memcpy

import struct
from hashlib import sha256

import numpy as np

include "srgb_to_lab.pxi"
include "nearest.pxi"
include "grid_format.pxi"

cdef enum:
    MAX_COLOURS = 65535
    # The smallest boxes are a channel wide. Boxes of half a channel take twice the time, for a twelfth less candidates.
    MAX_DEPTH = 3

# The most that rounding can change a bound. The quantities are below 1e5 and come out of some hundred operations, so
# the error of a square is less than 1e-8, and that of its root, where the square is near 0, less than 1e-4.
cdef double BOUND_ERROR = 1e-3


# Bounds over a box

cdef double DEGREE = M_PI / 180.0
cdef double TURN = 2.0 * M_PI
cdef double T_MIN = 0.07  # 1 minus the sum of the factors of (15)
cdef double T_MAX = 1.93  # 1 plus that sum


cdef inline double compute_chroma_ratio(double chroma) noexcept nogil:
    """Returns sqrt(C^7 / (C^7 + 25^7)) of (4) and (17)."""
    cdef double seventh = chroma * chroma * chroma * chroma * chroma * chroma * chroma
    return sqrt(seventh / (seventh + 6103515625.0))


cdef struct LabBox:
    double lightness_low, lightness_high
    double a_low, a_high
    double b_low, b_high
    double chroma_low, chroma_high


cdef struct Bounds:
    double low, high


cdef inline double clamp(double value, double low, double high) noexcept nogil:
    return low if value < low else high if value > high else value


cdef inline double norm(double x, double y) noexcept nogil:
    return sqrt(x * x + y * y)


cdef inline double compute_lab_f_slope(double f) noexcept nogil:
    """Returns the derivative of `lab_f` where its value is `f`; the derivative falls as `f` grows."""
    return 1.0 / (3.0 * f * f) if f > 6.0 / 29.0 else KAPPA / 116.0


cdef inline double bound_slope(
    double slope1_low, double slope1_high, double share1, double slope2_low, double slope2_high, double share2
) noexcept nogil:
    """Returns the most that the difference of two `lab_f` changes with one channel."""
    return max(fabs(slope1_low * share1 - slope2_high * share2), fabs(slope1_high * share1 - slope2_low * share2))


cdef LabBox enclose_cube(const double* low, double width) noexcept nogil:
    """Returns a box in L*a*b* around the sRGB cube with this corner and width, in channels."""
    cdef double[3] dark, bright, middle, half
    cdef int i
    for i in range(3):
        dark[i] = linearize_channel(low[i])
        bright[i] = linearize_channel(min(low[i] + width, 255.0))
        middle[i] = (dark[i] + bright[i]) / 2.0
        half[i] = (bright[i] - dark[i]) / 2.0
    # X, Y and Z grow with every channel.
    cdef LabF least = convert_linear_rgb_to_lab_f(dark[0], dark[1], dark[2])
    cdef LabF most = convert_linear_rgb_to_lab_f(bright[0], bright[1], bright[2])
    cdef LabF centre = convert_linear_rgb_to_lab_f(middle[0], middle[1], middle[2])
    # The mean value theorem bounds a* and b*, one channel after another, from the middle.
    cdef double x0 = compute_lab_f_slope(most.x), x1 = compute_lab_f_slope(least.x)
    cdef double y0 = compute_lab_f_slope(most.y), y1 = compute_lab_f_slope(least.y)
    cdef double z0 = compute_lab_f_slope(most.z), z1 = compute_lab_f_slope(least.z)
    cdef double a = 500.0 * (centre.x - centre.y), b = 200.0 * (centre.y - centre.z)
    cdef double a_radius = 500.0 * (
        half[0] * bound_slope(x0, x1, X_RED, y0, y1, Y_RED)
        + half[1] * bound_slope(x0, x1, 1.0 - X_RED - X_BLUE, y0, y1, 1.0 - Y_RED - Y_BLUE)
        + half[2] * bound_slope(x0, x1, X_BLUE, y0, y1, Y_BLUE)
    )
    cdef double b_radius = 200.0 * (
        half[0] * bound_slope(y0, y1, Y_RED, z0, z1, Z_RED)
        + half[1] * bound_slope(y0, y1, 1.0 - Y_RED - Y_BLUE, z0, z1, 1.0 - Z_RED - Z_BLUE)
        + half[2] * bound_slope(y0, y1, Y_BLUE, z0, z1, Z_BLUE)
    )
    cdef LabBox box
    box.lightness_low = 116.0 * least.y - 16.0
    box.lightness_high = 116.0 * most.y - 16.0
    box.a_low = max(a - a_radius, 500.0 * (least.x - most.y))
    box.a_high = min(a + a_radius, 500.0 * (most.x - least.y))
    box.b_low = max(b - b_radius, 200.0 * (least.y - most.z))
    box.b_high = min(b + b_radius, 200.0 * (most.y - least.z))
    box.chroma_low = norm(clamp(0.0, box.a_low, box.a_high), clamp(0.0, box.b_low, box.b_high))
    box.chroma_high = norm(max(-box.a_low, box.a_high), max(-box.b_low, box.b_high))
    return box


cdef inline double form(double x, double y, double r) noexcept nogil:
    """Returns the terms of (22) without lightness: x = dC'/SC, y = dH'/SH, r = -RT."""
    return x * x + y * y - r * x * y


cdef inline double minimize_form(Bounds x, Bounds y, double r) noexcept nogil:
    """Returns the least `form`. It is convex because |r| < 2, so the least is at 0 or on an edge."""
    if x.low <= 0.0 <= x.high and y.low <= 0.0 <= y.high:
        return 0.0
    return min(
        form(x.low, clamp(r * x.low / 2.0, y.low, y.high), r), form(x.high, clamp(r * x.high / 2.0, y.low, y.high), r),
        form(clamp(r * y.low / 2.0, x.low, x.high), y.low, r), form(clamp(r * y.high / 2.0, x.low, x.high), y.high, r),
    )


cdef inline double maximize_form(Bounds x, Bounds y, double r) noexcept nogil:
    """Returns the greatest `form`, which is at a corner because `form` is convex."""
    return max(
        max(form(x.low, y.low, r), form(x.low, y.high, r)), max(form(x.high, y.low, r), form(x.high, y.high, r))
    )


cdef Bounds bound_t(double h, double radius) noexcept nogil:
    """Bounds T (15) for mean hues from h - radius to h + radius, in radians.

    By Taylor's theorem, with |T''| <= 0.17 + 4 * 0.24 + 9 * 0.32 + 16 * 0.20 = 7.21.
    """
    cdef double t = (
        1.0 - 0.17 * cos(h - 30.0 * DEGREE) + 0.24 * cos(2.0 * h) + 0.32 * cos(3.0 * h + 6.0 * DEGREE)
        - 0.20 * cos(4.0 * h - 63.0 * DEGREE)
    )
    cdef double slope = (
        0.17 * sin(h - 30.0 * DEGREE) - 0.48 * sin(2.0 * h) - 0.96 * sin(3.0 * h + 6.0 * DEGREE)
        + 0.80 * sin(4.0 * h - 63.0 * DEGREE)
    )
    cdef double change = fabs(slope) * radius + 7.21 / 2.0 * radius * radius
    return Bounds(max(t - change, T_MIN), min(t + change, T_MAX))


cdef Bounds bound_gaussian(double h, double radius) noexcept nogil:
    """Bounds the Gaussian of (16) for mean hues from h - radius to h + radius, in radians, which may cross 0."""
    cdef double away = fabs(h - 275.0 * DEGREE)
    away = min(away, fabs(TURN - away))
    cdef double near = max(away - radius, 0.0) / (25.0 * DEGREE), far = (away + radius) / (25.0 * DEGREE)
    # (16) does not wrap at 360 degrees: for mean hues from 0 to 95 degrees it is 0 or nearly 0.
    cdef double from_jump = fabs(h - 47.5 * DEGREE)
    cdef double low = exp(-far * far) if min(from_jump, TURN - from_jump) - radius > 48.0 * DEGREE else 0.0
    return Bounds(low, exp(-near * near))


cdef Bounds bound_delta_e(const Lab* colour, const LabBox* box, double limit) noexcept nogil:
    """Bounds the CIEDE2000 difference of a colour and any point of a box; both are INFINITY if it exceeds `limit`.

    Interval arithmetic, in the order of the formula. Names with 1 are of the colour, with 2 of the point.
    """
    cdef double lightness = colour.lightness
    cdef double lightness_term_low = compute_lightness_term(
        lightness, clamp(lightness, box.lightness_low, box.lightness_high)
    )
    if lightness_term_low > limit:
        return Bounds(INFINITY, INFINITY)
    cdef double lightness_term_high = max(
        compute_lightness_term(lightness, box.lightness_low), compute_lightness_term(lightness, box.lightness_high)
    )

    # 1 + G (4) falls as chroma grows. It makes an interval of each a' (5), and so a rectangle of the colour too.
    cdef double stretch_low = 1.5 - 0.5 * compute_chroma_ratio((colour.chroma + box.chroma_high) / 2.0)
    cdef double stretch_high = 1.5 - 0.5 * compute_chroma_ratio((colour.chroma + box.chroma_low) / 2.0)
    cdef double a2_low = min(stretch_low * box.a_low, stretch_high * box.a_low)
    cdef double a2_high = max(stretch_low * box.a_high, stretch_high * box.a_high)
    cdef double c1_low = norm(stretch_low * colour.a, colour.b)  # (6)
    cdef double c1_high = norm(stretch_high * colour.a, colour.b)
    cdef double c2_low = norm(clamp(0.0, a2_low, a2_high), clamp(0.0, box.b_low, box.b_high))
    cdef double c2_high = norm(max(-a2_low, a2_high), max(-box.b_low, box.b_high))
    cdef double mean_low = (c1_low + c2_low) / 2.0, mean_high = (c1_high + c2_high) / 2.0  # (13)

    # dC' / SC (9) (19) grows with C2' and falls with C1'.
    cdef Bounds x
    x.low = (c2_low - c1_high) / (1.0 + 0.0225 * (c2_low + c1_high))
    x.high = (c2_high - c1_low) / (1.0 + 0.0225 * (c2_high + c1_low))

    # The hues (7) are the directions of the middles. The radius is the most that the direction of a corner differs from
    # them: the tangent of an angle is no less than the angle.
    cdef double stretch = (stretch_low + stretch_high) / 2.0
    cdef double a1 = stretch * colour.a, b1 = colour.b
    cdef double a2 = (a2_low + a2_high) / 2.0, b2 = (box.b_low + box.b_high) / 2.0
    cdef double a2_half = (a2_high - a2_low) / 2.0, b2_half = (box.b_high - box.b_low) / 2.0
    cdef double dot1 = stretch_low * colour.a * a1 + b1 * b1
    cdef double dot2 = a2 * a2 + b2 * b2 - fabs(a2) * a2_half - fabs(b2) * b2_half  # the least of the corners
    cdef double angle = M_PI, radius = M_PI  # of dh' (10)
    if dot1 > 0.0 and dot2 > 0.0:
        angle = atan2(a1 * b2 - a2 * b1, a1 * a2 + b1 * b2)
        radius = (
            (stretch - stretch_low) * fabs(colour.a * b1) / dot1 + (fabs(a2) * b2_half + fabs(b2) * a2_half) / dot2
        )
    cdef bint may_wrap = fabs(angle) + radius > M_PI - 1e-9  # past 180 degrees, or there is no hue

    cdef Bounds t, gauss
    cdef double mean_hue
    if may_wrap:
        t.low, t.high = T_MIN, T_MAX
        gauss.low, gauss.high = 0.0, 1.0
    else:
        mean_hue = atan2(b1, a1) + angle / 2.0  # (14)
        if mean_hue < 0.0:
            mean_hue += TURN
        t = bound_t(mean_hue, radius / 2.0)
        gauss = bound_gaussian(mean_hue, radius / 2.0)
    cdef double r_low = 2.0 * compute_chroma_ratio(mean_low) * sin(60.0 * DEGREE * gauss.low)  # -RT (17) (21)
    cdef double r_high = 2.0 * compute_chroma_ratio(mean_high) * sin(60.0 * DEGREE * gauss.high)

    # dH' / SH (11) (20)
    cdef double scale_low = 2.0 * sqrt(c1_low * c2_low) / (1.0 + 0.015 * mean_high * t.high)
    cdef double scale_high = 2.0 * sqrt(c1_high * c2_high) / (1.0 + 0.015 * mean_low * t.low)
    cdef Bounds y, mirrored
    if may_wrap:
        y.low = scale_low * sin(clamp(fabs(angle) - radius, 0.0, M_PI) / 2.0)
        y.high = scale_high
        mirrored.low, mirrored.high = -y.high, -y.low
    else:
        y.low = sin(clamp((angle - radius) / 2.0, -M_PI / 2.0, M_PI / 2.0))
        y.high = sin(clamp((angle + radius) / 2.0, -M_PI / 2.0, M_PI / 2.0))
        y.low *= scale_high if y.low < 0.0 else scale_low
        y.high *= scale_low if y.high < 0.0 else scale_high
        mirrored = y

    # (22) is linear in RT, so the ends of RT suffice.
    cdef double least = min(
        min(minimize_form(x, y, r_low), minimize_form(x, y, r_high)),
        min(minimize_form(x, mirrored, r_low), minimize_form(x, mirrored, r_high)) if may_wrap else INFINITY,
    )
    cdef double most = max(
        max(maximize_form(x, y, r_low), maximize_form(x, y, r_high)),
        max(maximize_form(x, mirrored, r_low), maximize_form(x, mirrored, r_high)) if may_wrap else 0.0,
    )
    return Bounds(
        sqrt(lightness_term_low * lightness_term_low + least), sqrt(lightness_term_high * lightness_term_high + most)
    )


def delta_e_bounds(colour, low, double width):
    """Bounds the CIEDE2000 difference of a colour to any point of the sRGB cube with the corner `low`; for tests."""
    cdef const double[:, ::1] rows = read_rgb_rows([colour, low])
    cdef Lab lab = convert_srgb_to_lab(rows[0, 0], rows[0, 1], rows[0, 2])
    cdef LabBox box = enclose_cube(&rows[1, 0], width)
    cdef Bounds bounds = bound_delta_e(&lab, &box, INFINITY)
    return bounds.low, bounds.high


# Building

cdef struct CellSearch:
    const Lab* labs  # in palette order
    Py_ssize_t size
    unsigned char* is_candidate  # for each colour
    double* lows  # scratch space: a lower bound for each colour
    unsigned short* lists  # scratch space: a list of colours for each depth


cdef void add_candidates(
    CellSearch* cell, const double* low, double width, int depth, const unsigned short* colours, Py_ssize_t count
) noexcept nogil:
    """Marks which of `colours` can be among the nearest of a point in the cube with the corner `low`.

    What is nearest to the middle is a candidate. The cube is divided, down to depth 0, only while it has colours that
    may be among the nearest of a point and are no candidates yet.
    """
    cdef Py_ssize_t k = min(<Py_ssize_t> GRID_K, cell.size), i, found = 0, remaining = 0
    cdef Match[GRID_K] best
    cdef LabBox box = enclose_cube(low, width)
    cdef Bounds bounds
    cdef double limit = INFINITY
    for i in range(count):
        bounds = bound_delta_e(&cell.labs[colours[i]], &box, limit)
        cell.lows[i] = bounds.low
        found = insert_match(best, found, k, bounds.high, colours[i])
        if found == k:
            limit = best[k - 1].delta_e + BOUND_ERROR
    cdef unsigned short* list = cell.lists + depth * cell.size
    for i in range(count):
        if cell.lows[i] <= limit:
            list[remaining] = colours[i]
            remaining += 1

    cdef Lab middle = convert_srgb_to_lab(
        min(low[0] + width / 2.0, 255.0), min(low[1] + width / 2.0, 255.0), min(low[2] + width / 2.0, 255.0)
    )
    find_nearest_candidates(cell.labs, INSTRUCTION_SETS[0].compute_delta_e, &middle, list, remaining, k, best)
    for i in range(k):
        cell.is_candidate[best[i].index] = True
    cdef bint complete = True
    for i in range(remaining):
        complete &= cell.is_candidate[list[i]]
    if complete:
        return
    if depth == 0:
        for i in range(remaining):
            cell.is_candidate[list[i]] = True
        return
    cdef double[3] corner
    cdef double half = width / 2.0
    for i in range(8):
        corner[0] = low[0] + (half if i & 4 else 0.0)
        corner[1] = low[1] + (half if i & 2 else 0.0)
        corner[2] = low[2] + (half if i & 1 else 0.0)
        if corner[0] <= 255.0 and corner[1] <= 255.0 and corner[2] <= 255.0:
            add_candidates(cell, corner, half, depth - 1, list, remaining)


def build_grid(rgb):
    """Returns the grid of a palette as bytes, for `Palette`: the same palette gives the same bytes.

    Takes ten seconds for the 161 colours of the release, a minute for two thousand. `rgb`: shape (n, 3), n from 1 to
    65535, real numbers from 0 to 255; raises ValueError otherwise.
    """
    cdef const double[:, ::1] rows = read_rgb_rows(rgb)
    cdef Py_ssize_t i, size = rows.shape[0]
    if not 1 <= size <= MAX_COLOURS:
        raise ValueError(f"a grid takes from 1 to {MAX_COLOURS} colours, not {size}")
    cdef double[:, ::1] labs = np.empty((size, sizeof(Lab) // sizeof(double)))
    cdef unsigned char[::1] is_candidate = np.empty(size, dtype=np.uint8)
    cdef double[::1] lows = np.empty(size)
    cdef unsigned short[::1] lists = np.empty((MAX_DEPTH + 1) * size, dtype=np.uint16)
    cdef const unsigned short[::1] every = np.arange(size, dtype=np.uint16)
    cdef CellSearch cell
    for i in range(size):
        (<Lab*> &labs[i, 0])[0] = convert_srgb_to_lab(rows[i, 0], rows[i, 1], rows[i, 2])
    cell.labs = <Lab*> &labs[0, 0]
    cell.size = size
    cell.is_candidate = &is_candidate[0]
    cell.lows = &lows[0]
    cell.lists = &lists[0]
    cdef double[3] corner
    cdef int number
    cells = []
    numbers = {}
    for number in range(GRID_CELLS):
        corner[0] = GRID_CELL_WIDTH * (number // (GRID_SIDE * GRID_SIDE))
        corner[1] = GRID_CELL_WIDTH * (number // GRID_SIDE % GRID_SIDE)
        corner[2] = GRID_CELL_WIDTH * (number % GRID_SIDE)
        with nogil:
            is_candidate[:] = 0
            add_candidates(&cell, corner, GRID_CELL_WIDTH, MAX_DEPTH, &every[0], size)
        candidates = np.flatnonzero(is_candidate).astype("<u2").tobytes()
        cells.append(numbers.setdefault(candidates, len(numbers)))
    header = GRID_HEADER.pack(GRID_MAGIC, GRID_VERSION, GRID_K, GRID_SIDE, size, len(numbers), hash_palette(rows))
    lengths = [len(candidates) // 2 for candidates in numbers]
    return b"".join([header, np.array(cells, "<u2").tobytes(), np.array(lengths, "<u2").tobytes(), *numbers])
