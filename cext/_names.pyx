"""The name index: an immutable trie over folded spellings, with sets of the values they stand for.

It knows spellings, integers and sets. Its maker says what the spellings are and which value goes before
which; docs/searching.md says what it is all for.
"""

from cpython.mem cimport PyMem_Free, PyMem_Malloc
from libc.stdint cimport uint16_t, uint32_t, uint64_t
from libc.string cimport memset

from unicodedata import category, normalize

cdef extern from "Python.h":
    object PyList_GetSlice(object values, Py_ssize_t low, Py_ssize_t high)
    Py_ssize_t PyUnicode_GetLength(object text) except -1
    Py_UCS4* PyUnicode_AsUCS4(object text, Py_UCS4* buffer, Py_ssize_t size, int copy_null) except NULL
    Py_UCS4* PyUnicode_AsUCS4Copy(object text) except NULL

cdef enum:
    VALUES = 256  # the most values an index can hold
    LEVELS = 8  # the most levels
    SET = 32  # bytes of a set of values; bytes, because they have no byte order
    SHORT = 64  # code points of a query that is folded without a Python object
    TABLE = 0x10000  # the code points of almost all that is typed
    SLOW = 0xFFFF  # in the table: ask `fold`
    NOTHING = 0xFFFE  # in the table: does not count
    PAIR = 0xD800  # in the table, from here on: two letters; these numbers are surrogates, never letters themselves
    PAIRS = 0x400
    NONE = 0  # no node: the root is nobody's child
    CORRECTABLE = 4  # letters of the shortest query in which a typing error is looked for


cdef object EVERY_VALUE = int.from_bytes(b"\xff" * SET, "little")


cdef inline bint is_han(Py_UCS4 letter) noexcept nogil:
    return 0x4E00 <= letter <= 0x9FFF or 0x3400 <= letter <= 0x4DBF or letter >= 0x20000


def _unfolded(str text):
    """Spell `text` letter by letter: a space for what separates words, nothing for what does not count."""
    spelt = normalize("NFKD", normalize("NFKD", text).casefold())
    return "".join(
        [c if c.isalnum() else " " for c in spelt if category(c) not in ("Mn", "Me", "Cf")]
    )


def fold(text):
    """Return `text` as words of plain letters with one space between: no case, width, accents or punctuation.

    A change between Chinese characters and other letters separates words too.
    """
    cdef list letters = []
    cdef Py_UCS4 letter, last = 0
    for letter in _unfolded(text):
        if letter != u" " and last and last != u" " and is_han(letter) != is_han(last):
            letters.append(" ")
        letters.append(letter)
        last = letter
    return " ".join("".join(letters).split())


# PERF: folding is context-free, so almost every query is folded by looking each code point up.
cdef uint16_t folded_letters[TABLE]
cdef Py_UCS4 folded_pairs[PAIRS][2]


def _fill_table():
    cdef Py_ssize_t code, pairs = 0
    for code in range(TABLE):
        folded_letters[code] = code if 0x4E00 <= code <= 0x9FFF else SLOW
    # Latin letters with every mark of pinyin, and loose marks; what is typed around and between Chinese characters:
    # general punctuation, that of Chinese, and wide forms; signs, numerals and ligatures.
    for code in [*range(0x370), *range(0x2000, 0x2800), *range(0x3000, 0x3020), *range(0xFB00, 0xFB07),
                 *range(0xFF00, 0xFFF0)]:
        spelt = _unfolded(chr(code))
        if not spelt:
            folded_letters[code] = NOTHING
        elif len(spelt) == 1 and ord(spelt) < NOTHING:
            folded_letters[code] = ord(spelt)
        elif len(spelt) == 2 and spelt.isascii() and spelt.isalnum() and pairs < PAIRS:
            folded_letters[code] = PAIR + pairs
            folded_pairs[pairs][0] = ord(spelt[0])
            folded_pairs[pairs][1] = ord(spelt[1])
            pairs += 1


_fill_table()


