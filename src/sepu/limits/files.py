"""Limits of files that commands read, except palettes and pictures."""

# A name in a file system.
NAME_BYTES = 255
# A file with a key, a receipt or a secret; each is far smaller.
KEY_BYTES = 64 * 1024
# A JWK or a receipt.
RECEIPT_BYTES = 16 * 1024
# A line of the request log: longer ones are cut, and one of NO_LOG_LINE_BYTES is not from a log.
LOG_LINE_BYTES = 64 * 1024
NO_LOG_LINE_BYTES = 2**24

# A line of standard input with a colour, and maybe a comment.
COLOR_LINE_CHARACTERS = 1000
# A line of CSV with a colour in one of its columns.
CSV_LINE_CHARACTERS = 2**20
# An error's message, which quotes the input; a longer one loses its middle.
MESSAGE_CHARACTERS = 1200
# A list of accounts: some 100,000 of them.
ACCOUNTS_CHARACTERS = 2**24
# A line of `sepu export-usage`, which may list many changes.
EXPORT_LINE_CHARACTERS = 2**20
