"""Runs commands in this process, on the database of the test run or on one of the test's own."""

from functools import partial

import pytest
from tests.cli.running import Run, invoke


@pytest.fixture
def run(database_url: str) -> Run:
    """Runs `sepu` against the run's database."""
    return partial(invoke, SEPU_DATABASE_URL=database_url)


@pytest.fixture
def own(own_url: str) -> Run:
    """Runs `sepu` against a database of the test's own: for what looks at all accounts."""
    return partial(invoke, SEPU_DATABASE_URL=own_url)
