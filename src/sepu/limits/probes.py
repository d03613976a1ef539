"""Limits of probes: how often the database is asked whether it answers, for /readyz and the metrics."""

# How old the answer of a probe may be: a flood of probes costs the database one a second.
PROBE_SECONDS = 1.0
# A worker probes by itself after this long without a probe, so that the metrics show an outage without requests.
LOOK_SECONDS = 5.0
# An older answer says nothing about the database.
LOOKED_SECONDS = 3 * LOOK_SECONDS
# Between two looks of a worker at the nodes of a Citus cluster. Each look connects to each node.
NODES_SECONDS = 10.0
# An older look says nothing about a node.
NODES_LOOKED_SECONDS = 3 * NODES_SECONDS
