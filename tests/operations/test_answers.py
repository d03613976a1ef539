"""Every machine gives the same answers, bit for bit: each built wheel must pass this."""

import pytest
from tests.operations.answers import BLOCKS, HASHES, hashed


@pytest.mark.slow
@pytest.mark.parametrize("block", range(BLOCKS + 1))
def test_they_are_those_of_every_machine(block: int) -> None:
    assert hashed(block) == HASHES.read_text().splitlines()[block]
