"""Every machine gives the same answers, to the last bit: each wheel that is built has to pass this."""

import pytest
from tests.operations.answers import BLOCKS, HASHES, hashed


@pytest.mark.slow
@pytest.mark.parametrize("block", range(BLOCKS + 1))
def test_they_are_those_of_every_machine(block: int) -> None:
    assert hashed(block) == HASHES.read_text().splitlines()[block]
