# Reads callers' arrays. _palette.pyx includes this file.

cpdef as_array(values, str name):
    """Returns `values` as an array; texts as an array of objects, because one long text would widen all others;
    Decimal as float64.

    Raises ValueError for values that a numpy.ma mask hides: the array would show them.
    """
    if type(values) is ndarray:  # PERF: it has no mask
        return as_floats(values)
    masks = sys.modules.get("numpy.ma")  # PERF: numpy imports it on first use
    if masks is not None:
        parts = values if isinstance(values, (list, tuple)) else (values,)
        if any([isinstance(part, masks.MaskedArray) and masks.is_masked(part) for part in parts]):
            raise ValueError(
                f"{name} has masked values, which are not colours: leave them out, or fill them with {name}.filled(...)"
            )
    if isinstance(values, (list, tuple)) and values and isinstance(values[0], str):
        return np.array(values, dtype=object)
    return as_floats(np.asarray(values))


cdef as_floats(array):
    """Returns an array of Decimal, maybe with other numbers, as float64; any other array as it is."""
    if array.dtype.kind != "O" or not array.size or isinstance(array.flat[0], str):
        return array
    kinds = {type(value) for value in array.flat}
    if Decimal not in kinds or kinds - {Decimal, float, int}:
        return array
    numbers = [Decimal(value) for value in array.flat]
    return np.array([nan if number.is_nan() else float(number) for number in numbers]).reshape(array.shape)


cdef check_numbers(array, str name):
    if array.dtype.kind not in "uif":
        hint = ""
        if array.dtype.kind == "O" and array.size and isinstance(array.flat[0], (tuple, list)):
            hint = f"; for a column of tuples: {name}.tolist()"
        elif array.dtype.kind == "O":
            hint = "; for pandas' nullable columns: frame.dropna().to_numpy(int)"
        raise TypeError(f"{name} must be real numbers, not {array.dtype}{hint}")


cdef order_channels(array, values, channels):
    """Returns the array of `values` with its last axis in the order of `channels`, if `values` label them."""
    if type(values) is ndarray:  # PERF: it has no labels
        return array
    positions = find_positions(values, channels)
    return array if positions is None else array[..., positions]


cpdef check_shape(array, str name, most_channels=3):
    """Raises ValueError, with a hint, unless the array's last axis has three channels, or `most_channels`."""
    shape = array.shape
    if shape and shape[len(shape) - 1] in (3, most_channels):
        return
    hint = ""
    if len(shape) == 3 and shape[2] == 1:
        hint = f"; if it is grey: numpy.repeat({name}, 3, axis=-1)"
    elif len(shape) >= 2 and shape[0] in (3, 4):
        hint = f"; if its channels come first: numpy.moveaxis({name}, 0, -1)"
    elif len(shape) == 2:
        hint = f"; if it is grey: numpy.stack([{name}] * 3, axis=-1)"
    elif len(shape) == 1 and array.dtype.kind in "ui" and array.size and array.max() > 255:
        hint = f"; for numbers such as 0xC83C23: sepu.hex_to_rgb({name})"
    raise ValueError(f"{name} must have the shape (..., 3), not {shape}{hint}")


cdef const double[:, ::1] read_rows(values, str name, limits, str problem) except *:
    """Returns `values`, shape (n, 3), as C-contiguous float64.

    Raises TypeError for values that are not real numbers, ValueError for another shape and for a number whose absolute
    value exceeds its column's limit; the message has `name` and `problem`.
    """
    array = as_array(values, name)
    if array.ndim != 2 or array.shape[1] != 3:
        raise ValueError(f"{name} must have the shape (n, 3), not {array.shape}")
    check_numbers(array, name)
    array = order_channels(array, values, LAB_LABELS)
    cdef const double[:, ::1] rows = np.ascontiguousarray(array, dtype=np.float64)
    cdef double[3] most = limits
    cdef Py_ssize_t i, j
    for i in range(rows.shape[0]):
        for j in range(3):
            if not fabs(rows[i, j]) <= most[j]:  # or NaN
                raise ValueError(f"{name} row {i} {problem}")
    return rows


