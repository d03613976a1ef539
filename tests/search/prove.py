"""`make prove-search`: the index equals the reference for every query of up to 3 letters, and 100,000 longer ones.

Longer queries depend on the seed: `make prove-search SEED=7`.
"""

import sys
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from random import Random

from tests.search.queries import ALL, INDEX, LETTERS, REFERENCE, misspelt, noise, several_words, short, syllables

RANDOM = 100_000
BATCH = 1_000
SHOWN = 20

# The first letter of queries of three letters, or the seed of a batch of longer ones.
Job = str | int


def queries(job: Job) -> Iterator[tuple[str, int]]:
    """Queries, each with its limit."""
    if isinstance(job, str):
        for length in range(3) if job == "" else [2]:
            for q in short(length, job):
                yield q, ALL
    else:
        chance = Random(job)
        for _ in range(BATCH):
            draw = chance.choice([misspelt, misspelt, misspelt, several_words, several_words, syllables, noise])
            yield draw(chance), chance.choice([1, 3, 10, ALL])


def compare(job: Job) -> tuple[int, list[str]]:
    """The number of queries, and those with different answers."""
    count, wrong = 0, []
    for q, limit in queries(job):
        count += 1
        if INDEX.search(q, limit) != REFERENCE.search(q, limit):
            wrong.append(q)
    return count, wrong


def main(seed: int) -> int:
    start = time.monotonic()
    jobs: list[Job] = ["", *LETTERS, *(seed * RANDOM + batch for batch in range(RANDOM // BATCH))]
    total, wrong = 0, []
    with ProcessPoolExecutor() as pool:
        for done, future in enumerate(as_completed([pool.submit(compare, job) for job in jobs]), 1):
            count, differing = future.result()
            total += count
            wrong += differing
            sys.stderr.write(f"\r{done / len(jobs):4.0%}  {total:,} queries, {len(wrong)} differ")
            sys.stderr.flush()
    sys.stderr.write("\n")
    for q in wrong[:SHOWN]:
        sys.stdout.write(f"{q!r}: {INDEX.search(q, ALL)}, not {REFERENCE.search(q, ALL)}\n")
    minutes = (time.monotonic() - start) / 60
    sys.stdout.write(f"{len(LETTERS)} letters, seed {seed}, {minutes:.1f} minutes\n{len(wrong)} of {total:,} differ\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1])))
