"""Limits of the calls that share a batch: how many, and who goes alone or waits."""

# Requests that share a call; more would only hold their row locks longer.
CALLS = 32
# An account's calls go alone for this long after one was refused for a lock.
ISOLATED_SECONDS = 1.0
# The same after one was not answered, if batches are off. Longer than clients' usual back-off, so that a silent node of
# Citus is retried over sessions that others do not need.
UNANSWERED_SECONDS = 10.0
# After this time under way, a batch lets another start. A usual one takes some milliseconds: two at a time would be
# smaller, and slower together.
OVERFLOW_SECONDS = 0.01
# A batch that took longer per call has waited for a lock, a disk or a standby. So the next one waits for the same
# clients: for this share of the batch's time, and at most this long.
SLOW_CALL_SECONDS = 0.001
GATHER_SHARE = 0.25
GATHER_SECONDS = 0.004

# Seconds that a worker remembers why the ledger refused a key.
REFUSED_SECONDS = 1.0
# Requests of a key over its abuse limit that still ask the ledger in that time. The rest would only delay others.
LIMITED_CALLS = 8
