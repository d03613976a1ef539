"""Limits and deadlines by subject: those that several files, SQL, nginx, pages or tests share.

Others stand at the top of the only file that uses them. All are in bytes and seconds unless the name says otherwise.
Code reads them by subject, as `limits.batches.CALLS`. `tests/deploy/test_limits.py` compares SQL, nginx and documents
with them.
"""

from sepu.limits import (
    batches,
    connections,
    console,
    database,
    embedded,
    files,
    images,
    inputs,
    palettes,
    plans,
    probes,
    requests,
    retention,
    webhooks,
    workers,
)