cdef Py_ssize_t fold_short(const Py_UCS4* text, Py_ssize_t length, Py_UCS4* folded) noexcept nogil:
    """Fold as `fold` does into `folded`, which has room for three times `length`; -1 if only `fold` can."""
    cdef Py_ssize_t i, n = 0
    cdef Py_UCS4 letter, second
    cdef uint32_t pair
    cdef bint gap = False
    for i in range(length):
        letter = folded_letters[text[i]] if text[i] < TABLE else SLOW
        if letter == SLOW:
            return -1
        if letter == NOTHING:
            continue
        if letter == u" ":
            gap = True
            continue
        second = 0
        if PAIR <= letter < PAIR + PAIRS:
            pair = <uint32_t> letter - PAIR
            letter, second = folded_pairs[pair][0], folded_pairs[pair][1]
        if n and (gap or is_han(letter) != is_han(folded[n - 1])):
            folded[n] = u" "
            n += 1
        gap = False
        folded[n] = letter
        n += 1
        if second:
            folded[n] = second
            n += 1
    return n


cdef class _Draft:
    """A node while the trie grows. A set is an int: bit `level * VALUES + value`."""

    cdef dict children
    cdef dict hits  # its keys, in the order of their arrival
    cdef object equal, whole, starts

    def __cinit__(self):
        self.children = {}
        self.hits = {}
        self.equal = self.whole = self.starts = 0


cdef list grown(list names, list parts):
    """Grow the trie from spellings in order of preference, so that every list of hits comes out in order."""
    cdef _Draft node, root = _Draft()
    cdef list path, drafts = [root]
    cdef list paths = []
    for form, level, value in names:
        path = laid(root, form, drafts)
        paths.append(path)
        node = path[-1]
        node.equal |= 1 << (level * VALUES + value)
        node.hits[value] = None
    for path, (_, _, value) in zip(paths, names):
        for node in path:
            node.hits[value] = None
    for form, level, value in parts:
        bit = 1 << (level * VALUES + value)
        for node in laid(root, form, drafts):
            node.starts |= bit
            node.hits[value] = None
        node.whole |= bit
    return drafts


cdef list laid(_Draft root, str form, list drafts):
    """Return the nodes below the root along `form`, made where they are missing."""
    cdef _Draft child, node = root
    cdef list path = []
    for letter in form:
        child = node.children.get(letter)
        if child is None:
            child = node.children[letter] = _Draft()
            drafts.append(child)
        node = child
        path.append(node)
    if not path:
        raise ValueError("an empty spelling")
    return path


cdef struct Node:
    uint32_t first  # its children are the nodes first … first + children - 1, by ascending letter
    uint32_t children
    uint32_t hits  # the number of the list of values, best first, that the path finds
    # Rows of sets, one set a level; each holds the sets of the levels before it too.
    uint32_t equal  # a name is the path
    uint32_t whole  # a part is the path
    uint32_t starts  # a part starts with the path
    uint64_t leads  # the bits of its children's letters


cdef inline uint64_t bit_of(uint32_t letter) noexcept nogil:
    """One of 64: different letters may share a bit."""
    return (<uint64_t> 1) << (letter & 63)


