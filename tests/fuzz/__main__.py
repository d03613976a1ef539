"""`make fuzz`: what is hostile at one boundary, for minutes. `make fuzz WHAT=wire SECONDS=300 SEED=7 WORKER=gthread`.

The cases have numbers, and `SEED` is that of the first: `SECONDS=0 SEED=4711` plays the case 4711 alone. Of `database`
and `receipt`, whose cases hypothesis makes, a number is the seed of a hundred for each test.
"""

import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from tests.fuzz import client, picture, webhook, wire
from tests.fuzz.outcome import Outcome, Played, run_for
from tests.processes import completed


def _play_properties(name: str, numbers: Iterator[int]) -> Iterator[Played]:
    file = Path(__file__).with_name(f"test_{name}.py")
    for number in numbers:
        done = completed([sys.executable, "-m", "pytest", "-q", f"--hypothesis-seed={number}", file], timeout=900)
        yield number, "properties", done.stdout if done.returncode else None


BOUNDARIES: dict[str, Callable[[float, int], Outcome]] = {
    "client": partial(run_for, client.play),
    "database": partial(run_for, partial(_play_properties, "database")),
    "picture": partial(run_for, picture.play),
    "receipt": partial(run_for, partial(_play_properties, "receipt")),
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
