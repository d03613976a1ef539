# Writes numbers, and the nearest colours of a palette, as text. _palette.pyx includes this file;
# docs/develop/matching.md says why the decimals are right.

cdef enum:
    MAX_NUMBER_SIZE = 24  # bytes of any number here: 2.2250738585072014e-308 has 23

cdef double MAX_DECIMAL = 1e5  # its ten-thousandths fit an unsigned int


cdef inline double compute_similarity(double delta_e) noexcept nogil:
    """Returns the interface's similarity, from 0 to 1, of two colours; docs/explained.md says what it means."""
    return max(0.0, 1.0 - delta_e / 100.0)


cdef char* write_integer(char* at, unsigned int number) noexcept nogil:
    """Writes the digits at `at` and returns their end, like every writing function here."""
    if number >= 10:
        at = write_integer(at, number // 10)
    at[0] = c"0" + number % 10
    return at + 1


cdef inline unsigned int round_to_ten_thousandths(double value) noexcept nogil:
    """Returns the number of ten-thousandths nearest to the exact value, ties to even; for 0 to MAX_DECIMAL."""
    cdef unsigned int below = <unsigned int> (value * 10000.0)
    cdef double above_half = fma(value, 10000.0, -(below + 0.5))  # rounded once, so its sign is exact
    return below + 1 if above_half > 0.0 or (above_half == 0.0 and below & 1) else below


cdef char* write_ten_thousandths(char* at, unsigned int number) noexcept nogil:
    """Writes a decimal without trailing zeros, but with at least one digit after the point."""
    cdef unsigned int rest = number % 10000
    cdef int digits = 4, position
    while digits > 1 and rest % 10 == 0:
        rest //= 10
        digits -= 1
    at = write_integer(at, number // 10000)
    at[0] = c"."
    for position in range(digits, 0, -1):
        at[position] = c"0" + rest % 10
        rest //= 10
    return at + 1 + digits


cdef inline char* write_decimal(char* at, double value) noexcept nogil:
    """Writes what `repr(round(value, 4))` returns; for 0 to MAX_DECIMAL."""
    return write_ten_thousandths(at, round_to_ten_thousandths(value))


cdef char* write_channel(char* at, channel, double value) except NULL:
    """Writes an int as its digits, any other number as the `repr` of a float; `value` is the same number."""
    cdef unsigned int number
    if isinstance(channel, int):
        return write_integer(at, <unsigned int> value)
    # PERF: the `repr` of the double nearest to a short decimal is that decimal. 0.0 is left out, as it equals -0.0.
    number = round_to_ten_thousandths(value)
    if number and number / 10000.0 == value:
        return write_ten_thousandths(at, number)
    cdef bytes text = repr(value).encode()
    memcpy(at, <const char*> text, len(text))
    return at + len(text)


def format_decimal(double value):
    """Returns `repr(round(value, 4))` as bytes, for 0 to 100,000; raises ValueError for other values; for tests."""
    if not 0.0 <= value <= MAX_DECIMAL:
        raise ValueError(f"value must be from 0 to {MAX_DECIMAL:.0f}, not {value}")
    cdef char[MAX_NUMBER_SIZE] text
    return text[:write_decimal(text, value) - text]


cdef struct Text:
    char* start
    Py_ssize_t size


cdef inline char* write_text(char* at, const Text* text) noexcept nogil:
    memcpy(at, text.start, text.size)
    return at + text.size


@cython.final
cdef class MatchWriter:
    """MatchWriter(palette, colours, *, match, result, answer)\n--\n
    Writes a palette's nearest colours into templates. Like the palette, it never changes.

    `colours`: a text for each colour of the palette. Each % in a template is a placeholder. `answer` has one, for the
    results. `result`, for one query, has four: r, g, b and the matches. `match` has three: the text of the colour, the
    CIEDE2000 difference and the similarity, both to four decimals. Commas separate results, and matches. Raises
    ValueError for the wrong number of placeholders or texts.
    """

    cdef Palette palette
    cdef list owned_texts  # the bytes that the texts point into
    cdef Text* colours
    cdef Text[4] match
    cdef Text[5] result
    cdef Text[2] answer
    cdef Py_ssize_t max_match_size, max_result_size, max_answer_size  # without matches and results inside

    def __cinit__(self, Palette palette not None, colours, *, bytes match not None, bytes result not None,
                  bytes answer not None):
        self.palette = palette
        self.owned_texts = []
        self.colours = <Text*> malloc(palette.size * sizeof(Text))
        if self.colours == NULL:
            raise MemoryError
        self.store_texts(self.colours, palette.size, colours)
        self.store_texts(self.match, 4, match.split(b"%"))
        self.store_texts(self.result, 5, result.split(b"%"))
        self.store_texts(self.answer, 2, answer.split(b"%"))
        longest = max([len(text) for text in self.owned_texts[:palette.size]])
        self.max_match_size = len(match) + longest + 2 * MAX_NUMBER_SIZE + 1
        self.max_result_size = len(result) + 3 * MAX_NUMBER_SIZE + 1
        self.max_answer_size = len(answer)

    def __dealloc__(self):
        free(self.colours)

    cdef int store_texts(self, Text* texts, Py_ssize_t count, given) except -1:
        cdef Py_ssize_t i
        cdef bytes text
        given = list(given)
        if len(given) != count:
            raise ValueError(f"there must be {count} texts, not {len(given)}")
        for i in range(count):
            text = given[i]
            texts[i].start = text
            texts[i].size = len(text)
        self.owned_texts += given
        return 0

    cdef inline char* write_match(self, char* at, const Match* found) noexcept nogil:
        at = write_text(write_text(at, &self.match[0]), &self.colours[found.index])
        at = write_decimal(write_text(at, &self.match[1]), found.delta_e)
        at = write_decimal(write_text(at, &self.match[2]), compute_similarity(found.delta_e))
        return write_text(at, &self.match[3])

    def write(self, colours, Py_ssize_t k):
        """Returns the answer for sRGB colours, each with the palette's `k` nearest, as `Palette.nearest` returns them.

        Writes r, g and b as Python does, an int as an int. Raises what `nearest` raises.
        """
        self.palette.check_k(k)
        cdef tuple queries = tuple(colours)
        cdef Py_ssize_t i, j, count = len(queries)
        cdef double r, g, b
        cdef Match* best = <Match*> malloc(k * sizeof(Match))
        cdef Py_ssize_t max_result_size = self.max_result_size + k * self.max_match_size
        cdef char* text = <char*> malloc(self.max_answer_size + count * max_result_size)
        cdef char* at = text
        try:
            if best == NULL or text == NULL:
                raise MemoryError
            at = write_text(at, &self.answer[0])
            for i in range(count):
                if i:
                    at[0] = c","
                    at += 1
                red, green, blue = queries[i]
                r, g, b = red, green, blue
                check_channels(r, g, b)
                self.palette.find(r, g, b, k, best)
                at = write_channel(write_text(at, &self.result[0]), red, r)
                at = write_channel(write_text(at, &self.result[1]), green, g)
                at = write_channel(write_text(at, &self.result[2]), blue, b)
                at = write_text(at, &self.result[3])
                for j in range(k):
                    if j:
                        at[0] = c","
                        at += 1
                    at = self.write_match(at, &best[j])
                at = write_text(at, &self.result[4])
            at = write_text(at, &self.answer[1])
            return text[:at - text]
        finally:
            free(best)
            free(text)
