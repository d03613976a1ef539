"""Processes: gunicorn and its workers, the embedded Postgres, settings. Knows no detail of the contract."""

import os

# gunicorn reads this variable when it is imported, and fails if the value is not a number.
WEB_CONCURRENCY = os.environ.pop("WEB_CONCURRENCY", None)
