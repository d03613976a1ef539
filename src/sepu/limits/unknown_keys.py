"""Limits of keys that the ledger never accepted: when they are looked up first, and how many at once."""

# When the ledger has refused more keys to a worker than those of a second, the worker looks up those that it does not
# know before it passes their requests on,
REFUSED_KEYS_PER_SECOND = 100
# and for so long at most after the last.
SUSPICION_SECONDS = 10.0
# Those look-ups. All connections of a worker may wait for one, and are answered in time.
LOOK_UPS_PER_SECOND = 1000
# What shares one call of the database.
LOOK_UP_CALLS = 100
