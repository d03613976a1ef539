"""Limits of a worker's connections."""

# With the database's and gunicorn's files they stay below 1024, the usual limit of open files. Each has one request at
# a time, so this also bounds the requests that wait for the ledger.
OF_A_WORKER = 900
# Connections of one address (for IPv6, one /64) that is not a proxy's, so that there is always room for three others.
OF_AN_ADDRESS = OF_A_WORKER // 4
# A connection without a request, unless --idle-seconds says otherwise. A proxy's own limit must be shorter, so that it
# never sends into a closing one.
IDLE_SECONDS = 75
