"""`make fuzz`: what is hostile at one boundary, for minutes. `make fuzz WHAT=wire SECONDS=300 SEED=7 WORKER=gthread`.

The cases have numbers, and `SEED` is that of the first: `SECONDS=0 SEED=4711` plays the case 4711 alone.
"""

import sys
from collections.abc import Callable
from functools import partial

from tests.fuzz import client, database, picture, receipt, webhook, wire
from tests.fuzz.outcome import Outcome, run_for

BOUNDARIES: dict[str, Callable[[float, int], Outcome]] = {
    "client": partial(run_for, client.play),
    "database": partial(run_for, database.play_on_its_own),
    "picture": partial(run_for, picture.play),
    "receipt": partial(run_for, receipt.play),
    "webhook": partial(run_for, webhook.play_on_its_own),
    "wire": wire.fuzz,
}


def main(what: str, seconds: str, seed: str) -> int:
    if what not in BOUNDARIES:
        sys.stderr.write(f"fuzz: there is no {what}; there are {', '.join(BOUNDARIES)}\n")
        return 2
    outcome = BOUNDARIES[what](float(seconds), int(seed))
    sys.stdout.write(f"{what}, {seconds} s, seed {seed}: {outcome}\n")
    return 1 if outcome.faults else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
