# The format of the candidate grid, which _grid_builder.pyx writes and _palette.pyx reads. The grid divides sRGB into
# cells, 32 a side. For each cell it has every colour of the palette that can be among the nearest three of any
# real-valued point in the cell.
#
# Bytes, little-endian: the header below; for each cell (red slowest, blue fastest) the number of its list, uint16; the
# length of each list, uint16; the lists, one after another, as indices of the palette in ascending order, uint16.

GRID_MAGIC = b"sepugrid"
GRID_VERSION = 1
GRID_HEADER = struct.Struct("<8sIIIII32s")  # magic, version, k, cells a side, colours, lists, SHA-256 of the palette

cdef enum:
    GRID_SIDE = 32
    GRID_CELLS = 32768
    GRID_CELL_WIDTH = 8  # in channels
    GRID_K = 3


def hash_palette(const double[:, ::1] rows):
    """Returns the SHA-256 of the palette as float64. A grid holds that of its palette."""
    return sha256(np.asarray(rows).astype("<f8").tobytes()).digest()
