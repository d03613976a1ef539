"""Limits of a prune and of an erasure."""

# By default, how long stored results are kept.
DAYS = 90
# So no retry within a month is charged twice, whatever the operator types. And no charge waits for a prune, which locks
# the counters that it prunes: those are of past months.
MIN_DAYS = 31
# Results deleted in one transaction, which takes some tens of milliseconds.
RESULTS = 2000
# Counters that a prune reads at a time.
COUNTERS = 500
