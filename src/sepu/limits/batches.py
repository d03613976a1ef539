"""Limits of the calls that share a batch: how many, and who goes alone or waits."""

# Requests that share a call; more would only hold their rows longer.
CALLS = 32
# For how long an account's calls go alone after one of them was refused for a lock.
ISOLATED_SECONDS = 1.0
# The same after one was not answered, without batches. Longer than the usual back-off of clients, so that a silent node
# of Citus is tried over sessions that others do not need.
UNANSWERED_SECONDS = 10.0
# A batch under way for longer lets others go beside it. A usual one takes some milliseconds: two at a time would be
# smaller, and so slower together.
RELIEF_SECONDS = 0.01
# A batch that takes longer for each of its calls has waited for a lock, a disk or a standby. The next one waits for the
# same clients: for this share of that time, and no longer than that.
SLOW_CALL_SECONDS = 0.001
GATHER_SHARE = 0.25
GATHER_SECONDS = 0.004

# Seconds that a worker remembers why the ledger refused a key.
REFUSED_SECONDS = 1.0
# Requests of a key over its abuse limit that still ask the ledger in that time. The rest would only delay others.
LIMITED_CALLS = 8
