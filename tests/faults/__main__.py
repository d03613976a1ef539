"""`make soak`: the long form of the fault harness, on one Postgres or on Citus. Exits with 1 if it finds a fault."""

import argparse
import sys

from tests.citus.soak import staged_on_citus
from tests.faults.soak import Plan, soak, staged
from tests.harness.serving import WORKERS


def main() -> int:
    """Runs the long form."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--requests", type=int, default=100_000)
    options.add_argument("--worker", choices=WORKERS, default="uvloop")
    options.add_argument("--workers", type=int, default=2)
    options.add_argument("--seed", type=int, default=1)
    options.add_argument("--accounts", type=int, default=0, help="a crowd that makes half of the requests")
    options.add_argument("--flood", type=int, default=0, help="connections that send made-up keys naming the crowd")
    options.add_argument("--revoked", type=int, default=0, help="connections that send one key, which is revoked")
    options.add_argument("--citus", type=int, default=0, help="on a Citus cluster of this number of workers")
    given = options.parse_args()
    plan = Plan(
        given.requests, given.worker, given.workers, seed=given.seed, crowd=given.accounts, flood=given.flood,
        revoked=given.revoked, failover=not given.citus,
    )  # fmt: skip
    with staged_on_citus(plan, given.citus) if given.citus else staged(plan) as stage:
        report = soak(plan, stage)
    sys.stdout.write(f"{report}\n{report.verdict.explain()}")
    return 1 if report.verdict.findings else 0


if __name__ == "__main__":
    sys.exit(main())
