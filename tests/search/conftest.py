from collections.abc import Sequence

import pytest

from sepu.library.records import Record
from sepu.library.release import load_release


@pytest.fixture(scope="session")
def records() -> Sequence[Record]:
    return load_release().records
