"""Limits of a picture: one more than these, and it is not read."""

# Of its first frame. No camera with a 35 mm sensor has more; decoded, they take up to 1.4 GB.
PIXELS = 2**26
# Four channels of as many pixels, uncompressed.
BYTES = 4 * PIXELS
# In which Pillow must have found the size: some five for each part. It adds up parts in time that grows by the square.
HEADER_READS = 10_000
# Of a tag of a TIFF, such as where its strips begin: Pillow takes some 700 bytes for each strip.
TIFF_NUMBERS = 2**18
# Of a JPEG, each of which goes over all pixels. A progressive one has ten.
JPEG_SCANS = 100