cdef class NameIndex:
    """Finds values by the spellings of their names. Immutable: any number of threads may search.

    A spelling is (folded text, level, value). A level is a kind of spelling; the lower is preferred. `names`
    are whole names, with or without spaces. `parts` are what a word of a query may be, so without spaces: the
    whole of one as any word, the beginning of one as the last word. `orders[level]` holds every value, 0 to
    n - 1, in the order preferred on that level; n is at most 256, and there are at most 8 levels.
    """

    cdef Node* nodes
    cdef Py_UCS4* letters  # letters[node] leads to it from its parent
    cdef list hits
    cdef bytes sets
    cdef const unsigned char* rows
    cdef Py_ssize_t size, levels
    cdef unsigned char orders[LEVELS * VALUES]

    def __cinit__(self, names, parts, orders):
        self.levels = len(orders)
        self.size = len(orders[0]) if orders else 0
        if not 1 <= self.levels <= LEVELS or self.size > VALUES:
            raise ValueError(f"an index holds at most {VALUES} values on 1 to {LEVELS} levels")
        places = []
        for level, order in enumerate(orders):
            if sorted(order) != list(range(self.size)):
                raise ValueError(f"order {level} does not name every value once")
            for place, value in enumerate(order):
                self.orders[level * VALUES + place] = value
            places.append({value: place for place, value in enumerate(order)})

        def rank(entry):
            return entry[1] * VALUES + places[entry[1]][entry[2]]

        self.freeze(grown(sorted(names, key=rank), sorted(parts, key=rank)))

    def __dealloc__(self):
        PyMem_Free(self.nodes)
        PyMem_Free(self.letters)

    cdef freeze(self, list drafts):
        """Lay the nodes out breadth first, so that children lie together, and share equal rows and lists."""
        cdef _Draft draft
        cdef Node* node
        cdef Py_ssize_t number, end = 1
        cdef dict rows = {}, lists = {}
        self.nodes = <Node*> PyMem_Malloc(len(drafts) * sizeof(Node))
        self.letters = <Py_UCS4*> PyMem_Malloc(len(drafts) * sizeof(Py_UCS4))
        if self.nodes == NULL or self.letters == NULL:
            raise MemoryError
        line = [drafts[0]]
        for number in range(len(drafts)):
            draft = line[number]
            node = &self.nodes[number]
            node.first = end
            node.children = len(draft.children)
            node.leads = 0
            for letter in sorted(draft.children):
                self.letters[end] = ord(letter)
                node.leads |= bit_of(self.letters[end])
                line.append(draft.children[letter])
                end += 1
            node.hits = lists.setdefault(tuple(draft.hits), len(lists))
            node.equal = rows.setdefault(draft.equal, len(rows))
            node.whole = rows.setdefault(draft.whole, len(rows))
            node.starts = rows.setdefault(draft.starts, len(rows))
        self.hits = [list(values) for values in lists]
        self.sets = b"".join([self.row(levels) for levels in rows])
        self.rows = self.sets

    cdef bytes row(self, levels):
        sets = []
        below = 0
        for level in range(self.levels):
            below |= levels >> (level * VALUES) & EVERY_VALUE
            sets.append(below.to_bytes(SET, "little"))
        return b"".join(sets)

    def search(self, q, limit):
        """Return at most `limit` values whose names match `q`, best first.

        First names that are `q`, then names that start with `q`, then values that have every word of `q` as a
        part; if there are none of these, names within one typing error. No str makes it raise; a `limit`
        below 1 is a ValueError.
        """
        cdef Py_UCS4 text[SHORT]
        cdef Py_UCS4 short_folded[3 * SHORT]
        cdef Py_UCS4* folded
        cdef Py_ssize_t n, length = PyUnicode_GetLength(q)
        if limit < 1:
            raise ValueError("limit must be at least 1")
        cdef Py_ssize_t most = self.size if limit > self.size else limit
        if length <= SHORT:
            PyUnicode_AsUCS4(q, text, SHORT, 0)
            n = fold_short(text, length, short_folded)
            if n >= 0:
                return self.find(short_folded, n, most)
        words = fold(str(q))
        folded = PyUnicode_AsUCS4Copy(words)
        try:
            return self.find(folded, PyUnicode_GetLength(words), most)
        finally:
            PyMem_Free(folded)

    cdef list find(self, Py_UCS4* text, Py_ssize_t n, Py_ssize_t most):
        """Answer the folded query; `text` is used up."""
        cdef uint32_t node = self.walk(0, text, n)
        cdef Py_ssize_t i, letters = 0
        cdef bint digits = False
        cdef list found
        for i in range(n):
            if text[i] != u" ":
                digits |= u"0" <= text[i] <= u"9"
                letters += 1
        if letters == n:
            if node != NONE:
                return PyList_GetSlice(self.hits[self.nodes[node].hits], 0, most)
        else:
            found = self.find_words(node, text, n, most)
            if found:
                return found
        # A digit is a tone, and a tone is typed on purpose.
        if digits or letters < CORRECTABLE:
            return []
        letters = 0
        for i in range(n):
            if text[i] != u" ":
                text[letters] = text[i]
                letters += 1
        return self.find_misspelt(text, letters, most)

    cdef list find_words(self, uint32_t node, const Py_UCS4* text, Py_ssize_t n, Py_ssize_t most):
        """Find names that start with `text`, which leads to `node`, then values that have all its words."""
        cdef unsigned char sets[LEVELS * SET]
        cdef const unsigned char* row
        cdef Py_ssize_t i, k, start = 0, used = self.levels * SET
        cdef uint32_t word
        memset(sets, 0xFF, used)
        for i in range(n + 1):
            if i == n or text[i] == u" ":
                word = self.walk(0, text + start, i - start)
                if word == NONE:
                    # Then no name starts with the words either: the words of a name's start are parts of it.
                    return []
                row = self.row_at(self.nodes[word].starts if i == n else self.nodes[word].whole)
                for k in range(used):
                    sets[k] &= row[k]
                start = i + 1
        found = []
        if node != NONE:
            # Spaces are spelt in names only, so all that is hit here starts with the words.
            found = PyList_GetSlice(self.hits[self.nodes[node].hits], 0, most)
        return self.listed(sets, found, most)

    cdef list find_misspelt(self, const Py_UCS4* text, Py_ssize_t n, Py_ssize_t most):
        """Find names one letter too many, too few, wrong or swapped away from `text`; with none, too."""
        # NOTE: the trie holds spellings with spaces and tone numbers too. They add nothing here, for both are
        # optional: what an error turns into one of them is as near to the spelling without.
        cdef unsigned char sets[LEVELS * SET]
        cdef uint32_t child, node = 0
        cdef uint64_t next_two = 0
        cdef Py_ssize_t i
        memset(sets, 0, self.levels * SET)
        for i in range(n + 1):
            # PERF: hardly any of the root's many children leads on with one of the next two letters of the text.
            if i + 1 < n:
                next_two = bit_of(text[i]) | bit_of(text[i + 1])
            for child in range(self.nodes[node].first, self.nodes[node].first + self.nodes[node].children):
                if i + 1 < n and not self.nodes[child].leads & next_two:
                    continue
                self.collect(sets, self.walk(child, text + i, n - i))
                if i < n:
                    self.collect(sets, self.walk(child, text + i + 1, n - i - 1))
            if i == n:
                self.collect(sets, node)
                break
            self.collect(sets, self.walk(node, text + i + 1, n - i - 1))
            if i + 1 < n:
                child = self.child(node, text[i + 1])
                if child != NONE:
                    child = self.child(child, text[i])
                if child != NONE:
                    self.collect(sets, self.walk(child, text + i + 2, n - i - 2))
            node = self.child(node, text[i])
            if node == NONE:
                break
        return self.listed(sets, [], most)

    cdef list listed(self, const unsigned char* sets, list found, Py_ssize_t most):
        """Append the values of the sets to `found`, level by level, in the level's order, up to `most`."""
        cdef unsigned char seen[SET]
        cdef unsigned char fresh[SET]
        cdef unsigned char some
        cdef unsigned int value
        cdef Py_ssize_t level, k
        memset(seen, 0, SET)
        for value in found:
            seen[value >> 3] |= 1 << (value & 7)
        for level in range(self.levels):
            some = 0
            for k in range(SET):
                fresh[k] = sets[level * SET + k] & ~seen[k]
                seen[k] |= fresh[k]
                some |= fresh[k]
            if not some:
                continue
            for k in range(self.size):
                value = self.orders[level * VALUES + k]
                if fresh[value >> 3] >> (value & 7) & 1:
                    found.append(value)
                    if len(found) >= most:
                        return found[:most]
        return found[:most]

    cdef inline uint32_t child(self, uint32_t node, Py_UCS4 letter) noexcept nogil:
        cdef uint32_t low = self.nodes[node].first, high = low + self.nodes[node].children, middle
        while low < high:
            middle = (low + high) >> 1
            if self.letters[middle] < letter:
                low = middle + 1
            elif self.letters[middle] > letter:
                high = middle
            else:
                return middle
        return NONE

    cdef inline uint32_t walk(self, uint32_t node, const Py_UCS4* text, Py_ssize_t n) noexcept nogil:
        cdef Py_ssize_t i
        for i in range(n):
            node = self.child(node, text[i])
            if node == NONE:
                break
        return node

    cdef inline const unsigned char* row_at(self, uint32_t row) noexcept nogil:
        return self.rows + row * self.levels * SET

    cdef inline void collect(self, unsigned char* sets, uint32_t node) noexcept nogil:
        cdef Py_ssize_t k
        cdef const unsigned char* row
        if node != NONE:
            row = self.row_at(self.nodes[node].equal)
            for k in range(self.levels * SET):
                sets[k] |= row[k]
