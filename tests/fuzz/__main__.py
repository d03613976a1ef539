"""`make fuzz`: what is hostile at one boundary, for minutes. `make fuzz WHAT=wire SECONDS=300 SEED=7 WORKER=gthread`.

Each boundary is a module of this package with a function `fuzz(seconds, seed)` that returns what it tried and found.
The same seed makes the same cases in the same order.
"""

import sys
from importlib import import_module

from tests.fuzz.outcome import Outcome

BOUNDARIES = ("client", "database", "picture", "receipt", "webhook", "wire")


def main(what: str, seconds: str, seed: str) -> int:
    if what not in BOUNDARIES:
        sys.stderr.write(f"fuzz: there is no {what}; there are {', '.join(BOUNDARIES)}\n")
        return 2
    outcome: Outcome = import_module(f"tests.fuzz.{what}").fuzz(float(seconds), int(seed))
    sys.stdout.write(f"{what}, {seconds} s, seed {seed}: {outcome}\n")
    return 1 if outcome.faults else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
