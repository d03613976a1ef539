# cython: auto_pickle=False
"""The name index: an immutable trie of folded spellings, with the sets of values that they belong to.

It knows only spellings, integers and sets. sepu.library.names gives it the spellings, sepu.library.ranking the levels
and the orders; docs/searching.md states the rules. folding.pxi folds queries and spellings.
"""

from cpython.object cimport PyObject
from cpython.mem cimport PyMem_Free, PyMem_Malloc
from libc.stdint cimport uint32_t, uint64_t
from libc.string cimport memcpy, memset

cdef extern from "Python.h":
    object PyTuple_GetSlice(PyObject* values, Py_ssize_t low, Py_ssize_t high)
    Py_ssize_t PyUnicode_GetLength(object text) except -1
    Py_UCS4* PyUnicode_AsUCS4(object text, Py_UCS4* buffer, Py_ssize_t size, int copy_null) except NULL
    Py_UCS4* PyUnicode_AsUCS4Copy(object text) except NULL

include "folding.pxi"

cdef enum:
    MAX_VALUES = 256
    MAX_LEVELS = 8
    SET_SIZE = 32  # bytes of a set of values
    MAX_SHORT_QUERY = 64  # code points; queries up to this are folded without a Python object
    NO_NODE = 0  # the root is never a child
    MIN_CORRECTED = 4  # letters of the shortest query that is corrected (typing_errors.pxi)
    # Letters of the shortest half of a divided word, and of the beginning of a word that is not the last
    # (other_ways.pxi); a single Chinese character is enough. Fewer would hide most typing errors in pinyin.
    MIN_PIECE = 3


TONED_SYLLABLES = re.compile(r"[a-z]+[1-5][a-z]*(?: [a-z]+[1-5][a-z]*)*")

cdef object EVERY_VALUE = int.from_bytes(b"\xff" * SET_SIZE, "little")


cdef class _TrieNode:
    """A node of a trie being built. A set is an int with a bit for each `level * MAX_VALUES + value`."""

    cdef dict children
    cdef dict hits  # an ordered set: its keys
    cdef object equal, whole, starts

    def __cinit__(self):
        self.children = {}
        self.hits = {}
        self.equal = self.whole = self.starts = 0


cdef list build_trie(list names, list parts):
    """Builds the trie of spellings in order of preference, which every list of hits keeps."""
    cdef _TrieNode node, root = _TrieNode()
    cdef list along, trie = [root]
    cdef list nodes_along = []
    for form, level, value in names:
        along = add_spelling(root, form, trie)
        nodes_along.append(along)
        node = along[-1]
        node.equal |= 1 << (level * MAX_VALUES + value)
        node.hits[value] = None
    for along, (_, _, value) in zip(nodes_along, names):
        for node in along:
            node.hits[value] = None
    for form, level, value in parts:
        bit = 1 << (level * MAX_VALUES + value)
        for node in add_spelling(root, form, trie):
            node.starts |= bit
            node.hits[value] = None
        node.whole |= bit
    return trie


cdef list add_spelling(_TrieNode root, str form, list trie):
    """Adds the missing nodes of `form` to the trie; returns all its nodes below the root."""
    cdef _TrieNode child, node = root
    cdef list along = []
    for letter in form:
        child = node.children.get(letter)
        if child is None:
            child = node.children[letter] = _TrieNode()
            trie.append(child)
        node = child
        along.append(node)
    if not along:
        raise ValueError("an empty spelling")
    return along


cdef struct Node:
    uint32_t first  # its children are the nodes first … first + children - 1, by ascending letter
    uint32_t children
    uint32_t hit_count
    PyObject* hits  # a tuple of the values, best first, that the prefix of this node finds; then None: see take_hits
    # Rows of sets, a set for each level; each set includes the sets of the levels before it.
    uint32_t equal  # the prefix is a name
    uint32_t whole  # the prefix is a part
    uint32_t starts  # a part starts with the prefix
    uint64_t child_letters  # the letter_bit of each child


