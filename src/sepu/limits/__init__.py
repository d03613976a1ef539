"""Defines every limit and deadline once, by subject, in bytes and seconds unless the name says otherwise.

Code reads them by subject, as `limits.batches.CALLS`. `tests/deploy/test_limits.py` compares SQL, nginx
and documents with them.
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
