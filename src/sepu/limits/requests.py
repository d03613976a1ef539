"""Limits of a request: the bytes of its parts, and how long each of its steps may take."""

# The body of a match. Five colours with fifteen digits a channel take 400 bytes.
BODY_BYTES = 16 * 1024
# Bytes of a larger body that are read and dropped, so that its connection can continue.
DISCARDED_BYTES = 64 * 1024
# The request line and all headers: as much as nginx takes by default, four buffers of 8 KiB.
HEAD_BYTES = 32 * 1024
# One line of the head. So a long q gets our 422, not the server's 414.
LINE_BYTES = 8190
HEADERS = 100
# Chunk framing around the body: five bytes for each one-byte chunk (RFC 9112, 7.1); the rest is for trailers and chunk
# extensions, which nobody reads.
FRAMING_BYTES = 5 * BODY_BYTES + HEAD_BYTES
# A Content-Length of more digits is refused unread.
LENGTH_DIGITS = 18

# From a request's first byte to its last. gthread counts a connection's first request from the connection.
REQUEST_SECONDS = 10.0
# For the application to answer. The ledger's deadlines are much shorter: only a fault of ours takes this long.
APPLICATION_SECONDS = 30.0
# For a client to take its answer.
ANSWER_SECONDS = 10.0
# For a client to read the last answer and close, before the connection is cut.
LINGER_SECONDS = 2.0
