# The candidate grid: a cube of 32 cells a side over sRGB, and for each cell every colour of the palette that can be
# among the nearest three of any real-valued point in it. Included by _palette.pyx; docs/matching.md has the bounds.
#
# Bytes, little-endian: the header below; for each cell (red slowest, blue fastest) the number of its list, uint16; the
# length of each list, uint16; the lists, one after another, as indices of the palette in ascending order, uint16.

GRID_MAGIC = b"sepugrid"
GRID_VERSION = 1
GRID_HEADER = struct.Struct("<8sIIIII32s")  # magic, version, k, cells a side, colours, lists, SHA-256 of the palette

cdef enum:
    GRID_SIDE = 32
    GRID_CELLS = 32768
    GRID_K = 3
    GRID_MOST_COLOURS = 65535
    # Down to boxes a channel wide: half of that takes twice the time and drops a twelfth of the candidates.
    GRID_DEPTH = 3

cdef double CELL = 8.0  # channels a side; `cell_of` divides by it

# What rounding can do to a bound: the quantities are below 1e5 and computed in some hundred operations, so squares err
# by less than 1e-8 and, where a square is near 0, its root by less than 1e-4.
cdef double MARGIN = 1e-3


def palette_digest(const double[:, ::1] rows):
    """The SHA-256 of the palette as float64, by which a grid knows its palette."""
    return sha256(np.asarray(rows).astype("<f8").tobytes()).digest()


# Bounds over a box

cdef double DEGREE = M_PI / 180.0
cdef double TURN = 2.0 * M_PI
cdef double T_LEAST = 0.07  # 1 less all the factors of (15), and 1 and all of them
cdef double T_MOST = 1.93


cdef inline double seventh_share(double chroma) noexcept nogil:
    """sqrt(C^7 / (C^7 + 25^7)), which (4) and (17) share."""
    cdef double seventh = chroma * chroma * chroma * chroma * chroma * chroma * chroma
    return sqrt(seventh / (seventh + 6103515625.0))


cdef struct Box:
    double dark, light  # L*
    double a_low, a_high
    double b_low, b_high
    double chroma_low, chroma_high


cdef struct Bounds:
    double low, high


cdef inline double clamp(double value, double low, double high) noexcept nogil:
    return low if value < low else high if value > high else value


cdef inline double nearest_to_zero(double low, double high) noexcept nogil:
    return clamp(0.0, low, high)


cdef inline double norm(double x, double y) noexcept nogil:
    return sqrt(x * x + y * y)


cdef inline double lab_f_slope(double f) noexcept nogil:
    """The derivative of `lab_f` where its value is `f`; it falls as `f` grows."""
    return 1.0 / (3.0 * f * f) if f > 6.0 / 29.0 else KAPPA / 116.0


cdef inline double reach(
    double slope1_low, double slope1_high, double share1, double slope2_low, double slope2_high, double share2
) noexcept nogil:
    """How much a difference of two `lab_f` changes at most with one channel."""
    return max(fabs(slope1_low * share1 - slope2_high * share2), fabs(slope1_high * share1 - slope2_low * share2))


