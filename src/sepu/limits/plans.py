"""Limits of what an operator plans and grants."""

# Units of a plan's limit, and units granted on top: a database integer holds both.
PLANNED_UNITS = 2_000_000_000
GRANTED_UNITS = 2**31 - 1 - PLANNED_UNITS
# For a counter that an operator adjusts; each wait for a lock takes as long as a charge's.
ADJUSTMENT_SECONDS = 10.0
