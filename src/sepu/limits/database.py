"""Deadlines of the database: a client gets a 503 within two seconds of an outage."""

# Longest wait of a call for its turn and a connection.
QUEUE_SECONDS = 0.9
# From the sent call to its answer.
STATEMENT_SECONDS = 1.0
# How much longer than both together a thread waits for the ledger. Only a stuck event loop exceeds it.
THREAD_SECONDS = 0.5
# For libpq to connect to one host, and for a sent packet to be acknowledged; libpq takes no less than two.
CONNECT_SECONDS = 2
# The same for an operator's command, which waits longer for an only host and for a slow answer.
OPERATOR_CONNECT_SECONDS = 5
OPERATOR_SILENT_SECONDS = 30
# Between two attempts to connect: the service is back within a second of the database, and many workers do not overload
# a database that is just starting.
RECONNECT_SECONDS = 0.3

# For a row that another holds, by the functions' `lock_timeout`: less than the call may take, so that Postgres reports
# the reason.
LOCK_SECONDS = 0.8
# The same in a call of several requests, all of which wait; the one that is refused is then repeated by itself.
BATCH_LOCK_SECONDS = 0.2
# For a table that a migration needs. Requests queue behind that wait, and a batch waits only BATCH_LOCK_SECONDS. So the
# migration gives up earlier, and tries again.
MIGRATION_LOCK_SECONDS = 0.1
MIGRATION_PAUSE_SECONDS = 0.5
# Then it gives up for good.
MIGRATION_SECONDS = 60.0

# Connections that a role of each purpose may open; the rest of Postgres's default max_connections, 100, is for the
# owner, monitoring, more roles of people, and superusers. A service's is enough for ten workers, and that of a role
# that only reads for the console.
ROLE_CONNECTIONS = {"service": 60, "events": 4, "read-only": 8, "support": 4, "billing": 4, "accounts": 4}
# Temporary files of each session of these roles.
ROLE_TEMP_FILES = "1GB"
# A session that holds an advisory lock for longer is reported: a request's locks end within a second.
LOCK_HOLDER_SECONDS = 60.0
