"""Limits of a worker: how it stops, when it is replaced, and where it may listen."""

# For the requests under way when a worker has to stop.
GRACEFUL_SECONDS = 30
# At the end of a worker, for a request on a connection that has none.
FAREWELL_SECONDS = 1.0
# A worker that does not move for so long is replaced.
HEARTBEAT_SECONDS = 30
# The path of a Unix socket: sockaddr_un holds 104 bytes on macOS, 108 on Linux, with the closing NUL.
SOCKET_PATH_BYTES = 103
# Threads of a gthread worker.
THREADS = 16
