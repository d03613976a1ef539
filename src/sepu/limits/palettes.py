"""Limits of a palette in a file: one more than these, and it is not read."""

PALETTE_BYTES = 2**24
# The index of so many has 190 MB.
PALETTE_COLORS = 100_000
# Characters of the names of a colour and of all groups that it is in.
PATH_CHARACTERS = 1000
