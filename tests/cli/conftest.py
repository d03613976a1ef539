"""Runs commands in this process, on the database of the test run."""

from functools import partial

import pytest
from tests.cli.running import Run, invoke


@pytest.fixture
def run(database_url: str) -> Run:
    """Runs `sepu` against the run's database."""
    return partial(invoke, SEPU_DATABASE_URL=database_url)
