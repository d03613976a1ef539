"""Every limit and deadline, once each, by subject. Bytes and seconds, unless the name says otherwise.

Code reads them by subject, as `limits.batches.CALLS`. What SQL and nginx have to know of them is checked against them:
`tests/deploy/test_limits.py`.
"""

from sepu.limits import (
    batches,
    connections,
    console,
    database,
    embedded,
    files,
    inputs,
    palettes,
    pictures,
    plans,
    probes,
    requests,
    retention,
    webhooks,
    workers,
)