cdef Box box_of_srgb(const double* low, double width) noexcept nogil:
    cdef double[3] dark, bright, middle, half
    cdef int i
    for i in range(3):
        dark[i] = linear(low[i])
        bright[i] = linear(min(low[i] + width, 255.0))
        middle[i] = (dark[i] + bright[i]) / 2.0
        half[i] = (bright[i] - dark[i]) / 2.0
    # X, Y and Z grow with every channel.
    cdef Stimulus least = stimulus(dark[0], dark[1], dark[2]), most = stimulus(bright[0], bright[1], bright[2])
    cdef Stimulus centre = stimulus(middle[0], middle[1], middle[2])
    # a* and b* by the mean value theorem, channel by channel from the middle.
    cdef double x0 = lab_f_slope(most.x), x1 = lab_f_slope(least.x)
    cdef double y0 = lab_f_slope(most.y), y1 = lab_f_slope(least.y)
    cdef double z0 = lab_f_slope(most.z), z1 = lab_f_slope(least.z)
    cdef double a = 500.0 * (centre.x - centre.y), b = 200.0 * (centre.y - centre.z)
    cdef double a_radius = 500.0 * (
        half[0] * reach(x0, x1, X_RED, y0, y1, Y_RED)
        + half[1] * reach(x0, x1, 1.0 - X_RED - X_BLUE, y0, y1, 1.0 - Y_RED - Y_BLUE)
        + half[2] * reach(x0, x1, X_BLUE, y0, y1, Y_BLUE)
    )
    cdef double b_radius = 200.0 * (
        half[0] * reach(y0, y1, Y_RED, z0, z1, Z_RED)
        + half[1] * reach(y0, y1, 1.0 - Y_RED - Y_BLUE, z0, z1, 1.0 - Z_RED - Z_BLUE)
        + half[2] * reach(y0, y1, Y_BLUE, z0, z1, Z_BLUE)
    )
    cdef Box box
    box.dark = 116.0 * least.y - 16.0
    box.light = 116.0 * most.y - 16.0
    box.a_low = max(a - a_radius, 500.0 * (least.x - most.y))
    box.a_high = min(a + a_radius, 500.0 * (most.x - least.y))
    box.b_low = max(b - b_radius, 200.0 * (least.y - most.z))
    box.b_high = min(b + b_radius, 200.0 * (most.y - least.z))
    box.chroma_low = norm(nearest_to_zero(box.a_low, box.a_high), nearest_to_zero(box.b_low, box.b_high))
    box.chroma_high = norm(max(-box.a_low, box.a_high), max(-box.b_low, box.b_high))
    return box


cdef inline double form(double x, double y, double r) noexcept nogil:
    """The part of (22) that lightness has no share in."""
    return x * x + y * y - r * x * y


cdef inline double least_form(Bounds x, Bounds y, double r) noexcept nogil:
    """Convex as |r| < 2: the least lies at 0, or on an edge."""
    if x.low <= 0.0 <= x.high and y.low <= 0.0 <= y.high:
        return 0.0
    return min(
        min(form(x.low, clamp(r * x.low / 2.0, y.low, y.high), r), form(x.high, clamp(r * x.high / 2.0, y.low, y.high), r)),
        min(form(clamp(r * y.low / 2.0, x.low, x.high), y.low, r), form(clamp(r * y.high / 2.0, x.low, x.high), y.high, r)),
    )


cdef inline double most_form(Bounds x, Bounds y, double r) noexcept nogil:
    """Convex: the most lies at a corner."""
    return max(
        max(form(x.low, y.low, r), form(x.low, y.high, r)), max(form(x.high, y.low, r), form(x.high, y.high, r))
    )


cdef Bounds t_around(double h, double radius) noexcept nogil:
    """T (15) over an interval of the mean hue, by Taylor: |T''| <= 0.17 + 4 * 0.24 + 9 * 0.32 + 16 * 0.20 = 7.21."""
    cdef double t = (
        1.0 - 0.17 * cos(h - 30.0 * DEGREE) + 0.24 * cos(2.0 * h) + 0.32 * cos(3.0 * h + 6.0 * DEGREE)
        - 0.20 * cos(4.0 * h - 63.0 * DEGREE)
    )
    cdef double slope = (
        0.17 * sin(h - 30.0 * DEGREE) - 0.48 * sin(2.0 * h) - 0.96 * sin(3.0 * h + 6.0 * DEGREE)
        + 0.80 * sin(4.0 * h - 63.0 * DEGREE)
    )
    cdef double change = fabs(slope) * radius + 7.21 / 2.0 * radius * radius
    cdef Bounds bounds
    bounds.low = max(t - change, T_LEAST)
    bounds.high = min(t + change, T_MOST)
    return bounds


