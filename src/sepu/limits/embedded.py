"""Deadlines of the embedded Postgres."""

# A recovery can take long on a slow disk.
START_SECONDS = 300
STOP_SECONDS = 60
# The rest of a killed server may keep its memory for this long.
RETRY_SECONDS = 10
# For the lock of the state directory: longer than a start.
LOCK_SECONDS = 400
# A wait for that lock is reported after this time.
REPORT_SECONDS = 1
