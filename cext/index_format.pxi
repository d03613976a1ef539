# The format of an index, which _index_builder.pyx writes and _palette.pyx reads. An index divides sRGB into cells. For
# each cell it lists every colour of a palette that can be among the nearest k of any real-valued point in the cell.
#
# Bytes, little-endian: the header below; the SHA-256 of all other bytes; `cells`, uint32; `lists`, uint16 for a palette
# of up to 65,535 colours, else uint32.
#
# The first ROOT_SIDE^3 cells are ROOT_WIDTH values wide (red slowest, blue fastest). A cell with the DIVIDED bit has
# the place of the first of its eight octants in `cells` (in the same order); one without it has that of its list in
# `lists`. A list is its length and its colours, as palette indices, ordered by a lower bound of their difference
# to any point in the cell. Each block of LANES colours ends with the bound of all later ones, rounded down, in `unit`s.

cdef enum:
    ROOT_SIDE = 16
    ROOT_CELLS = 4096
    ROOT_WIDTH = 16  # values of each channel
    MAX_DIVISIONS = 4  # down to a width of 1
    DIVIDED = 0x40000000

INDEX_MAGIC = b"sepuindx"
INDEX_VERSION = 1
# magic, version, k, difference, colours, cells, numbers in the lists, SHA-256 of the palette
INDEX_HEADER = struct.Struct("<8sII16sIQQ32s")


def hash_parts(*parts):
    """Returns the SHA-256 of the parts, one after another."""
    digest = sha256()
    for part in parts:
        digest.update(part)
    return digest.digest()


cdef double list_unit(int difference) noexcept:
    """Returns the unit of the bounds in a list. 65,535 of them exceed most differences; larger bounds become 65,535."""
    return 1.0 / 32768.0 if difference == OKLAB else 1.0 / 128.0


def list_type(Py_ssize_t size):
    """Returns the numpy dtype of the numbers in the lists of a palette of `size` colours."""
    return "<u2" if size <= 65535 else "<u4"
