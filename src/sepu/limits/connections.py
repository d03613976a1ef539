"""Limits of a worker's connections."""

# With the database's and gunicorn's own they stay below 1024 open files, the usual limit. Each has one request at a
# time, so this bounds the requests that wait for the ledger, too.
OF_A_WORKER = 900
# Connections of one address (for IPv6, one /64) that is not a proxy's, so that three others always find places.
OF_AN_ADDRESS = OF_A_WORKER // 4
# A connection without a request, unless --idle-seconds says otherwise. A proxy's own limit must be shorter, so that it
# never sends into a closing one.
IDLE_SECONDS = 75
# Longer than any load balancer keeps one.
MAX_IDLE_SECONDS = 2 * 3600
