"""Limits of probes: how often the database is asked whether it answers, for /readyz and the metrics."""

# How old the answer of a probe may be: a flood of probes costs the database one a second.
PROBE_SECONDS = 1.0
# A worker probes by itself when nobody has for so long, so that the metrics tell of an outage without requests.
LOOK_SECONDS = 5.0
# What is older says nothing of the database any more.
LOOKED_SECONDS = 3 * LOOK_SECONDS
