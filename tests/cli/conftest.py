"""Runs commands in this process, on a database for one test: commands look at all accounts."""

from functools import partial

import pytest
from tests.cli.running import Run, invoke


@pytest.fixture
def ledger_url(own_url: str) -> str:
    return own_url


@pytest.fixture
def run(ledger_url: str) -> Run:
    return partial(invoke, SEPU_DATABASE_URL=ledger_url)
