# Other ways to write a query, which NameIndex tries if nothing matches it. _names.pyx includes this file.
# Each function returns None if it finds nothing.

cdef list find_other_ways(NameIndex index, const Py_UCS4* text, Py_ssize_t n, Py_ssize_t limit):
    """Finds values by each word's beginning, words joined or divided, the singular, or other tones: the first found."""
    cdef Py_UCS4 other[2 * MAX_SHORT_QUERY]
    cdef Py_ssize_t length
    cdef list found
    if n > MAX_SHORT_QUERY:
        return None  # no name is so long, and trying each place of a space takes quadratic time
    found = find_beginnings(index, text, n, limit) or find_respaced(index, text, n, limit)
    if found:
        return found
    length = singular(index, text, n, other)
    if length < n:
        found = (
            index.find_matches(other, length, limit)
            or find_beginnings(index, other, length, limit)
            or find_respaced(index, other, length, limit)
        )
    return found or find_other_tones(index, text, n, other, limit)


cdef list find_beginnings(NameIndex index, const Py_UCS4* text, Py_ssize_t n, Py_ssize_t limit):
    """Finds values of which each word begins a part."""
    cdef unsigned char sets[MAX_LEVELS * SET_SIZE]
    cdef Py_ssize_t i
    for i in range(n):
        if text[i] == u" ":
            return index.append_ranked(sets, [], limit) or None if index.intersect(sets, text, n, True) else None
    return None  # what a single word begins is a match


cdef list find_respaced(NameIndex index, const Py_UCS4* text, Py_ssize_t n, Py_ssize_t limit):
    """Finds values by `text` without one of its spaces, or with one more between two parts."""
    cdef unsigned char sets[MAX_LEVELS * SET_SIZE]
    cdef unsigned char found[MAX_LEVELS * SET_SIZE]
    cdef Py_UCS4 other[MAX_SHORT_QUERY + 1]
    cdef Py_ssize_t i, k, end, least, start = 0, used = index.levels * SET_SIZE
    cdef uint32_t node = 0
    cdef bint some = False
    memset(found, 0, used)
    for i in range(n):
        if text[i] == u" ":
            if node != NO_NODE:
                memcpy(other, text, i * sizeof(Py_UCS4))
                memcpy(other + i, text + i + 1, (n - i - 1) * sizeof(Py_UCS4))
                if index.intersect(sets, other, n - 1, False):
                    some = True
                    for k in range(used):
                        found[k] |= sets[k]
            start, node = i + 1, 0
            continue
        if i > start and node == NO_NODE:
            continue  # what comes before in this word is not the beginning of a part
        least = least_piece(text[i])
        if i - start >= least and index.nodes[node].whole != index.nodes[0].whole:
            end = i
            while end < n and text[end] != u" ":
                end += 1
            if end - i >= least and index.is_part(text + i, end - i):
                memcpy(other, text, i * sizeof(Py_UCS4))
                other[i] = u" "
                memcpy(other + i + 1, text + i, (n - i) * sizeof(Py_UCS4))
                if index.intersect(sets, other, n + 1, False):
                    some = True
                    for k in range(used):
                        found[k] |= sets[k]
        node = index.find_child(node, text[i])
    return index.append_ranked(found, [], limit) or None if some else None


cdef Py_ssize_t singular(NameIndex index, const Py_UCS4* text, Py_ssize_t n, Py_UCS4* other) noexcept nogil:
    """Writes `text` with its English plurals in the singular; returns the length, which is `n` if there are none."""
    cdef Py_ssize_t i, start = 0, length = 0
    for i in range(n + 1):
        if i == n or text[i] == u" ":
            if start:
                other[length] = u" "
                length += 1
            memcpy(other + length, text + start, (i - start) * sizeof(Py_UCS4))
            length += singular_length(index, other + length, i - start)
            start = i + 1
    return length


cdef Py_ssize_t singular_length(NameIndex index, Py_UCS4* word, Py_ssize_t n) noexcept nogil:
    """Puts a word that is not a part into the singular; returns its length.

    Of the ways to do so, takes the first that is an English part: without s, without es, with y for ies. If none is,
    drops the s, unless that leaves a part in another language: the words may still be joined.
    """
    if n < 4 or word[n - 1] != u"s" or index.is_part(word, n):
        return n
    if index.is_english(word, n - 1):
        return n - 1
    if word[n - 2] == u"e":
        if index.is_english(word, n - 2):
            return n - 2
        if word[n - 3] == u"i":
            word[n - 3] = u"y"
            if index.is_english(word, n - 2):
                return n - 2
            word[n - 3] = u"i"
    return n if index.is_part(word, n - 1) else n - 1


cdef list find_other_tones(
    NameIndex index, const Py_UCS4* text, Py_ssize_t n, Py_UCS4* toneless, Py_ssize_t limit
):
    """Finds values by their pinyin without the tone numbers; first those that differ by a neutral tone only."""
    cdef Py_ssize_t i, rest, length = 0, end = n
    cdef Py_ssize_t places[MAX_SHORT_QUERY]  # in `text`, after each letter of `toneless` and its number
    cdef list found
    for i in range(n):
        if i and u"0" <= text[i] <= u"5" and u"a" <= text[i - 1] <= u"z":
            places[length - 1] = i + 1
        else:
            toneless[length] = text[i]
            places[length] = i + 1
            length += 1
    if length == n:
        return None
    found = index.find_matches(toneless, length, index.size)
    if found is None:
        rest = index.end_before_colour(toneless, length)
        if rest:
            found = index.find_matches(toneless, rest, index.size)
            end = places[rest - 1]
    return None if found is None else index.rank_by_tones(found, text, end, NULL, OTHER_TONES, limit) or None
