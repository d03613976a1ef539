# Reads the arrays that callers give. _palette.pyx includes this file.

cdef check_numbers(array, str name):
    if array.dtype.kind not in "uif":
        hint = "; '#C83C23' is tuple(bytes.fromhex('C83C23'))" if array.dtype.kind == "U" else ""
        raise TypeError(f"{name} must be real numbers, not {array.dtype}{hint}")


cdef const double[:, ::1] check_rows(rows, str name, low, high, str problem) except *:
    """Returns `rows` as a view; raises ValueError with `name` and `problem` for numbers beyond the three bounds."""
    cdef const double[:, ::1] view = rows
    cdef double[3] lows = low, highs = high
    cdef Py_ssize_t i, j
    for i in range(view.shape[0]):
        for j in range(3):
            if not lows[j] <= view[i, j] <= highs[j]:  # nor NaN
                raise ValueError(f"{name} row {i} {problem}")
    return view


cdef const double[:, ::1] read_rows(values, str name, limits, str problem) except *:
    """Returns `values`, shape (n, 3), as C-contiguous float64.

    Raises TypeError for other values than real numbers, ValueError for another shape and for a number whose size exceeds
    its column's of `limits`; the message has `name` and `problem`.
    """
    array = np.asarray(values)
    if array.ndim != 2 or array.shape[1] != 3:
        raise ValueError(f"{name} must have the shape (n, 3), not {array.shape}")
    check_numbers(array, name)
    rows = np.ascontiguousarray(array, dtype=np.float64)
    return check_rows(rows, name, [-limit for limit in limits], limits, problem)


def read_rgb(values, scale=None, background=None, int most_channels=3):
    """Returns sRGB colours as uint8 or float64 (..., 3), C-contiguous; floats are not checked yet.

    `scale`: the greatest value of a channel, 255 or 1. Without it floats of which none exceeds 1 raise ValueError, unless
    all are 0, because they are likely meant from 0 to 1. `background`: see `Palette.nearest_batch`; 4 as `most_channels`
    allows for alpha.
    """
    array = np.asarray(values)
    check_numbers(array, "rgb")
    channels = array.shape[array.ndim - 1] if array.ndim else 0
    if channels not in (3, most_channels):
        raise ValueError(f"rgb must have the shape (..., 3), not {array.shape}")
    if scale is None:
        scale = 255
        if array.dtype.kind == "f" and array.size and 0.0 < array.max() <= 1.0:
            raise ValueError(
                "no channel of rgb exceeds 1: pass scale=1 if 1 is the greatest value of a channel, scale=255 if not"
            )
    elif scale != 1 and scale != 255:
        raise ValueError(f"scale must be 1 or 255, not {scale}")
    if channels == 3:
        if array.dtype == np.uint8 and scale == 255:
            return np.ascontiguousarray(array)
        rows = np.ascontiguousarray(array, dtype=np.float64)
        return rows if scale == 255 else rows * 255.0
    if background is None:
        raise ValueError(
            "rgb has four channels: pass background=(r, g, b) to see it through the fourth, alpha, or only rgb[..., :3]"
        )
    behind = np.asarray(background, dtype=np.float64)
    if behind.shape != (3,) or not ((behind >= 0.0) & (behind <= 255.0)).all():
        raise ValueError("background must be three numbers from 0 to 255")
    rows = array * (255.0 / scale)
    if not ((rows >= 0.0) & (rows <= 255.0)).all():
        raise ValueError("rgb has a channel or an alpha that is not a number from 0 to 255")
    alpha = rows[..., 3:] / 255.0
    before = rows[..., :3]
    # Rounding must not make a colour brighter than both.
    return np.ascontiguousarray(np.minimum(before * alpha + behind * (1.0 - alpha), np.maximum(before, behind)))


cdef const double[:, ::1] as_rows(array) except *:
    """Returns what `read_rgb` returned as float64 (n, 3); raises ValueError for a channel that is not from 0 to 255."""
    rows = array.reshape(-1, 3).astype(np.float64, copy=False)
    return check_rows(rows, "rgb", [0.0] * 3, [255.0] * 3, "has a channel that is not a number from 0 to 255")
