# Folds text so that a name is found however it is typed: drops case, width, accents, tone marks and punctuation.
# Tone marks are kept apart, because they rank what is found. docs/searching.md states the rules.

from libc.stdint cimport uint16_t, uint32_t

import re
from unicodedata import category, normalize

include "spellings.pxi"

# Printed pinyin uses the script forms of two letters.
EQUIVALENTS.update({"ɡ": "g", "ɑ": "a"})

cdef str TONE_MARKS = "\u0304\u0301\u030c\u0300"  # of tones 1 to 4: macron, acute, caron, grave

# Dictionaries such as CC-CEDICT write ü like this.
U_COLON = re.compile(f"([ln][{TONE_MARKS}]*)u([{TONE_MARKS}]*):")

cdef enum:
    TABLE_SIZE = 0x10000  # the code points of almost every query
    NOT_IN_TABLE = 0xFFFF  # in the table: only `fold` can fold it
    DROPPED = 0xFFFE  # in the table: folds to nothing
    # In the table, from here on: folds to two letters, or to a letter and a tone mark, or to a tone mark only.
    # Surrogates are never letters themselves.
    FIRST_PAIR = 0xD800
    MAX_PAIRS = 0x400
    PIECE = 64  # code points that are normalized together


cdef inline bint is_han(Py_UCS4 letter) noexcept nogil:
    return 0x4E00 <= letter <= 0x9FFF or 0x3400 <= letter <= 0x4DBF or letter >= 0x20000


cdef inline int tone_of(Py_UCS4 mark) noexcept nogil:
    """Returns the tone, 1 to 4, of a tone mark; 0 for any other character."""
    return 1 if mark == 0x304 else 2 if mark == 0x301 else 3 if mark == 0x30C else 4 if mark == 0x300 else 0


def _normalize(str text):
    """Returns `text` in plain letters with tone marks; a space stands for each character that separates words."""
    # Piece by piece: `normalize` sorts a run of marks in quadratic time.
    plain = "".join([_normalize_piece(text[at : at + PIECE]) for at in range(0, len(text), PIECE)])
    if ":" in plain:
        plain = U_COLON.sub(r"\1v\2", plain)
    return "".join([c if c.isalnum() or c in TONE_MARKS else " " for c in plain])


def _normalize_piece(str text):
    spelt = normalize("NFKD", normalize("NFKD", text).casefold())
    return "".join([EQUIVALENTS.get(c, c) for c in spelt if c in TONE_MARKS or category(c) not in ("Mn", "Me", "Cf")])


cdef str fold_marked(str text):
    """Folds as `fold` does, but keeps the tone marks of Latin letters, after the letter."""
    cdef list letters = []
    cdef Py_UCS4 letter, last = 0
    for letter in _normalize(text):
        if tone_of(letter):
            if last and last != u" " and not is_han(last):
                letters.append(letter)
            continue
        if letter != u" " and last and last != u" " and is_han(letter) != is_han(last):
            letters.append(" ")
        letters.append(letter)
        last = letter
    return " ".join("".join(letters).split())


def fold(text):
    """Returns `text` as words of plain letters with one space between: no case, width, accents or punctuation.

    A change between Chinese characters and other letters also separates words.
    """
    return "".join([c for c in fold_marked(str.__str__(text)) if c not in TONE_MARKS])


# PERF: a code point folds independently of its neighbours, except the colon of `lu:`. So a table folds almost every
# query.
cdef uint16_t fold_table[TABLE_SIZE]
cdef Py_UCS4 folded_pairs[MAX_PAIRS][2]


def _fill_fold_table():
    cdef Py_ssize_t code, pairs = 0
    for code in range(TABLE_SIZE):
        fold_table[code] = code if 0x4E00 <= code <= 0x9FFF else NOT_IN_TABLE
    # Latin letters and combining marks; punctuation, signs and numerals; Chinese punctuation; ligatures; wide forms.
    for code in [*range(0x370), *range(0x2000, 0x2800), *range(0x3000, 0x3020), *range(0xFB00, 0xFB07),
                 *range(0xFF00, 0xFFF0), *(code for code in map(ord, EQUIVALENTS) if code < TABLE_SIZE)]:
        plain = _normalize_piece(chr(code))
        if not plain:
            fold_table[code] = DROPPED
        elif len(plain) == 1 and ord(plain) < DROPPED and plain not in TONE_MARKS:
            fold_table[code] = ord(plain) if plain.isalnum() else u" "
        elif pairs < MAX_PAIRS and is_pair(plain):
            fold_table[code] = FIRST_PAIR + pairs
            folded_pairs[pairs][0] = 0 if len(plain) == 1 else ord(plain[0])
            folded_pairs[pairs][1] = ord(plain[-1])
            pairs += 1


cdef bint is_pair(str plain):
    if plain[-1] in TONE_MARKS:
        return len(plain) == 1 or len(plain) == 2 and plain[0].isascii() and plain[0].isalnum()
    return len(plain) == 2 and plain.isascii() and plain.isalnum()


_fill_fold_table()


cdef inline bint ends_in_lu(const Py_UCS4* folded, Py_ssize_t n) noexcept nogil:
    """Returns whether a colon here turns the u into ü."""
    return n >= 2 and folded[n - 1] == u"u" and (folded[n - 2] == u"l" or folded[n - 2] == u"n")


cdef Py_ssize_t fold_short(
    const Py_UCS4* text, Py_ssize_t length, Py_UCS4* folded, unsigned char* tones, bint* toned
) noexcept nogil:
    """Folds as `fold` does, into `folded`, which has room for three times `length`; returns -1 if only `fold` can.

    If the text has tone marks, sets `toned`, and in `tones` the tone of each folded letter or 0.
    """
    cdef Py_ssize_t i, n = 0
    cdef Py_UCS4 letter, second
    cdef uint32_t pair
    cdef int tone
    cdef bint gap = False, han, after_han = False  # after_han: the letter before is Chinese
    for i in range(length):
        letter = fold_table[text[i]] if text[i] < TABLE_SIZE else NOT_IN_TABLE
        if letter == NOT_IN_TABLE:
            return -1
        if letter == DROPPED:
            continue
        if letter == u" ":
            if (text[i] == u":" or text[i] == u"：") and not gap and ends_in_lu(folded, n):
                folded[n - 1] = u"v"
            else:
                gap = True
            continue
        second = 0
        if FIRST_PAIR <= letter < FIRST_PAIR + MAX_PAIRS:
            pair = <uint32_t> letter - FIRST_PAIR
            letter, second = folded_pairs[pair][0], folded_pairs[pair][1]
            tone = tone_of(second)
            if tone:
                if not toned[0]:
                    memset(tones, 0, 3 * MAX_SHORT_QUERY)
                    toned[0] = True
                if not letter:
                    if n and not gap and not after_han:
                        tones[n - 1] = tone
                    continue
                # A space comes before the letter if it begins another word.
                tones[n + 1 if n and (gap or after_han) else n] = tone
                second = 0
        han = is_han(letter)
        if n and (gap or han != after_han):
            folded[n] = u" "
            n += 1
        gap, after_han = False, han
        folded[n] = letter
        n += 1
        if second:
            folded[n] = second
            n += 1
    return n
