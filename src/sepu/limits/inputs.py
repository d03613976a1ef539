"""Bounds of the input of a match and of a search, both ends included. css.py bounds the text of a colour."""

MAX_COLORS = 5
MAX_TOP = 3
MAX_CHANNEL = 255

MIN_QUERY = 2
MAX_QUERY = 64
MAX_LIMIT = 10

# Characters of a name up to which its case, accents and width do not matter, and similar names are suggested. A name in
# a file is cut there.
NAME_CHARACTERS = 200
