"""Limits of a palette in a file; one beyond them is not read."""

# The index of this many takes 190 MB.
COLORS = 100_000