cdef Bounds gauss_around(double h, double radius) noexcept nogil:
    """The Gaussian of (16) over an interval of the mean hue, which may go around the circle."""
    cdef double away = fabs(h - 275.0 * DEGREE)
    away = min(away, fabs(TURN - away))
    cdef double near = max(away - radius, 0.0) / (25.0 * DEGREE), far = (away + radius) / (25.0 * DEGREE)
    cdef Bounds bounds
    # (16) does not go around: where the mean hue may be from 0 to 95 degrees it is, or is nearly, 0.
    cdef double from_jump = fabs(h - 47.5 * DEGREE)
    bounds.low = exp(-far * far) if min(from_jump, TURN - from_jump) - radius > 48.0 * DEGREE else 0.0
    bounds.high = exp(-near * near)
    return bounds


cdef Bounds bounds_of_difference(const Lab* colour, const Box* box, double beyond) noexcept nogil:
    """From below and above, the difference of a colour and any point of a box; INFINITY if it exceeds `beyond`.

    1 is the colour, 2 the point. Interval by interval, as the formula goes.
    """
    cdef Bounds bounds
    cdef double light_low = lightness_term(colour.lightness, clamp(colour.lightness, box.dark, box.light))
    if light_low > beyond:
        bounds.low = bounds.high = INFINITY
        return bounds
    cdef double light_high = max(
        lightness_term(colour.lightness, box.dark), lightness_term(colour.lightness, box.light)
    )

    # 1 + G (4) falls as chroma grows; the point becomes a rectangle once more (5), and so does the colour.
    cdef double stretch_low = 1.5 - 0.5 * seventh_share((colour.chroma + box.chroma_high) / 2.0)
    cdef double stretch_high = 1.5 - 0.5 * seventh_share((colour.chroma + box.chroma_low) / 2.0)
    cdef double a2_low = min(stretch_low * box.a_low, stretch_high * box.a_low)
    cdef double a2_high = max(stretch_low * box.a_high, stretch_high * box.a_high)
    cdef double c1_low = norm(stretch_low * colour.a, colour.b), c1_high = norm(stretch_high * colour.a, colour.b)  # (6)
    cdef double c2_low = norm(nearest_to_zero(a2_low, a2_high), nearest_to_zero(box.b_low, box.b_high))
    cdef double c2_high = norm(max(-a2_low, a2_high), max(-box.b_low, box.b_high))
    cdef double mean_low = (c1_low + c2_low) / 2.0, mean_high = (c1_high + c2_high) / 2.0  # (13)

    # dC' / SC (9) (19) grows with C2' and falls with C1'.
    cdef Bounds x
    x.low = (c2_low - c1_high) / (1.0 + 0.0225 * (c2_low + c1_high))
    x.high = (c2_high - c1_low) / (1.0 + 0.0225 * (c2_high + c1_low))

    # The hues (7), as directions of the middles, and the most that a corner's direction differs from them: the tangent
    # of an angle is no less than the angle.
    cdef double stretch = (stretch_low + stretch_high) / 2.0
    cdef double a1 = stretch * colour.a, b1 = colour.b
    cdef double a2 = (a2_low + a2_high) / 2.0, b2 = (box.b_low + box.b_high) / 2.0
    cdef double a2_half = (a2_high - a2_low) / 2.0, b2_half = (box.b_high - box.b_low) / 2.0
    cdef double dot1 = stretch_low * colour.a * a1 + b1 * b1
    cdef double dot2 = a2 * a2 + b2 * b2 - fabs(a2) * a2_half - fabs(b2) * b2_half  # the least of any corner
    cdef double angle = M_PI, radius = M_PI  # of dh' (10)
    if dot1 > 0.0 and dot2 > 0.0:
        angle = atan2(a1 * b2 - a2 * b1, a1 * a2 + b1 * b2)
        radius = (
            (stretch - stretch_low) * fabs(colour.a * b1) / dot1 + (fabs(a2) * b2_half + fabs(b2) * a2_half) / dot2
        )
    cdef bint may_turn = fabs(angle) + radius > M_PI - 1e-9  # past 180 degrees, or of no hue at all

    cdef Bounds t, gauss
    cdef double mean_hue
    if may_turn:
        t.low, t.high = T_LEAST, T_MOST
        gauss.low, gauss.high = 0.0, 1.0
    else:
        mean_hue = atan2(b1, a1) + angle / 2.0  # (14)
        if mean_hue < 0.0:
            mean_hue += TURN
        t = t_around(mean_hue, radius / 2.0)
        gauss = gauss_around(mean_hue, radius / 2.0)
    cdef double r_low = 2.0 * seventh_share(mean_low) * sin(60.0 * DEGREE * gauss.low)  # -RT (17) (21)
    cdef double r_high = 2.0 * seventh_share(mean_high) * sin(60.0 * DEGREE * gauss.high)

    # dH' / SH (11) (20)
    cdef double scale_low = 2.0 * sqrt(c1_low * c2_low) / (1.0 + 0.015 * mean_high * t.high)
    cdef double scale_high = 2.0 * sqrt(c1_high * c2_high) / (1.0 + 0.015 * mean_low * t.low)
    cdef Bounds y, other
    if may_turn:
        y.low = scale_low * sin(clamp(fabs(angle) - radius, 0.0, M_PI) / 2.0)
        y.high = scale_high
        other.low, other.high = -y.high, -y.low
    else:
        y.low = sin(clamp((angle - radius) / 2.0, -M_PI / 2.0, M_PI / 2.0))
        y.high = sin(clamp((angle + radius) / 2.0, -M_PI / 2.0, M_PI / 2.0))
        y.low *= scale_high if y.low < 0.0 else scale_low
        y.high *= scale_low if y.high < 0.0 else scale_high
        other = y

    # (22) is linear in RT, so its ends do.
    cdef double least = min(
        min(least_form(x, y, r_low), least_form(x, y, r_high)),
        min(least_form(x, other, r_low), least_form(x, other, r_high)) if may_turn else INFINITY,
    )
    cdef double most = max(
        max(most_form(x, y, r_low), most_form(x, y, r_high)),
        max(most_form(x, other, r_low), most_form(x, other, r_high)) if may_turn else 0.0,
    )
    bounds.low = sqrt(light_low * light_low + least)
    bounds.high = sqrt(light_high * light_high + most)
    return bounds


