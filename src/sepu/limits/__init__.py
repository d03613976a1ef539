"""Every limit and deadline, once each, by subject. Bytes and seconds, unless the name says otherwise.

The code reads them all from here. What SQL and nginx have to know of them is checked against them:
`tests/deploy/test_limits.py`.
"""

from sepu.limits.batches import *
from sepu.limits.connections import *
from sepu.limits.database import *
from sepu.limits.files import *
from sepu.limits.inputs import *
from sepu.limits.palettes import *
from sepu.limits.pictures import *
from sepu.limits.plans import *
from sepu.limits.probes import *
from sepu.limits.requests import *
from sepu.limits.webhooks import *
from sepu.limits.workers import *
