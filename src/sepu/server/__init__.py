"""Processes: gunicorn and its workers, the embedded Postgres, settings. Knows no detail of the contract."""
