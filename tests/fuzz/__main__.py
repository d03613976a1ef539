"""`make fuzz`: hostile clients for minutes. `make fuzz SECONDS=300 SEED=7 WORKER=gthread`."""

import sys
import tempfile
from pathlib import Path

from tests.fuzz.campaign import Campaign
from tests.serving import serving

from sepu.cli.database import connect, database

HANG_SECONDS = 2.0  # on a quiet machine no probe takes a tenth of it


def main(worker: str, seconds: str, seed: str) -> int:
    with (
        tempfile.TemporaryDirectory(prefix="sepu-fuzz-") as directory,
        database(None, Path(directory), create=True) as url,
        connect(url) as connection,
        serving(worker, url) as server,
    ):
        report = Campaign(server, connection, int(seed), HANG_SECONDS).run(float(seconds))
    sys.stdout.write(f"{worker}, {seconds} s, seed {seed}: {report}\n")
    return 1 if report.violations or report.deaths or report.hangs else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