cdef inline uint64_t letter_bit(uint32_t letter) noexcept nogil:
    """Returns one of 64 bits. Several letters share each, but none is that of a plain letter and of another."""
    return (<uint64_t> 1) << (letter & 63 if letter < 0x80 else letter & 31)


cdef inline Py_ssize_t least_piece(Py_UCS4 first) noexcept nogil:
    return 1 if is_han(first) else MIN_PIECE


cdef struct Syllables:
    uint64_t letters  # the letter_bit of each of its letters and of the space
    const char* text  # with one space between; the index keeps its bytes
    unsigned char value


cdef bint has_words(const char* name, const Py_UCS4* text, Py_ssize_t n) noexcept nogil:
    """Returns whether each word of `text` is consecutive syllables of `name`, each in full or as its initial.

    The last word may be cut short.
    """
    cdef Py_ssize_t i, start = 0
    for i in range(n + 1):
        if i == n or text[i] == u" ":
            if not has_word(name, text + start, i - start, i == n):
                return False
            start = i + 1
    return True


cdef bint has_word(const char* name, const Py_UCS4* word, Py_ssize_t n, bint last) noexcept nogil:
    while name[0]:
        if starts_with(name, word, n, last):
            return True
        name = skip_syllable(name)
    return False


cdef const char* skip_syllable(const char* name) noexcept nogil:
    while name[0] > c" ":
        name += 1
    return name + 1 if name[0] else name


cdef bint starts_with(const char* name, const Py_UCS4* word, Py_ssize_t n, bint last) noexcept nogil:
    cdef const char* following = skip_syllable(name)
    cdef Py_ssize_t i
    if n == 0:
        return True
    for i in range(n):
        if name[i] <= c" " or <Py_UCS4> name[i] != word[i]:
            return False
        # The first letter is an initial; so are zh, ch and sh. Only in these is h the second letter.
        if i == 0 or i == 1 and name[1] == c"h" or name[i + 1] <= c" ":
            if starts_with(following, word + i + 1, n - i - 1, last):
                return True
    return last


cdef enum Fit:  # how the tones of a query fit a name
    NOT_PINYIN
    OTHER_TONES
    SAME_TONES


cdef Fit fit_tones(const char* name, const Py_UCS4* text, const unsigned char* tones, Py_ssize_t n) noexcept nogil:
    """Returns how the words of `text` that have a tone fit the syllables of `name`.

    A tone is a number in `text`, or in `tones` the tone mark of a letter. The last word may be cut short.
    """
    cdef Fit fit = SAME_TONES
    cdef Py_ssize_t i, start = 0
    cdef bint toned = False
    for i in range(n + 1):
        if i == n or text[i] == u" ":
            if toned:
                fit = min(fit, fit_word(name, text + start, tones + start if tones else NULL, i - start, i == n))
            start, toned = i + 1, False
        elif u"0" <= text[i] <= u"9" or tones and tones[i]:
            toned = True
    return fit


cdef Fit fit_word(
    const char* name, const Py_UCS4* word, const unsigned char* tones, Py_ssize_t n, bint last
) noexcept nogil:
    """Returns how the word fits consecutive syllables of `name`, where it fits best."""
    cdef Fit fit = NOT_PINYIN
    while name[0] and fit != SAME_TONES:
        if <Py_UCS4> name[0] == word[0]:
            fit = max(fit, fit_start(name, word, tones, n, last))
        name = skip_syllable(name)
    return fit


