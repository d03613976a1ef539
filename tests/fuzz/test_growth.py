"""No input takes quadratic time: instructions are counted, nothing is timed."""

from collections.abc import Callable, Mapping
from itertools import pairwise

import pytest
from tests.fuzz import slow
from tests.fuzz.cases import run
from tests.harness import callgrind

pytestmark = pytest.mark.slow

counted = pytest.mark.skipif(
    callgrind.valgrind() is None, reason="instructions are counted by valgrind: apt install valgrind"
)


@pytest.mark.timeout(300)
@counted
@pytest.mark.parametrize("readers", [slow.strangers, slow.others])
def test_the_worst_inputs_take_instructions_by_their_size(readers: Callable[[], Mapping[str, slow.Read]]) -> None:
    inputs = {
        f"{name} {place}": [(name, made(size)) for size in slow.SIZES]
        for name in readers().keys() & slow.WORST.keys()
        for place, made in enumerate(slow.WORST[name])
    }
    found = slow.instructions(inputs)
    assert {
        key: counts
        for key, counts in found.items()
        if any(more > slow.GROWTH * less for less, more in pairwise(counts))
    } == {}


@counted
def test_slow() -> None:
    run(slow.play, 400, {})
