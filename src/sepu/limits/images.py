"""Limits of an image; one beyond them is not read."""

# Pixels of its first frame. No camera with a 35 mm sensor has more; decoded, they take up to 1.4 GB.
PIXELS = 2**26
# Four channels of as many pixels, uncompressed.
BYTES = 4 * PIXELS
# Reads within which Pillow must find the size; each part takes about five. Its time grows with the square of the parts.
HEADER_READS = 10_000
# Numbers in a TIFF's tag, such as its strips' offsets: Pillow takes some 700 bytes for each strip.
TIFF_NUMBERS = 2**18
# Scans of a JPEG; each passes over all pixels. A progressive one has ten.
JPEG_SCANS = 100
