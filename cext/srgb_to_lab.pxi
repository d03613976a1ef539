# sRGB to CIE L*a*b*. _palette.pyx and _index_builder.pyx include this file.
#
# Sources: IEC 61966-2-1:1999, the sRGB transfer function and primaries; CIE 15:2004, L*a*b* with the constants as exact
# rationals. The white point is D65 for the 2 degree observer.

cdef struct Lab:
    double lightness
    double a
    double b
    double chroma  # C*ab, eq. 2 of Sharma, Wu and Dalal 2005, which depends on one colour only


cdef struct LabF:  # the f of CIE 15, of X/Xn, Y/Yn and Z/Zn
    double x
    double y
    double z


# The exact shares of red and blue in X/Xn, Y/Yn and Z/Zn, derived from the primaries (0.64, 0.33), (0.30, 0.60),
# (0.15, 0.06) and the white (0.3127, 0.3290) of IEC 61966-2-1. They agree with the matrix of the standard when rounded
# to four decimals. This white has X, Z = 0.950456, 1.089058; other tables round it to 0.95047, 1.08883. Green has the
# rest, so that the shares add up to 1.
cdef double X_RED = 1013504.0 / 2335869.0
cdef double X_BLUE = 443555.0 / 2335869.0
cdef double Y_RED = 87098.0 / 409605.0
cdef double Y_BLUE = 12673.0 / 175545.0
cdef double Z_RED = 15836.0 / 892167.0
cdef double Z_BLUE = 7008169.0 / 8029503.0

cdef double EPSILON = 216.0 / 24389.0
cdef double KAPPA = 24389.0 / 27.0


cdef double power_2_4(double t) noexcept nogil:
    """Returns t to the power of 2.4, for t from 0.05 to 1, to 0.5 units in the last place.

    C libraries' pow differs in the last bits. This is t^2 times the fifth root of t^2.
    """
    cdef uint64_t bits
    cdef double square = t * t, square_rest = fma(t, t, -square)
    cdef double root, fifth, second, second_rest, fourth, fourth_rest, rest, power
    memcpy(&bits, &square, sizeof(bits))
    bits = bits // 5 + 0x3325D66666666666ULL  # divides the exponent and its bias by five; the error is 3.5 %
    memcpy(&root, &bits, sizeof(root))
    cdef int step
    for step in range(2):  # two steps of Halley's method
        fifth = root * root * root * root * root
        root *= (2.0 * fifth + 3.0 * square) / (3.0 * fifth + 2.0 * square)
    # One step of Newton's method, in twice the precision: each product with its rounding error.
    second = root * root
    second_rest = fma(root, root, -second)
    fourth = second * second
    fourth_rest = fma(second, second, -fourth) + 2.0 * second * second_rest
    fifth = fourth * root
    rest = (square - fifth) + (square_rest - fma(fourth, root, -fifth) - fourth_rest * root)
    rest /= 5.0 * fourth
    power = square * root
    return power + (fma(square, root, -power) + (square * rest + square_rest * root))


cdef double compute_linear_channel(double channel) noexcept nogil:
    """Applies the transfer function of IEC 61966-2-1: 0..255 to 0..1."""
    cdef double value = channel / 255.0
    return value / 12.92 if value <= 0.04045 else power_2_4((value + 0.055) / 1.055)


cdef double[256] LINEAR_8_BIT_CHANNELS
for _channel in range(256):
    LINEAR_8_BIT_CHANNELS[_channel] = compute_linear_channel(_channel)


cdef inline double linearize_channel(double channel) noexcept nogil:
    """Returns what `compute_linear_channel` returns; 8-bit channels, the most common, come from a table."""
    cdef int whole = <int> channel
    return LINEAR_8_BIT_CHANNELS[whole] if whole == channel else compute_linear_channel(channel)


cdef inline double cube_root(double t) noexcept nogil:
    """Returns the cube root of a t above 0, to 0.74 units in the last place.

    The cbrt of the C library differs in the last bits between processors (glibc's on 64-bit ARM: one root in five).
    """
    cdef uint64_t bits
    cdef double root, cubed
    memcpy(&bits, &t, sizeof(bits))
    bits = bits // 3 + 0x2A9F84FE36D22425ULL  # divides the exponent and its bias by three; the error is 3.5 %
    memcpy(&root, &bits, sizeof(root))
    cdef int step
    for step in range(2):  # two steps of Halley's method: the error falls to 3e-5, then to 2e-14
        cubed = root * root * root
        root *= (cubed + 2.0 * t) / (2.0 * cubed + t)
    return root - (root - t / (root * root)) / 3.0  # one step of Newton's method, which rounds less


cdef inline double lab_f(double t) noexcept nogil:
    """Returns the f of CIE 15."""
    return cube_root(t) if t > EPSILON else (KAPPA * t + 16.0) / 116.0


cdef inline Lab make_lab(double lightness, double a, double b) noexcept nogil:
    return Lab(lightness, a, b, sqrt(a * a + b * b))


cdef inline LabF convert_linear_rgb_to_lab_f(double r, double g, double b) noexcept nogil:
    # NOTE: sums start from green, so that a grey is exactly neutral. An a* or b* of 1e-15 would have a hue, and hue
    # counts.
    return LabF(
        lab_f(g + X_RED * (r - g) + X_BLUE * (b - g)),
        lab_f(g + Y_RED * (r - g) + Y_BLUE * (b - g)),
        lab_f(g + Z_RED * (r - g) + Z_BLUE * (b - g)),
    )


cdef inline Lab convert_srgb_to_lab(double red, double green, double blue) noexcept nogil:
    cdef LabF f = convert_linear_rgb_to_lab_f(
        linearize_channel(red), linearize_channel(green), linearize_channel(blue)
    )
    return make_lab(116.0 * f.y - 16.0, 500.0 * (f.x - f.y), 200.0 * (f.y - f.z))
