"""Every limit and deadline, once each: of requests, workers, the ledger, the delivery of events, pictures and palettes.

Bytes and seconds, unless the name says otherwise.

What SQL and nginx have to know of them is checked against them: `tests/deploy/test_limits.py`.
"""

# --- A request

# The body of a match. Five colours with fifteen digits a channel take 400 bytes.
BODY_BYTES = 16 * 1024
# What is read and dropped of a larger one, so that its connection can go on.
DISCARDED_BYTES = 64 * 1024
# The request line and all headers: as much as nginx takes by default, four buffers of 8 KiB.
HEAD_BYTES = 32 * 1024
# One line of the head. A long q is refused by us with 422, and not by the server with 414.
LINE_BYTES = 8190
HEADERS = 100
# What chunks may take besides the body. The body at a byte a chunk takes five bytes more for each (RFC 9112, 7.1);
# the rest is for trailers and chunk extensions, which nobody reads.
FRAMING_BYTES = 5 * BODY_BYTES + HEAD_BYTES
# A Content-Length of more digits is refused unread.
LENGTH_DIGITS = 18

# From a request's first byte to its last. gthread counts a connection's first request from the connection.
REQUEST_SECONDS = 10.0
# For the application to answer. The ledger's deadlines, below, are much shorter: only a mistake of ours takes so long.
APPLICATION_SECONDS = 30.0
# For a client to take its answer.
ANSWER_SECONDS = 10.0
# For a client to read the last answer and close, before the connection is torn.
LINGER_SECONDS = 2.0
# A connection without a request. A proxy's own limit must be shorter, so that it never sends into a closing one.
IDLE_SECONDS = 75
# At the end of a worker, for a request on a connection that has none.
FAREWELL_SECONDS = 1.0

# --- A worker

# The path of a Unix socket: sockaddr_un holds 104 bytes on macOS, 108 on Linux, with the closing NUL.
SOCKET_PATH_BYTES = 103
# With the database's and gunicorn's own they stay below 1024 open files, the usual limit. Each has one request at a
# time, so this bounds the requests that wait for the ledger, too.
CONNECTIONS = 900
# Those of one address, by IPv6 of a /64 network, that is not a proxy's: three others have places left whatever it does.
ADDRESS_CONNECTIONS = CONNECTIONS // 4
# For the requests under way when a worker has to stop.
GRACEFUL_SECONDS = 30
# A worker that does not move for so long is replaced.
HEARTBEAT_SECONDS = 30

# --- The ledger: a client is told of an outage within two seconds.

# For a call to be sent: the wait for others and for a connection.
QUEUE_SECONDS = 0.9
# From the sent call to its answer.
STATEMENT_SECONDS = 1.0
# For a synchronous standby to confirm a commit; after that it is silent, and nobody joins those who wait. Less than the
# call may take, so that it is known before the first is given up.
STANDBY_SECONDS = 0.5
# For libpq to connect to one host, and for a sent packet to be acknowledged; libpq takes no less than two.
CONNECT_SECONDS = 2
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
# Units of a plan's limit, and units granted of it: an integer of the database holds both.
PLANNED_UNITS = 2_000_000_000
GRANTED_UNITS = 2**31 - 1 - PLANNED_UNITS
# For a counter that an operator adjusts; each wait for a lock takes as long as a charge's.
ADJUSTMENT_SECONDS = 10.0
# Between two attempts to connect: short, so that the service is back within a second of the database, and yet so long
# that many workers do not throng a database that is just coming up.
RECONNECT_SECONDS = 0.3
# How old the answer of a probe may be: a flood of probes costs the database one a second.
PROBE_SECONDS = 1.0
# A worker probes by itself when nobody has for so long, so that the metrics tell of an outage without requests.
LOOK_SECONDS = 5.0
# What is older says nothing of the database any more.
LOOKED_SECONDS = 3 * LOOK_SECONDS
# When the ledger has refused more keys to a worker than those of a second, the worker looks up those that it does not
# know before it passes their requests on,
REFUSED_KEYS_PER_SECOND = 100
# and for so long at most after the last.
SUSPICION_SECONDS = 10.0
# Those look-ups. All connections of a worker may wait for one, and are answered in time.
LOOK_UPS_PER_SECOND = 1000
# What shares one call of the database.
LOOK_UP_CALLS = 100
# Of several threads so many may look keys up at once.
LOOK_UP_THREADS = 2
# For how long an account's calls go alone after one of them was refused for a lock.
ISOLATED_SECONDS = 1.0
# A batch under way for longer lets others go beside it. A usual one takes some milliseconds: two at a time would be
# smaller, and so slower together.
RELIEF_SECONDS = 0.01
# A batch that takes longer for each of its calls has waited for a lock, a disk or a standby. The next one waits for the
# same clients: for this share of that time, and no longer than that.
SLOW_CALL_SECONDS = 0.001
GATHER_SHARE = 0.25
GATHER_SECONDS = 0.004
# Requests that share a call; more would only hold their rows longer.
BATCH_CALLS = 32
# What the ledger said of a key over its abuse limit is known for so long,
LIMITED_SECONDS = 1.0
# and so many requests ask it again meanwhile. The rest would only stand in others' way.
LIMITED_CALLS = 8

# --- The delivery of events

# For an endpoint to answer a webhook: from the connection to the head of the answer.
WEBHOOK_SECONDS = 15.0
# Nobody else sends an event that one is sending. Long enough for a webhook, and short, because whoever dies while it
# sends keeps the event for so long.
CLAIM_SECONDS = 60
# Webhooks that are sent at once.
WEBHOOKS = 16
# Between two looks for events that are due, and between two attempts to connect.
EVENTS_SECONDS = 1.0
# For a statement of the deliverer; then it looks for another host.
EVENTS_STATEMENT_SECONDS = 1.5
# Between two counts of what is not delivered.
EVENTS_COUNTED_SECONDS = 60
# After an attempt that failed, four times as long as after the one before, with a fifth more or less at random,
FIRST_RETRY_SECONDS = 5
# up to twelve hours.
LONGEST_RETRY_SECONDS = 12 * 3600
# What an endpoint may ask for by Retry-After.
LONGEST_RETRY_AFTER_SECONDS = 24 * 3600
# Then an event is given up: after two days and a half.
DELIVERY_ATTEMPTS = 12

# --- A picture: one more than these, and it is not read.

# Of its first frame. No camera with a 35 mm sensor has more; decoded, they take up to 1.4 GB.
IMAGE_PIXELS = 2**26
# Four channels of as many pixels, uncompressed.
IMAGE_BYTES = 4 * IMAGE_PIXELS
# In which Pillow must have found the size: some five for each part. It adds up parts in time that grows by the square.
IMAGE_HEADER_READS = 10_000
# Of a tag of a TIFF, such as where its strips begin: Pillow takes some 700 bytes for each strip.
TIFF_NUMBERS = 2**18
# Of a JPEG, each of which goes over all pixels. A progressive one has ten.
JPEG_SCANS = 100

# --- A palette in a file: one more than these, and it is not read.

PALETTE_BYTES = 2**24
# The index of so many has 190 MB.
PALETTE_COLORS = 100_000
