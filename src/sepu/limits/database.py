"""Deadlines of the database: a client is told of an outage within two seconds."""

# For a call to be sent: the wait for others and for a connection.
QUEUE_SECONDS = 0.9
# From the sent call to its answer.
STATEMENT_SECONDS = 1.0
# A thread that asks the ledger waits for this much longer than both. Only a stuck event loop takes so long.
THREAD_SECONDS = 0.5
# For a synchronous standby to confirm a commit; after that it is silent, and nobody joins those who wait. Less than the
# call may take, so that it is known before the first is given up.
STANDBY_SECONDS = 0.5
# For libpq to connect to one host, and for a sent packet to be acknowledged; libpq takes no less than two.
CONNECT_SECONDS = 2
# The same for an operator's command, which waits for a host that is the only one, and does not give up a slow answer.
OPERATOR_CONNECT_SECONDS = 5
OPERATOR_SILENT_SECONDS = 30
# For a command to check the schema of an external database.
SCHEMA_SECONDS = 5.0
# Between two attempts to connect: short, so that the service is back within a second of the database, and yet so long
# that many workers do not throng a database that is just coming up.
RECONNECT_SECONDS = 0.3

# For another's row, by `lock_timeout` of the functions: less than the call may take, so that Postgres tells why.
LOCK_SECONDS = 0.8
# The same in a call of several requests, all of which wait; the one that is refused is then repeated by itself.
BATCH_LOCK_SECONDS = 0.2
# For a table that a migration needs. Requests queue behind it meanwhile, and a batch waits no longer than above. So it
# gives up in time, and tries again.
MIGRATION_LOCK_SECONDS = 0.1
MIGRATION_PAUSE_SECONDS = 0.5
# Then it gives up for good.
MIGRATION_SECONDS = 60.0
