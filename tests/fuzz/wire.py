"""Hostile clients against a real server: `make fuzz WHAT=wire [WORKER=uvloop]`."""

import os
import tempfile
from collections import Counter
from pathlib import Path

from tests.fuzz.hostile_clients import Campaign
from tests.fuzz.outcome import Outcome
from tests.serving import serving

from sepu.cli.database import connect, database

HANG_SECONDS = 2.0  # on a quiet machine no probe takes a tenth of it


def fuzz(seconds: float, seed: int) -> Outcome:
    worker = os.environ.get("WORKER", "uvloop")
    with (
        tempfile.TemporaryDirectory(prefix="sepu-fuzz-") as directory,
        database(None, Path(directory), create=True) as url,
        connect(url) as connection,
        serving(worker, url) as server,
    ):
        report = Campaign(server, connection, seed, HANG_SECONDS).run(seconds)
    failed = report.violations or report.deaths or report.hangs
    return Outcome(Counter({"requests": report.requests}), [f"{worker}: {report}"] if failed else [])