cdef Fit fit_start(
    const char* name, const Py_UCS4* word, const unsigned char* tones, Py_ssize_t n, bint last
) noexcept nogil:
    cdef Fit fit = SAME_TONES
    cdef const char* syllable = name
    cdef Py_ssize_t i
    for i in range(n):
        if u"0" <= word[i] <= u"9":
            if name == syllable:
                return NOT_PINYIN
            # 0 and 5 are the neutral tone.
            if word[i] != u"0" and word[i] != u"5" and word[i] != <Py_UCS4> get_tone(syllable):
                fit = OTHER_TONES
            continue
        if is_tone(name[0]):
            name += 1
        if name[0] == c" ":
            name += 1
            syllable = name
        if <Py_UCS4> name[0] != word[i]:  # also at the end of the name
            return NOT_PINYIN
        name += 1
        if tones and tones[i] and name[0] != c"0" + tones[i]:
            fit = OTHER_TONES
    if is_tone(name[0]):
        name += 1
    return fit if last or name[0] <= c" " else NOT_PINYIN


cdef inline bint is_tone(char letter) noexcept nogil:
    return c"0" <= letter <= c"9"


cdef inline char get_tone(const char* syllable) noexcept nogil:
    while not is_tone(syllable[0]):
        syllable += 1
    return syllable[0]


