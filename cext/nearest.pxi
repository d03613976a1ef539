# CIEDE2000 differences of blocks of colours, and the list of the nearest so far. _palette.pyx and _grid_builder.pyx
# include this file after srgb_to_lab.pxi. The formula is in ciede2000_kernel.h.

cdef extern from "ciede2000.h":
    enum:
        LANES
        MAX_INSTRUCTION_SETS
    ctypedef struct LabBlock:
        double lightness[LANES]
        double a[LANES]
        double b[LANES]
        double chroma[LANES]
    ctypedef void (*DeltaEFunction)(const LabBlock* one, const LabBlock* two, double* delta_e) noexcept nogil
    ctypedef struct InstructionSet:
        const char* name
        DeltaEFunction compute_delta_e
    int list_instruction_sets(InstructionSet* sets) noexcept nogil


cdef struct Match:
    double delta_e
    Py_ssize_t index


cdef InstructionSet[MAX_INSTRUCTION_SETS] INSTRUCTION_SETS  # the fastest first
cdef int instruction_set_count = list_instruction_sets(INSTRUCTION_SETS)


cdef inline Py_ssize_t count_blocks(Py_ssize_t size) noexcept nogil:
    return (size + LANES - 1) // LANES


cdef inline void set_lane(LabBlock* block, Py_ssize_t lane, const Lab* lab) noexcept nogil:
    block.lightness[lane] = lab.lightness
    block.a[lane] = lab.a
    block.b[lane] = lab.b
    block.chroma[lane] = lab.chroma


cdef inline void fill_block(LabBlock* block, const Lab* lab) noexcept nogil:
    cdef Py_ssize_t lane
    for lane in range(LANES):
        set_lane(block, lane, lab)


cdef inline double compute_lightness_term(double lightness1, double lightness2) noexcept nogil:
    """Returns |dL'| / SL, the first term of the CIEDE2000 difference."""
    cdef double centred = (lightness1 + lightness2) / 2.0 - 50.0  # (12)
    cdef double squared = centred * centred
    return fabs(lightness2 - lightness1) / (1.0 + 0.015 * squared / sqrt(20.0 + squared))  # (8) (18)


cdef inline bint precedes(double delta_e, Py_ssize_t index, const Match* other) noexcept nogil:
    return delta_e < other.delta_e or (delta_e == other.delta_e and index < other.index)


cdef inline Py_ssize_t insert_match(
    Match* best, Py_ssize_t count, Py_ssize_t k, double delta_e, Py_ssize_t index
) noexcept nogil:
    """Inserts a match in order into the `count` best so far, if it is one of the best `k`; returns the new count."""
    cdef Py_ssize_t place = count
    if count == k:
        if not precedes(delta_e, index, &best[k - 1]):
            return count
        place = k - 1
    else:
        count += 1
    while place > 0 and precedes(delta_e, index, &best[place - 1]):
        best[place] = best[place - 1]
        place -= 1
    best[place] = Match(delta_e, index)
    return count


cdef void find_nearest_candidates(
    const Lab* labs, DeltaEFunction compute_delta_e, const Lab* query, const unsigned short* candidates,
    Py_ssize_t size, Py_ssize_t k, Match* best
) noexcept nogil:
    """Fills `best` with the k nearest of `candidates`, which are `size` indices of `labs`; 1 <= k <= size.

    The nearest comes first; colours at the same difference come by index.
    """
    cdef Py_ssize_t count = 0, block, lane, lanes
    cdef double[LANES] delta_e
    cdef LabBlock queries, block_of_candidates
    fill_block(&queries, query)
    fill_block(&block_of_candidates, query)
    for block in range(count_blocks(size)):
        lanes = min(LANES, size - block * LANES)
        for lane in range(lanes):
            set_lane(&block_of_candidates, lane, &labs[candidates[lane]])
        compute_delta_e(&queries, &block_of_candidates, delta_e)
        for lane in range(lanes):
            count = insert_match(best, count, k, delta_e[lane], candidates[lane])
        candidates += lanes
