# Queries in CIE L*a*b*: their limits, their white, and their place in sRGB. _palette.pyx includes this file, and
# srgb_to_lab.pxi and rgb_arrays.pxi, in any order.

# Row i holds the exact shares of X/Xn and Z/Zn; Y/Yn has the rest of each row, so that a neutral stays exactly neutral.
# The Bradford transform (ICC.1:2022, annex E), with the whites of CSS Color 4: D50 (0.3457, 0.3585) and D65 (0.3127,
# 0.3290).
cdef double[3][2] D65_OF_D50 = [
    [0.9693862314504006, 0.05491626831980582],
    [-0.027356788052208203, 0.017361389970904154],
    [0.01090332563633491, 1.0079273096395172],
]
# The inverse of the matrix of srgb_to_lab.pxi: rows for linear red, green and blue.
cdef double[3][2] LINEAR_RGB_OF_XYZ = [
    [121953.0 / 39590.0, -10749.0 / 19795.0],
    [-8095803.0 / 8788100.0, 397713.0 / 8788100.0],
    [9381.0 / 177422.0, 10749.0 / 9338.0],
]

# Up to this value, no power in the conversion and the formulas overflows. Visible colours are within a few hundred.
cdef double GREATEST_LAB = 1e12


cdef inline double invert_lab_f(double f) noexcept nogil:
    return f * f * f if f > 6.0 / 29.0 else (116.0 * f - 16.0) / KAPPA


cdef inline void multiply_lab(
    double lightness, double a, double b, const double[3][2] matrix, double* product
) noexcept nogil:
    """Fills `product` with a matrix times X/Xn, Y/Yn and Z/Zn."""
    cdef double f = (lightness + 16.0) / 116.0
    cdef double x = invert_lab_f(f + a / 500.0), y = invert_lab_f(f), z = invert_lab_f(f - b / 200.0)
    cdef int i
    for i in range(3):
        product[i] = y + matrix[i][0] * (x - y) + matrix[i][1] * (z - y)


cdef inline bint find_in_srgb(const Lab* lab, double* rgb) noexcept nogil:
    """Fills `rgb` with the channels of a colour, from 0 to 255; returns whether they are in that range.

    Used only to find its cell, so differences between the C libraries' `pow` change no answer.
    """
    cdef int i
    multiply_lab(lab.lightness, lab.a, lab.b, LINEAR_RGB_OF_XYZ, rgb)
    for i in range(3):
        if not 0.0 <= rgb[i] <= 1.0:
            return False
    for i in range(3):
        rgb[i] = 255.0 * (12.92 * rgb[i] if rgb[i] <= 0.04045 / 12.92 else 1.055 * pow(rgb[i], 1.0 / 2.4) - 0.055)
    return True


def read_lab(values, white):
    """Returns L*a*b* under D65 as C-contiguous float64 (..., 3). See `Palette.nearest_batch`."""
    if white not in ("D65", "D50"):
        raise ValueError(f'white must be "D65" or "D50", not {white!r}')
    array = as_array(values, "lab")
    check_numbers(array, "lab")
    check_shape(array, "lab")
    array = order_channels(array, values, LAB_LABELS)
    if array.dtype.kind == "u":
        raise ValueError(
            f"lab is of type {array.dtype}, which has no negative numbers: decode it first, as L* = 100 / 255 * L, "
            "a* = a - 128 and b* = b - 128 for 8-bit OpenCV"
        )
    rows = np.array(array, dtype=np.float64, order="C")  # a copy: another thread may change theirs after the check
    outside = ~(np.abs(rows) <= GREATEST_LAB)  # or NaN
    if outside.any():
        position = np.unravel_index(outside.argmax(), rows.shape)
        raise ValueError(
            f"lab[{', '.join(map(str, position))}] is {array[position]:g}, "
            f"not a number from -{GREATEST_LAB:g} to {GREATEST_LAB:g}"
        )
    return rows if white == "D65" else adapt_to_d65(rows.reshape(-1, 3)).reshape(rows.shape)


cdef adapt_to_d65(const double[:, ::1] rows):
    result = np.empty((rows.shape[0], 3))
    cdef double[:, ::1] out = result
    cdef double[3] xyz
    cdef Py_ssize_t i, j
    with nogil:
        for i in range(rows.shape[0]):
            multiply_lab(rows[i, 0], rows[i, 1], rows[i, 2], D65_OF_D50, xyz)
            for j in range(3):
                xyz[j] = lab_f(xyz[j])
            out[i, 0] = 116.0 * xyz[1] - 16.0
            out[i, 1] = 500.0 * (xyz[0] - xyz[1])
            out[i, 2] = 200.0 * (xyz[1] - xyz[2])
    return result
