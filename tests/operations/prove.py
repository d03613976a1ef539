"""`make prove-match`: the text of matches equals Python's, for each tie of rounding and each 8-bit colour."""

import sys
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor

import click
from tests.core.rounding import around, as_python_writes, ties
from tests.operations.reference import MATCHER, answer

from sepu._palette import format_decimal
from sepu.operations.match import MatchInput

TIES = 1_200_000  # of differences up to 120; includes the ties of similarities
JOBS = 320


def differing_ties(job: int) -> int:
    values = around(ties(job, TIES, JOBS))
    return sum(format_decimal(value) != as_python_writes(value) for value in values)


def differing_colors(red: int) -> int:
    """The number of requests with 256 colours and a different answer."""
    requests = (MatchInput(tuple((red, green, blue) for blue in range(256)), 3) for green in range(256))
    return sum(MATCHER.answer(request) != answer(request) for request in requests)


def counted(differing: Iterator[int], each: int, what: str) -> bool:
    """Whether none differs; prints the number."""
    total = 0
    for done, found in enumerate(differing, 1):
        total += found
        if done % 32 == 0:
            click.echo(f"{total} of {done * each:,} {what} differ")
    return total == 0


def main() -> None:
    with ProcessPoolExecutor() as pool:
        fine = counted(pool.map(differing_ties, range(JOBS)), TIES * 5 // JOBS, "doubles at ties")
        fine &= counted(pool.map(differing_colors, range(256)), 256, "requests, each with 256 of the 8-bit colours,")
    sys.exit(not fine)


if __name__ == "__main__":
    main()
