"""How much a client may take of a worker: time, bytes and connections."""

# From a request's first byte (the first request's: from the connection) to its last.
REQUEST_SECONDS = 10.0
# For a client to take its answer.
ANSWER_SECONDS = 10.0
# For a client to read a refusal and close, before the connection is torn.
LINGER_SECONDS = 2.0
# A connection without a request. A proxy's own limit should be shorter, so that it never sends into a closing one.
IDLE_SECONDS = 75

# At the end of a worker, for a request on a connection that has none.
FAREWELL_SECONDS = 1.0

# The request line and all headers.
HEAD_BYTES = 32 * 1024
# What a body in chunks may take besides the body: the largest one, a byte a chunk, takes 80 KiB.
FRAMING_BYTES = 128 * 1024

# Each worker's; with the database's and gunicorn's own they stay below 1024 open files, the usual limit.
CONNECTIONS = 900
