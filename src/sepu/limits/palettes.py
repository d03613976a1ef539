"""Limits of a palette in a file; one beyond them is not read."""

BYTES = 2**24
# The index of this many takes 190 MB.
COLORS = 100_000
# Objects and lists in a JSON file: a design token is three of them. Each takes up to 20 us and some 200 bytes.
OBJECTS = 320_000
# Commas in a JSON file. Each separates values of some 50 bytes.
VALUES = 1_000_000
# Characters of the names of a colour and its groups, joined by dots.
PATH_CHARACTERS = 500
# Characters of a line in a table.
TABLE_LINE_CHARACTERS = 2**17