def read_scale(array, scale, str name):
    """Returns the greatest value that a channel of `array` may have: `scale`, 255 or 1.

    Without `scale`, uint8 and int64 are from 0 to 255. Every other type then raises ValueError: floats from 0 to 1,
    and 16-bit values that use few bits, would look like a dark picture.
    """
    if scale is None:
        if array.dtype == np.uint8 or array.dtype == np.dtype(int):
            return 255
        deep = "" if array.dtype.kind == "f" else "; divide 16 bits by 257 first"
        raise ValueError(
            f"{name} is of type {array.dtype}: pass scale=1 or scale=255, the greatest value of a channel{deep}"
        )
    if scale != 1 and scale != 255:
        raise ValueError(f"scale must be 1 or 255, not {scale}")
    return scale


def check_range(array, scale, str name):
    """Raises a ValueError that names the first number of `array` that is not from 0 to `scale`, and its position."""
    outside = ~((array >= 0) & (array <= scale))  # or NaN
    if outside.any():
        position = np.unravel_index(outside.argmax(), array.shape)
        value = array[position]
        remedy = ""
        if array.dtype.kind != "f" and value > 255:
            remedy = "; divide 16 bits by 257" if value < 2**16 else f"; for 0xC83C23: sepu.hex_to_rgb({name})"
        elif value == value:
            remedy = f"; see numpy.clip({name}, 0, {scale})"
        raise ValueError(
            f"{name}[{', '.join(map(str, position))}] is {value}, not a number from 0 to {scale}{remedy}"
        )


def read_rgb(values, scale=None, background=None, int most_channels=3):
    """Returns sRGB colours from 0 to 255 as uint8 or float64 (..., 3), C-contiguous; texts are HEX.

    `scale`: see `read_scale`. `background`: see `Palette.nearest_batch`; `most_channels=4` allows alpha. Raises
    ValueError for a channel that is not a number from 0 to `scale`.
    """
    array = as_array(values, "rgb")
    if holds_texts(array):
        return hex_to_rgb(array)
    check_numbers(array, "rgb")
    check_shape(array, "rgb", most_channels)
    array = order_channels(array, values, RGB_LABELS)
    scale = read_scale(array, scale, "rgb")
    if array.shape[array.ndim - 1] == 3:
        if array.dtype == np.uint8 and scale == 255:
            return np.ascontiguousarray(array)
        rows = np.array(array, dtype=np.float64, order="C")  # a copy: another thread may change theirs after the check
        if scale == 1:
            rows *= 255.0
        if not are_channels(rows.reshape(-1)):
            check_range(array, scale, "rgb")
        return rows
    if background is None:
        raise ValueError(
            "rgb has four channels: pass background=(r, g, b) to blend by alpha, or only rgb[..., :3]"
        )
    behind = np.asarray(in_order(background, RGB_LABELS), dtype=np.float64)
    if behind.shape != (3,) or not ((behind >= 0.0) & (behind <= 255.0)).all():
        raise ValueError("background must be three numbers from 0 to 255")
    check_range(array, scale, "rgb")
    rows = array * (255.0 / scale)
    alpha = rows[..., 3:] / 255.0
    before = rows[..., :3]
    # Rounding must not make a colour brighter than both.
    return np.ascontiguousarray(np.minimum(before * alpha + behind * (1.0 - alpha), np.maximum(before, behind)))


cdef bint are_channels(const double[::1] numbers) noexcept nogil:
    """Returns whether each number is from 0 to 255."""
    cdef Py_ssize_t i
    for i in range(numbers.shape[0]):
        if not 0.0 <= numbers[i] <= 255.0:  # or NaN
            return False
    return True


cdef const double[:, ::1] as_rows(array) except *:
    """Returns what `read_rgb` returned as float64 (n, 3)."""
    return array.reshape(-1, 3).astype(np.float64, copy=False)
