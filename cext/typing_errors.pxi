# Searches with one typing error: what NameIndex does if nothing matches a query. _names.pyx includes this file.

cdef list find_misspelt(NameIndex index, const Py_UCS4* text, Py_ssize_t n, Py_ssize_t limit):
    """Finds names that differ from `text` by one letter too many, too few, wrong or swapped, or by none."""
    # NOTE: the trie also holds spellings with spaces and tone numbers. They change no answer, because both are
    # optional: a text one error from such a spelling is as near to the one without.
    cdef unsigned char sets[MAX_LEVELS * SET_SIZE]
    cdef uint32_t child, node = 0
    cdef uint64_t here, following, letters
    cdef Py_ssize_t i
    memset(sets, 0, index.levels * SET_SIZE)
    for i in range(n + 1):
        # PERF: few of the root's many children have a child with one of the next two letters of the text.
        here = letter_bit(text[i]) if i < n else 0
        following = letter_bit(text[i + 1]) if i + 1 < n else 0
        for child in range(index.nodes[node].first, index.nodes[node].first + index.nodes[node].children):
            letters = index.nodes[child].child_letters
            if letters & here or i == n:
                index.add_equal_names(sets, index.descend(child, text + i, n - i))
            if letters & following or i + 1 == n:
                index.add_equal_names(sets, index.descend(child, text + i + 1, n - i - 1))
        if i == n:
            index.add_equal_names(sets, node)
            break
        index.add_equal_names(sets, index.descend(node, text + i + 1, n - i - 1))
        if i + 1 < n:
            child = index.find_child(node, text[i + 1])
            if child != NO_NODE:
                child = index.find_child(child, text[i])
            if child != NO_NODE:
                index.add_equal_names(sets, index.descend(child, text + i + 2, n - i - 2))
        node = index.find_child(node, text[i])
        if node == NO_NODE:
            break
    return index.append_ranked(sets, [], limit)
