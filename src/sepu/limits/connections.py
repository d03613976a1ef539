"""Limits of a worker's connections, and of the worker itself."""

# With the database's and gunicorn's own they stay below 1024 open files, the usual limit. Each has one request at a
# time, so this bounds the requests that wait for the ledger, too.
CONNECTIONS = 900
# Those of one address, by IPv6 of a /64 network, that is not a proxy's: three others have places left whatever it does.
ADDRESS_CONNECTIONS = CONNECTIONS // 4
# A connection without a request. A proxy's own limit must be shorter, so that it never sends into a closing one.
IDLE_SECONDS = 75

# For the requests under way when a worker has to stop.
GRACEFUL_SECONDS = 30
# At the end of a worker, for a request on a connection that has none.
FAREWELL_SECONDS = 1.0
# A worker that does not move for so long is replaced.
HEARTBEAT_SECONDS = 30
# The path of a Unix socket: sockaddr_un holds 104 bytes on macOS, 108 on Linux, with the closing NUL.
SOCKET_PATH_BYTES = 103