def difference_bounds(colour, low, double width):
    """What the difference of a colour to any point of the cube at `low` is at least and at most, all sRGB; for tests."""
    cdef const double[:, ::1] rows = rgb_rows([colour, low])
    cdef Lab lab = lab_of_srgb(rows[0, 0], rows[0, 1], rows[0, 2])
    cdef Box box = box_of_srgb(&rows[1, 0], width)
    cdef Bounds bounds = bounds_of_difference(&lab, &box, INFINITY)
    return bounds.low, bounds.high


# Building

cdef struct Cell:
    const Lab* labs
    Py_ssize_t size
    Differences differences
    unsigned char* kept  # of each colour: whether it is a candidate
    double* lows  # room for a number for each colour
    unsigned short* lists  # and for a list of colours for each depth


cdef void refine(
    Cell* cell, const double* low, double width, int depth, const unsigned short* alive, Py_ssize_t count
) noexcept nogil:
    """Keeps what of `alive` can be among the nearest of a point in a box.

    What is nearest to the middle of a box is; the box is divided only while it has colours that may be but have not
    been seen to.
    """
    cdef Py_ssize_t k = min(<Py_ssize_t> GRID_K, cell.size), i, found = 0, survivors = 0
    cdef Match[GRID_K] best
    cdef Box box = box_of_srgb(low, width)
    cdef Bounds bounds
    cdef double beyond = INFINITY
    for i in range(count):
        bounds = bounds_of_difference(&cell.labs[alive[i]], &box, beyond)
        cell.lows[i] = bounds.low
        found = keep(best, found, k, bounds.high, alive[i])
        if found == k:
            beyond = best[k - 1].distance + MARGIN
    cdef unsigned short* list = cell.lists + depth * cell.size
    for i in range(count):
        if cell.lows[i] <= beyond:
            list[survivors] = alive[i]
            survivors += 1

    cdef Lab middle = lab_of_srgb(
        min(low[0] + width / 2.0, 255.0), min(low[1] + width / 2.0, 255.0), min(low[2] + width / 2.0, 255.0)
    )
    find_among(cell.labs, cell.differences, &middle, list, survivors, k, best)
    for i in range(k):
        cell.kept[best[i].index] = True
    cdef bint certain = True
    for i in range(survivors):
        certain &= cell.kept[list[i]]
    if certain:
        return
    if depth == 0:
        for i in range(survivors):
            cell.kept[list[i]] = True
        return
    cdef double[3] corner
    cdef double half = width / 2.0
    for i in range(8):
        corner[0] = low[0] + (half if i & 4 else 0.0)
        corner[1] = low[1] + (half if i & 2 else 0.0)
        corner[2] = low[2] + (half if i & 1 else 0.0)
        if corner[0] <= 255.0 and corner[1] <= 255.0 and corner[2] <= 255.0:
            refine(cell, corner, half, depth - 1, list, survivors)


