# The formula of the interface's `similarity`; docs/explained.md says what it means. match_writer.pxi writes it.

cdef inline double compute_similarity(double delta_e) noexcept nogil:
    """Returns the similarity, from 0 to 1, of two colours with this CIEDE2000 difference."""
    return max(0.0, 1.0 - delta_e / 100.0)
