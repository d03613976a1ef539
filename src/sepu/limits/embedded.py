"""Deadlines of the embedded Postgres."""

# A recovery can take long on a slow disk.
START_SECONDS = 300
# For the lock of the state directory: longer than a start.
LOCK_SECONDS = 400
# A wait for that lock is reported after this time.
REPORT_SECONDS = 1
