# Numbers as text, and the nearest colours of a palette as text. Included by _palette.pyx; docs/matching.md says why the
# decimals are right.

cdef enum:
    LONGEST = 24  # bytes of any number here: 2.2250738585072014e-308 has 23

cdef double MOST_DECIMAL = 1e5  # its ten-thousandths fit an unsigned int


cdef char* put_whole(char* at, unsigned int number) noexcept nogil:
    if number >= 10:
        at = put_whole(at, number // 10)
    at[0] = c"0" + number % 10
    return at + 1


cdef inline unsigned int ten_thousandths(double value) noexcept nogil:
    """The number of them that is nearest to the exact value, of two the even one; for 0 to MOST_DECIMAL."""
    cdef unsigned int below = <unsigned int> (value * 10000.0)
    cdef double beyond_half = fma(value, 10000.0, -(below + 0.5))  # rounded once, so its sign is exact
    return below + 1 if beyond_half > 0.0 or (beyond_half == 0.0 and below & 1) else below


cdef char* put_ten_thousandths(char* at, unsigned int number) noexcept nogil:
    """As a decimal without trailing zeros, but with a digit behind the point."""
    cdef unsigned int rest = number % 10000
    cdef int digits = 4, place
    while digits > 1 and rest % 10 == 0:
        rest //= 10
        digits -= 1
    at = put_whole(at, number // 10000)
    at[0] = c"."
    for place in range(digits, 0, -1):
        at[place] = c"0" + rest % 10
        rest //= 10
    return at + 1 + digits


cdef inline char* put_decimal(char* at, double value) noexcept nogil:
    """As `repr(round(value, 4))`."""
    return put_ten_thousandths(at, ten_thousandths(value))


cdef char* put_channel(char* at, channel, double value) except NULL:
    """An int as its digits, any other number as `repr` of a float; `value` is the same number."""
    cdef unsigned int number
    if isinstance(channel, int):
        return put_whole(at, <unsigned int> value)
    # PERF: the double nearest to a short decimal is written as that decimal. 0.0 is not taken for -0.0.
    number = ten_thousandths(value)
    if number and number / 10000.0 == value:
        return put_ten_thousandths(at, number)
    cdef bytes text = repr(value).encode()
    memcpy(at, <const char*> text, len(text))
    return at + len(text)


def decimal(double value):
    """`repr(round(value, 4))` as bytes, for 0 to 100,000; ValueError for other values; for tests."""
    if not 0.0 <= value <= MOST_DECIMAL:
        raise ValueError(f"value must be from 0 to {MOST_DECIMAL:.0f}, not {value}")
    cdef char[LONGEST] text
    return text[:put_decimal(text, value) - text]


cdef struct Text:
    char* start
    Py_ssize_t size


cdef inline char* put_text(char* at, const Text* text) noexcept nogil:
    memcpy(at, text.start, text.size)
    return at + text.size


cdef inline char* put_comma(char* at) noexcept nogil:
    at[0] = c","
    return at + 1


@cython.final
cdef class NearestWriter:
    """Writes the nearest colours of a palette in a form of the caller's. Like the palette it never changes.

    `colours`: a text for each colour of the palette. In a form each % is the place of something: in `answer` of the
    results; in `result`, one for each colour that is asked for, of r, g, b and the matches; in `match` of the colour's
    text, the difference and the similarity, both to four decimals. Results, and matches, have commas between them.
    ValueError for forms with other places and for another number of texts.
    """

    cdef Palette palette
    cdef list kept  # the bytes that the texts point into
    cdef Text* colours
    cdef Text[4] match
    cdef Text[5] result
    cdef Text[2] answer
    cdef Py_ssize_t match_room, result_room, answer_room  # the most bytes of one, less what its last place holds

    def __cinit__(self, Palette palette not None, colours, *, bytes match not None, bytes result not None,
                  bytes answer not None):
        self.palette = palette
        self.kept = []
        self.colours = <Text*> malloc(palette.size * sizeof(Text))
        if self.colours == NULL:
            raise MemoryError
        self.take(self.colours, palette.size, colours)
        self.take(self.match, 4, match.split(b"%"))
        self.take(self.result, 5, result.split(b"%"))
        self.take(self.answer, 2, answer.split(b"%"))
        longest = max([len(text) for text in self.kept[:palette.size]])
        self.match_room = len(match) + longest + 2 * LONGEST + 1
        self.result_room = len(result) + 3 * LONGEST + 1
        self.answer_room = len(answer)

    def __dealloc__(self):
        free(self.colours)

    cdef int take(self, Text* texts, Py_ssize_t count, given) except -1:
        cdef Py_ssize_t i
        cdef bytes text
        given = list(given)
        if len(given) != count:
            raise ValueError(f"there must be {count} texts, not {len(given)}")
        for i in range(count):
            text = given[i]
            texts[i].start = text
            texts[i].size = len(text)
        self.kept += given
        return 0

    cdef inline char* put_match(self, char* at, const Match* found) noexcept nogil:
        at = put_text(put_text(at, &self.match[0]), &self.colours[found.index])
        at = put_decimal(put_text(at, &self.match[1]), found.distance)
        at = put_decimal(put_text(at, &self.match[2]), max(0.0, 1.0 - found.distance / 100.0))
        return put_text(at, &self.match[3])

    def write(self, colours, Py_ssize_t k):
        """The answer for sRGB colours, each with the `k` nearest of the palette, as `Palette.nearest` has them.

        r, g and b are written as Python writes them, an int as an int. Raises what `nearest` raises.
        """
        self.palette.check_k(k)
        cdef tuple asked = tuple(colours)
        cdef Py_ssize_t i, j, count = len(asked)
        cdef double r, g, b
        cdef Match* best = <Match*> malloc(k * sizeof(Match))
        cdef char* text = <char*> malloc(self.answer_room + count * (self.result_room + k * self.match_room))
        cdef char* at = text
        try:
            if best == NULL or text == NULL:
                raise MemoryError
            at = put_text(at, &self.answer[0])
            for i in range(count):
                if i:
                    at = put_comma(at)
                red, green, blue = asked[i]
                r, g, b = red, green, blue
                check_channels(r, g, b)
                self.palette.find(r, g, b, k, best)
                at = put_channel(put_text(at, &self.result[0]), red, r)
                at = put_channel(put_text(at, &self.result[1]), green, g)
                at = put_channel(put_text(at, &self.result[2]), blue, b)
                at = put_text(at, &self.result[3])
                for j in range(k):
                    if j:
                        at = put_comma(at)
                    at = self.put_match(at, &best[j])
                at = put_text(at, &self.result[4])
            at = put_text(at, &self.answer[1])
            return text[:at - text]
        finally:
            free(best)
            free(text)
