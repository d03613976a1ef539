# Reads arrays of HEX: texts such as '#C83C23' and 'fff', and whole numbers such as 0xC83C23. _palette.pyx includes this
# file.

from cpython.object cimport PyObject

cdef extern from "Python.h":
    PyObject* PyList_GetItem(list objects, Py_ssize_t position) except NULL  # borrowed
    bint PyUnicode_Check(PyObject* value)
    const char* PyUnicode_AsUTF8AndSize(PyObject* text, Py_ssize_t* size) except NULL


cdef enum:
    NO_DIGIT = 255
    FIXED_WIDTH = 12  # characters per text, in a copy of variable-width texts
    COPIED = 16384  # texts copied at a time

cdef unsigned char[256] DIGITS  # the value of each character
for _character in range(256):
    DIGITS[_character] = int(chr(_character), 16) if chr(_character) in "0123456789abcdefABCDEF" else NO_DIGIT


ctypedef fused Character:
    const unsigned char
    const unsigned int


cdef inline bint is_space(unsigned int character) noexcept nogil:
    return character == 32 or 9 <= character <= 13 or 28 <= character <= 31


cdef bint read_hex(Character* text, Py_ssize_t size, unsigned char* rgb) noexcept nogil:
    """Reads the HEX that `parse_color` accepts into `rgb`; returns whether it was HEX."""
    cdef Py_ssize_t i
    cdef unsigned char[6] digits
    cdef bint marked, decimal = True
    while size and is_space(text[0]):
        text += 1
        size -= 1
    while size and is_space(text[size - 1]):
        size -= 1
    marked = size > 0 and text[0] == c"#"
    text += marked
    size -= marked
    if size != 3 and size != 6:
        return False
    for i in range(size):
        digits[i] = DIGITS[text[i]] if text[i] < 256 else <unsigned char> NO_DIGIT
        if digits[i] == NO_DIGIT:
            return False
        decimal = decimal and digits[i] < 10
    if size == 3 and decimal and not marked:  # may be one of three numbers
        return False
    for i in range(3):
        rgb[i] = digits[2 * i] << 4 | digits[2 * i + 1] if size == 6 else 17 * digits[i]
    return True


cdef Py_ssize_t read_texts(
    Character* texts, Py_ssize_t count, Py_ssize_t width, unsigned char* rgb
) noexcept nogil:
    """Reads texts of this width, padded with NUL; returns the position of the first that is not HEX, or `count`."""
    cdef Py_ssize_t i, size
    for i in range(count):
        size = width
        while size and texts[i * width + size - 1] == 0:
            size -= 1
        if not read_hex(&texts[i * width], size, rgb + 3 * i):
            return i
    return count


cdef Py_ssize_t read_objects(list objects, unsigned char* rgb) except -1:
    """Like `read_texts`, for Python strings, in a list that only the caller holds."""
    cdef Py_ssize_t i, size
    cdef PyObject* value
    cdef const char* text
    for i in range(len(objects)):
        # PERF: counting references to strings that threads share would make the threads wait for each other.
        value = PyList_GetItem(objects, i)
        if not PyUnicode_Check(value):
            return i
        try:
            text = PyUnicode_AsUTF8AndSize(value, &size)
        except UnicodeEncodeError:  # a lone surrogate
            return i
        if not read_hex(<const unsigned char*> text, size, rgb + 3 * i):
            return i
    return len(objects)


cdef bint holds_texts(array):
    """Returns whether the array has a text, even among missing values, or is empty but could have one."""
    if array.dtype.kind == "O":
        return array.size == 0 or any(isinstance(value, str) for value in array.flat)
    return array.dtype.kind in "UST"


cdef Py_ssize_t read_array(array, result) except -1:
    """Like `read_texts`, for a flat array of texts."""
    cdef unsigned char[::1] rgb = result
    cdef const unsigned char[::1] narrow
    cdef const unsigned int[::1] wide
    cdef Py_ssize_t count = len(array), width = array.dtype.itemsize, done = 0, end, first
    if array.dtype.kind == "S" and width:
        narrow = ascontiguousarray(array).view(uint8)
        with nogil:
            done = read_texts(&narrow[0], count, width, &rgb[0])
    elif array.dtype.kind == "U" and width:
        wide = ascontiguousarray(array, array.dtype.newbyteorder("=")).view(uint32)
        with nogil:
            done = read_texts(&wide[0], count, width // 4, &rgb[0])
    elif array.dtype.kind == "T" and not hasattr(array.dtype, "na_object"):  # a missing text has no length
        # PERF: numpy copies its variable-width texts faster than it turns them into Python strings
        for first in range(0, count, COPIED):
            end = min(first + COPIED, count)
            is_cut = (np.strings.str_len(array[first:end]) > FIXED_WIDTH).any()
            texts = array[first:end].astype(object if is_cut else f"U{FIXED_WIDTH}")
            done += read_array(texts, result[3 * first:3 * end])
            if done < end:
                break
    else:
        done = read_objects(array.tolist(), &rgb[0])
    return done


def hex_to_rgb(values):
    """Reads HEX values of any shape: strings such as '#C83C23', 'c83c23' and '#fff', or whole numbers such as 0xC83C23.

    `values`: an array, a list, or a column of pandas, Arrow or Polars. Returns uint8 (..., 3), as `Palette.nearest_batch`
    takes it. Raises ValueError, which names the first position of anything else, and TypeError for other types.
    """
    cdef unsigned char[:, ::1] rgb
    cdef list texts
    if isinstance(values, (list, tuple)):
        texts = list(values)  # PERF: an array of objects counts references to each text three times
        if texts and isinstance(texts[0], str):
            rgb = result = empty((len(texts), 3), dtype=uint8)
            if read_objects(texts, &rgb[0, 0]) == len(texts):
                return result
    array = as_array(values, "hex")
    result = empty((*array.shape, 3), dtype=uint8)
    if array.dtype.kind in "ui":
        outside = (array < 0) | (array > 0xFFFFFF)
        if outside.any():
            refuse_hex(array, outside.argmax())
        numbers = array.astype(uint32)
        for position in range(3):
            result[..., position] = numbers >> 16 - 8 * position & 0xFF
        return result
    if array.size and not holds_texts(array):
        raise TypeError(f"HEX must be strings such as '#C83C23', or whole numbers such as 0xC83C23, not {array.dtype}")
    done = read_array(array.reshape(-1), result.reshape(-1)) if array.size else 0
    if done < array.size:
        refuse_hex(array, done)
    return result


cdef refuse_hex(array, Py_ssize_t at):
    position = np.unravel_index(at, array.shape)
    where = f"[{', '.join(map(str, position))}]" if array.ndim else ""
    value = array.reshape(-1)[at:at + 1].tolist()[0]
    if not isinstance(value, (str, bytes, int)):
        hint = "leave out missing values, as pandas' dropna() does"
    elif isinstance(value, int):
        hint = "write 0x000000 to 0xFFFFFF"
    else:
        hint = "write '#C83C23', 'C83C23' or '#fff'"
    raise ValueError(f"hex{where} is {value!r:.60}, which is not HEX: {hint}")
