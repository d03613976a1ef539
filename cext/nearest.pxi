# Differences of blocks of colours, and the list of the nearest so far. _palette.pyx and _index_builder.pyx include this
# file and srgb_to_lab.pxi, in any order. The formulas are in the headers that kernels.h names.

cdef extern from "instruction_sets.h":
    enum:
        LANES
        MAX_INSTRUCTION_SETS
    enum:
        CIEDE2000
        OKLAB
        DIFFERENCES
    ctypedef struct LabBlock:
        double lightness[LANES]
        double a[LANES]
        double b[LANES]
        double chroma[LANES]
    ctypedef struct LabBox:
        double lightness_low
        double lightness_high
        double a_low
        double a_high
        double b_low
        double b_high
        double chroma_low
        double chroma_high
    ctypedef void (*DeltaEFunction)(const LabBlock* one, const LabBlock* two, double* delta_e) noexcept nogil
    ctypedef void (*BoundsFunction)(
        const LabBlock* colours, const LabBox* box, double* least, double* most
    ) noexcept nogil
    ctypedef struct DeltaE:
        const char* name
        DeltaEFunction compute
        BoundsFunction bound
    ctypedef struct InstructionSet:
        const char* name
        const DeltaE* differences
    int list_instruction_sets(InstructionSet* sets) noexcept nogil
    double clamp(double value, double low, double high) noexcept nogil
    double norm(double x, double y) noexcept nogil
    double lightness_term(double lightness1, double lightness2) noexcept nogil


cdef struct Match:
    double delta_e
    Py_ssize_t index


cdef InstructionSet[MAX_INSTRUCTION_SETS] INSTRUCTION_SETS  # the fastest first
cdef int instruction_set_count = list_instruction_sets(INSTRUCTION_SETS)

DIFFERENCE_NAMES = tuple([INSTRUCTION_SETS[0].differences[i].name.decode("ascii") for i in range(DIFFERENCES)])


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


cdef inline bint precedes(double delta_e, Py_ssize_t index, const Match* other) noexcept nogil:
    return delta_e < other.delta_e or (delta_e == other.delta_e and index < other.index)


cdef inline Py_ssize_t insert_match(
    Match* best, Py_ssize_t count, Py_ssize_t k, double delta_e, Py_ssize_t index
) noexcept nogil:
    """Inserts a match in order into the `count` best so far, if it is one of the best `k`; returns the new count."""
    cdef Py_ssize_t position = count
    if count == k:
        if not precedes(delta_e, index, &best[k - 1]):
            return count
        position = k - 1
    else:
        count += 1
    while position > 0 and precedes(delta_e, index, &best[position - 1]):
        best[position] = best[position - 1]
        position -= 1
    best[position] = Match(delta_e, index)
    return count
