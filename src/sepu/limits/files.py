"""Limits of what commands read, besides palettes and pictures."""

# Of a name in a file system.
NAME_BYTES = 255
# What a command reads of a file with a key, a receipt or a secret, each of which is far smaller.
KEY_BYTES = 64 * 1024
# A JWK or a receipt.
RECEIPT_BYTES = 16 * 1024
# A line of the request log: a longer one is cut, and one of so many bytes is not of a log.
LOG_LINE_BYTES = 64 * 1024
NO_LOG_LINE_BYTES = 2**24

# A line of standard input that has a colour, and perhaps a comment.
COLOR_LINE_CHARACTERS = 1000
# Of an error's message, which repeats what was given: what is longer loses its middle.
MESSAGE_CHARACTERS = 1200
