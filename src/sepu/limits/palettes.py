"""Limits of a palette in a file; one beyond them is not read."""

BYTES = 2**24
# The index of this many takes 190 MB.
COLORS = 100_000