def candidate_grid(rgb):
    """The grid of a palette as bytes, for `Palette`: the same palette gives the same bytes.

    Takes ten seconds for the 161 colours of the release, a minute for two thousand. `rgb`: as of `Palette`, at most
    65535 colours; ValueError otherwise.
    """
    cdef const double[:, ::1] rows = rgb_rows(rgb)
    cdef Palette palette = Palette(rows)
    if palette.size > GRID_MOST_COLOURS:
        raise ValueError(f"a grid takes at most {GRID_MOST_COLOURS} colours, not {palette.size}")
    kept_array = np.empty(palette.size, dtype=np.uint8)
    cdef unsigned char[::1] kept = kept_array
    cdef double[::1] lows = np.empty(palette.size)
    cdef unsigned short[::1] lists = np.empty((GRID_DEPTH + 1) * palette.size, dtype=np.uint16)
    cdef const unsigned short[::1] every = np.arange(palette.size, dtype=np.uint16)
    cdef Cell cell
    cell.labs = palette.labs
    cell.size = palette.size
    cell.differences = palette.differences
    cell.kept = &kept[0]
    cell.lows = &lows[0]
    cell.lists = &lists[0]
    cdef double[3] corner
    cdef int place
    cells = []
    numbers = {}
    for place in range(GRID_CELLS):
        corner[0] = CELL * (place // (GRID_SIDE * GRID_SIDE))
        corner[1] = CELL * (place // GRID_SIDE % GRID_SIDE)
        corner[2] = CELL * (place % GRID_SIDE)
        with nogil:
            kept[:] = 0
            refine(&cell, corner, CELL, GRID_DEPTH, &every[0], palette.size)
        members = np.flatnonzero(kept_array).astype("<u2").tobytes()
        cells.append(numbers.setdefault(members, len(numbers)))
    header = GRID_HEADER.pack(
        GRID_MAGIC, GRID_VERSION, GRID_K, GRID_SIDE, palette.size, len(numbers), palette_digest(rows)
    )
    lengths = [len(members) // 2 for members in numbers]
    return b"".join([header, np.array(cells, "<u2").tobytes(), np.array(lengths, "<u2").tobytes(), *numbers])


# Reading

cdef inline Py_ssize_t cell_of(double r, double g, double b) noexcept nogil:
    return ((<int> r >> 3) * GRID_SIDE + (<int> g >> 3)) * GRID_SIDE + (<int> b >> 3)


def read_grid(bytes grid not None, const double[:, ::1] rows):
    """Where each cell's list begins, and the lists, each after its length; ValueError for anything but such a grid."""
    if len(grid) < GRID_HEADER.size or (len(grid) - GRID_HEADER.size) % 2:
        raise ValueError("grid is truncated")
    magic, version, k, side, size, count, digest = GRID_HEADER.unpack_from(grid)
    if magic != GRID_MAGIC or (version, k, side) != (GRID_VERSION, GRID_K, GRID_SIDE):
        raise ValueError(f"grid is no candidate grid of version {GRID_VERSION}")
    if size != rows.shape[0] or digest != palette_digest(rows):
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
    if not (cells < count).all() or not (lengths >= min(GRID_K, size)).all() or not (members < size).all() or not (
        ascends.all()
    ):
        raise ValueError("grid is malformed")
    lists = np.insert(members, begins, lengths).astype(np.uint16)
    return (begins + np.arange(count))[cells].astype(np.uint32), lists
