"""Bounds of the input of a match and of a search, both ends included."""

MAX_COLORS = 5
MAX_TOP = 3
MAX_CHANNEL = 255

MIN_QUERY = 2
MAX_QUERY = 64
MAX_LIMIT = 10
