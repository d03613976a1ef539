"""Limits of a prune and of an erasure."""

# By default, how long stored results are kept.
DAYS = 90
# Results deleted in one transaction, which takes some tens of milliseconds.
RESULTS = 2000
# Counters that a prune reads at a time.
COUNTERS = 500