cdef class NameIndex:
    """NameIndex(names, parts, orders, syllables=(), readings=(), english=0)\n--\n
    Finds values by the spellings of their names. Immutable: any number of threads may search.

    A spelling is (folded text, level, value). A level is a kind of spelling; lower levels are preferred. `names` are
    whole names, with or without spaces. `parts` have no spaces: each word of a query matches a whole part, the last
    word also the beginning of one. `orders[level]` holds every value, 0 to n - 1, in the order preferred on that level;
    n is at most 256, and there are at most 8 levels. `syllables` are (ASCII text, value): names with one space between
    syllables, for queries that mix syllables with initials; they belong to the last level. `readings` are (ASCII text,
    value) too, with a tone number in place of each tone mark (`ta2o ho2ng`), for queries with tones. `english` is the
    level of English names, whose plurals are found; 0 for none. Raises ValueError for anything else, and TypeError for
    other types.
    """

    cdef Node* nodes
    cdef Py_UCS4* letters  # letters[node] leads to it from its parent
    cdef list hits
    cdef bytes sets
    cdef const unsigned char* rows
    cdef list texts
    cdef Syllables* syllables
    cdef Py_ssize_t syllable_count
    cdef const char** readings  # by value
    cdef uint32_t first_readings[MAX_VALUES + 1]  # for each value; it has those up to the next value's
    cdef Py_ssize_t size, levels, english
    cdef tuple source  # makes this index again
    cdef unsigned char orders[MAX_LEVELS * MAX_VALUES]

    def __cinit__(self, names, parts, orders, syllables=(), readings=(), english=0):
        names, parts, orders = tuple(names), tuple(parts), tuple(orders)
        syllables, readings = tuple(syllables), tuple(readings)
        self.source = names, parts, orders, syllables, readings, english
        self.levels = len(orders)
        self.size = len(orders[0]) if orders else 0
        if not 1 <= self.levels <= MAX_LEVELS or self.size > MAX_VALUES:
            raise ValueError(f"an index holds at most {MAX_VALUES} values on 1 to {MAX_LEVELS} levels")
        positions = []
        for level, order in enumerate(orders):
            if sorted(order) != list(range(self.size)):
                raise ValueError(f"order {level} does not name every value once")
            for position, value in enumerate(order):
                self.orders[level * MAX_VALUES + position] = value
            positions.append({value: position for position, value in enumerate(order)})

        def rank(entry):
            _, level, value = entry
            if not 0 <= level < self.levels or not 0 <= value < self.size:
                raise ValueError(f"there is no value {value} on level {level}")
            return level * MAX_VALUES + positions[level][value]

        if not 0 <= english < self.levels:
            raise ValueError(f"there is no level {english}")
        self.english = english
        self.pack_syllables([(text.encode("ascii"), value) for text, value in syllables])
        self.pack_readings(readings)
        self.pack(build_trie(sorted(names, key=rank), sorted(parts, key=rank)))

    def __dealloc__(self):
        PyMem_Free(self.nodes)
        PyMem_Free(self.letters)
        PyMem_Free(self.syllables)
        PyMem_Free(self.readings)

    def __reduce__(self):
        return NameIndex, self.source

    cdef pack_syllables(self, list syllables):
        cdef Syllables* packed
        cdef Py_ssize_t i
        self.texts = [text for text, _ in syllables]
        self.syllables = <Syllables*> PyMem_Malloc(len(syllables) * sizeof(Syllables))
        if self.syllables == NULL:
            raise MemoryError
        self.syllable_count = len(syllables)
        for i, (text, value) in enumerate(syllables):
            if not 0 <= value < self.size:
                raise ValueError(f"there is no value {value}")
            packed = &self.syllables[i]
            packed.text, packed.value, packed.letters = text, value, letter_bit(u" ")
            for letter in <bytes> text:
                packed.letters |= letter_bit(letter)

    cdef pack_readings(self, tuple readings):
        cdef list texts = [[] for _ in range(self.size)]
        cdef Py_ssize_t i = 0, of
        for text, value in readings:
            if not 0 <= value < self.size:
                raise ValueError(f"there is no value {value}")
            if not TONED_SYLLABLES.fullmatch(text):
                raise ValueError(f"{text!r} does not have a tone in each syllable")
            texts[value].append(text.encode("ascii"))
        self.readings = <const char**> PyMem_Malloc(len(readings) * sizeof(char*))
        if self.readings == NULL:
            raise MemoryError
        for of in range(self.size):
            self.first_readings[of] = i
            for text in texts[of]:
                self.texts.append(text)  # keeps its bytes
                self.readings[i] = text
                i += 1
        self.first_readings[self.size] = i

    cdef pack(self, list trie):
        """Packs the nodes breadth first, so that siblings are adjacent; equal rows and lists are stored once."""
        cdef _TrieNode unpacked
        cdef Node* node
        cdef Py_ssize_t number, end = 1
        cdef dict rows = {}, lists = {}
        self.nodes = <Node*> PyMem_Malloc(len(trie) * sizeof(Node))
        self.letters = <Py_UCS4*> PyMem_Malloc(len(trie) * sizeof(Py_UCS4))
        if self.nodes == NULL or self.letters == NULL:
            raise MemoryError
        queue = [trie[0]]
        for number in range(len(trie)):
            unpacked = queue[number]
            node = &self.nodes[number]
            node.first = end
            node.children = len(unpacked.children)
            node.child_letters = 0
            for letter in sorted(unpacked.children):
                self.letters[end] = ord(letter)
                node.child_letters |= letter_bit(self.letters[end])
                queue.append(unpacked.children[letter])
                end += 1
            values = (*unpacked.hits, None)
            values = lists.setdefault(values, values)
            node.hits, node.hit_count = <PyObject*> values, len(values) - 1
            node.equal = rows.setdefault(unpacked.equal, len(rows))
            node.whole = rows.setdefault(unpacked.whole, len(rows))
            node.starts = rows.setdefault(unpacked.starts, len(rows))
        self.hits = list(lists)
        self.sets = b"".join([self.pack_row(levels) for levels in rows])
        self.rows = self.sets

    cdef bytes pack_row(self, levels):
        sets = []
        below = 0
        for level in range(self.levels):
            below |= levels >> (level * MAX_VALUES) & EVERY_VALUE
            sets.append(below.to_bytes(SET_SIZE, "little"))
        return b"".join(sets)

    def search(self, q, limit):
        """Returns at most `limit` values whose names match `q`, best first.

        First come names that are `q`, then names that start with `q`, then values that have every word of `q` as a
        part. If nothing is found, the search tries in turn: `q` as syllables mixed with initials; the first three
        without a final 色 or se; each word as the beginning of a part; words joined or divided; English words in the
        singular; other tones; names with one typing error. If `q` has tone marks, names with these tones come first.
        Takes any str; raises ValueError for a `limit` below 1.
        """
        cdef Py_UCS4 text[MAX_SHORT_QUERY]
        cdef Py_UCS4 short_folded[3 * MAX_SHORT_QUERY]
        cdef unsigned char tones[3 * MAX_SHORT_QUERY]
        cdef bint toned = False
        cdef Py_ssize_t n, length = PyUnicode_GetLength(q)
        if limit < 1:
            raise ValueError("limit must be at least 1")
        cdef Py_ssize_t most = self.size if limit > self.size else limit
        if length <= MAX_SHORT_QUERY:
            PyUnicode_AsUCS4(q, text, MAX_SHORT_QUERY, 0)
            n = fold_short(text, length, short_folded, tones, &toned)
            if n >= 0:
                return self.find_folded(short_folded, n, tones if toned else NULL, most)
        return self.find_long(fold_marked(str.__str__(q)), most)

    cdef list find_long(self, str marked, Py_ssize_t limit):
        """Returns what `search` does for a query that only `fold_marked` can fold."""
        cdef Py_ssize_t i, n = 0, length = PyUnicode_GetLength(marked)
        cdef bint toned = False
        cdef unsigned char* tones = <unsigned char*> PyMem_Malloc(length + 1)
        cdef Py_UCS4* folded = PyUnicode_AsUCS4Copy(marked)
        try:
            if tones == NULL:
                raise MemoryError
            for i in range(length):
                if tone_of(folded[i]):
                    toned = True
                    tones[n - 1] = tone_of(folded[i])
                else:
                    folded[n] = folded[i]
                    tones[n] = 0
                    n += 1
            return self.find_folded(folded, n, tones if toned else NULL, limit)
        finally:
            PyMem_Free(tones)
            PyMem_Free(folded)

    cdef list find_folded(self, Py_UCS4* text, Py_ssize_t n, const unsigned char* tones, Py_ssize_t limit):
        """Returns what `search` does for a folded query, with its tone marks or NULL; overwrites `text`."""
        cdef list found
        if n == 0:
            return []
        found = self.find_matches(text, n, self.size if tones else limit)
        if found is None:
            return self.find_fallback(text, n, tones, limit)
        return self.rank_by_tones(found, text, n, tones, NOT_PINYIN, limit) if tones and len(found) > 1 else found

    cdef list find_fallback(self, Py_UCS4* text, Py_ssize_t n, const unsigned char* tones, Py_ssize_t limit):
        """Returns what `search` does for a folded query that matches nothing as it is; overwrites `text`."""
        # PERF: apart from find_folded, which most queries need alone.
        cdef Py_ssize_t i, rest, end = n, letters = 0, most = self.size if tones else limit
        cdef bint digits = False
        cdef list found = self.find_mixed(text, n, most)
        if found is None:
            rest = self.end_before_colour(text, n)
            if rest:
                found = self.find_matches(text, rest, most)
                if found is not None:
                    end = rest
        if found is None:
            found = find_other_ways(self, text, n, most)
        if found is not None:
            return self.rank_by_tones(found, text, end, tones, NOT_PINYIN, limit) if tones and len(found) > 1 else found
        for i in range(n):
            if text[i] != u" ":
                digits |= u"0" <= text[i] <= u"9"
                text[letters] = text[i]
                letters += 1
        # A digit is a tone number, which nobody types by mistake.
        if digits or letters < MIN_CORRECTED:
            return []
        return find_misspelt(self, text, letters, limit)

    cdef list rank_by_tones(
        self, list found, const Py_UCS4* text, Py_ssize_t n, const unsigned char* tones, Fit least, Py_ssize_t limit
    ):
        """Returns at most `limit` values whose tones fit `text` at least so well, those with the same tones first."""
        cdef list same = [], others = []
        cdef Py_ssize_t value
        cdef uint32_t i
        cdef Fit fit
        for value in found:
            fit = NOT_PINYIN
            for i in range(self.first_readings[value], self.first_readings[value + 1]):
                fit = max(fit, fit_tones(self.readings[i], text, tones, n))
            if fit == SAME_TONES:
                same.append(value)
                if len(same) == limit:
                    return same
            elif fit >= least and len(others) < limit:
                others.append(value)
        return (same + others)[:limit]

    cdef list find_matches(self, const Py_UCS4* text, Py_ssize_t n, Py_ssize_t limit):
        """Finds what matches all of `text` without a typing error; returns None if nothing does."""
        cdef uint32_t node = self.descend(0, text, n)
        cdef Py_ssize_t i
        for i in range(n):
            if text[i] == u" ":
                return self.find_words(node, text, n, limit)
        return self.take_hits(node, limit) if node != NO_NODE else None

    cdef list find_mixed(self, const Py_UCS4* text, Py_ssize_t n, Py_ssize_t limit):
        """Finds values whose syllables, in full or as initials, form each word of `text`; returns None for none."""
        cdef unsigned char sets[MAX_LEVELS * SET_SIZE]
        cdef unsigned char* last = sets + (self.levels - 1) * SET_SIZE
        cdef const Syllables* names = self.syllables
        cdef uint64_t needed = 0
        cdef bint found = False
        cdef Py_ssize_t i
        for i in range(n):
            if text[i] > u"z" or u"0" <= text[i] <= u"9":
                return None  # syllables are plain letters
            needed |= letter_bit(text[i])
        memset(sets, 0, self.levels * SET_SIZE)
        for i in range(self.syllable_count):
            if not needed & ~names[i].letters and has_words(names[i].text, text, n):
                last[names[i].value >> 3] |= 1 << (names[i].value & 7)
                found = True
        return self.append_ranked(sets, [], limit) if found else None

    cdef Py_ssize_t end_before_colour(self, const Py_UCS4* text, Py_ssize_t n) noexcept:
        """Returns where `text` ends without a final 色 or se (colour); 0 unless its last word is then a whole part."""
        cdef Py_ssize_t start, end = n
        if n > 1 and text[n - 1] == u"色":
            end = n - 1
        elif n > 2 and text[n - 2] == u"s" and text[n - 1] == u"e":
            end = n - 2
        else:
            return 0
        if text[end - 1] == u" ":
            end -= 1
        start = end
        while start and text[start - 1] != u" ":
            start -= 1
        # Otherwise every English word in -se would be cut.
        return end if self.is_part(text + start, end - start) else 0

    cdef list take_hits(self, uint32_t node, Py_ssize_t limit):
        # PERF: without a GIL, threads would wait for a list's lock or a shared tuple's reference count. A slice of less
        # than the whole tuple is a new one.
        return list(PyTuple_GetSlice(self.nodes[node].hits, 0, min(limit, <Py_ssize_t> self.nodes[node].hit_count)))

    cdef list find_words(self, uint32_t node, const Py_UCS4* text, Py_ssize_t n, Py_ssize_t limit):
        """Finds names that start with `text`, the prefix of `node`, then values that have all its words."""
        cdef unsigned char sets[MAX_LEVELS * SET_SIZE]
        if not self.intersect(sets, text, n, False):
            # Then no name starts with `text` either: the words at the start of a name are parts of it.
            return None
        # Only names have spaces, so all hits of a text with spaces are names that start with it.
        found = self.take_hits(node, limit) if node != NO_NODE else []
        return self.append_ranked(sets, found, limit) or None

    cdef inline bint intersect(self, unsigned char* sets, const Py_UCS4* text, Py_ssize_t n, bint begun) noexcept nogil:
        """Sets `sets` to the values that have each word as a part, the last word as its beginning.

        `begun`: all words of at least MIN_PIECE letters as beginnings. Returns False if no name has one of the words.
        """
        cdef const unsigned char* row
        cdef Py_ssize_t i, k, start = 0, used = self.levels * SET_SIZE
        cdef uint32_t word
        cdef bint cut
        for i in range(n + 1):
            if i == n or text[i] == u" ":
                word = self.descend(0, text + start, i - start)
                if word == NO_NODE:
                    return False
                cut = i == n or begun and i - start >= least_piece(text[start])
                row = self.get_row(self.nodes[word].starts if cut else self.nodes[word].whole)
                if start == 0:
                    memcpy(sets, row, used)
                else:
                    for k in range(used):
                        sets[k] &= row[k]
                start = i + 1
        return True

    cdef inline bint is_part(self, const Py_UCS4* word, Py_ssize_t n) noexcept nogil:
        cdef uint32_t node = self.descend(0, word, n)
        return node != NO_NODE and self.nodes[node].whole != self.nodes[0].whole

    cdef bint is_english(self, const Py_UCS4* word, Py_ssize_t n) noexcept nogil:
        """Returns whether the word is a part on the level of English, and on none before it."""
        cdef uint32_t node = self.descend(0, word, n)
        cdef Py_ssize_t k
        cdef unsigned char before = 0, here = 0
        if node == NO_NODE or self.english == 0:
            return False
        for k in range(SET_SIZE):
            before |= self.get_row(self.nodes[node].whole)[(self.english - 1) * SET_SIZE + k]
            here |= self.get_row(self.nodes[node].whole)[self.english * SET_SIZE + k]
        return here and not before

    cdef list append_ranked(self, const unsigned char* sets, list found, Py_ssize_t limit):
        """Appends the values of the sets to `found`, level by level, in the order of each level, up to `limit`."""
        cdef unsigned char seen[SET_SIZE]
        cdef unsigned char fresh[SET_SIZE]
        cdef unsigned char some
        cdef unsigned int value
        cdef Py_ssize_t level, k, left
        memset(seen, 0, SET_SIZE)
        for value in found:
            seen[value >> 3] |= 1 << (value & 7)
        for level in range(self.levels):
            some = 0
            for k in range(SET_SIZE):
                fresh[k] = sets[level * SET_SIZE + k] & ~seen[k]
                seen[k] |= fresh[k]
                some |= fresh[k]
            if not some:
                continue
            left = 0
            for k in range(SET_SIZE):
                some = fresh[k]
                while some:
                    some &= some - 1
                    left += 1
            k = 0
            while left:
                value = self.orders[level * MAX_VALUES + k]
                k += 1
                if fresh[value >> 3] >> (value & 7) & 1:
                    found.append(value)
                    left -= 1
                    if len(found) >= limit:
                        return found[:limit]
        return found[:limit]

    cdef inline uint32_t find_child(self, uint32_t node, Py_UCS4 letter) noexcept nogil:
        cdef uint32_t low = self.nodes[node].first, high = low + self.nodes[node].children, middle
        while low < high:
            middle = (low + high) >> 1
            if self.letters[middle] < letter:
                low = middle + 1
            elif self.letters[middle] > letter:
                high = middle
            else:
                return middle
        return NO_NODE

    cdef inline uint32_t descend(self, uint32_t node, const Py_UCS4* text, Py_ssize_t n) noexcept nogil:
        cdef Py_ssize_t i
        for i in range(n):
            node = self.find_child(node, text[i])
            if node == NO_NODE:
                break
        return node

    cdef inline const unsigned char* get_row(self, uint32_t row) noexcept nogil:
        return self.rows + row * self.levels * SET_SIZE

    cdef inline void add_equal_names(self, unsigned char* sets, uint32_t node) noexcept nogil:
        cdef Py_ssize_t k
        cdef const unsigned char* row
        if node != NO_NODE:
            row = self.get_row(self.nodes[node].equal)
            for k in range(self.levels * SET_SIZE):
                sets[k] |= row[k]


include "other_ways.pxi"
include "typing_errors.pxi"
