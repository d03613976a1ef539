# sRGB to OKLab. _palette.pyx and _index_builder.pyx include this file and srgb_to_lab.pxi, in any order.
#
# Source: Ottosson, "A perceptual color space for image processing" (2020), with the matrices of 2021-01-25:
# https://bottosson.github.io/posts/oklab/

# Row i holds the shares of linear red, green and blue in l, m and s; then those of their cube roots in L, a and b.
cdef double[3][3] OKLAB_CONES = [
    [0.4122214708, 0.5363325363, 0.0514459929],
    [0.2119034982, 0.6806995451, 0.1073969566],
    [0.0883024619, 0.2817188376, 0.6299787005],
]
cdef double[3][3] OKLAB_AXES = [
    [0.2104542553, 0.7936177850, -0.0040720468],
    [1.9779984951, -2.4285922050, 0.4505937099],
    [0.0259040371, 0.7827717662, -0.8086757660],
]


cdef inline double multiply_row(const double* row, const double* column) noexcept nogil:
    return row[0] * column[0] + row[1] * column[1] + row[2] * column[2]


cdef inline double oklab_f(double t) noexcept nogil:
    return cube_root(t) if t > 0.0 else 0.0


cdef inline Lab convert_srgb_to_oklab(double red, double green, double blue) noexcept nogil:
    cdef double[3] linear, roots
    cdef int i
    linear[0], linear[1], linear[2] = linearize_channel(red), linearize_channel(green), linearize_channel(blue)
    for i in range(3):
        roots[i] = oklab_f(multiply_row(OKLAB_CONES[i], linear))
    return make_lab(
        multiply_row(OKLAB_AXES[0], roots), multiply_row(OKLAB_AXES[1], roots), multiply_row(OKLAB_AXES[2], roots)
    )
