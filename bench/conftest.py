"""Describes the machine and the commit in the suite's records, and gives it a database."""

from typing import Any

import pytest
from bench import machine
from bench.recorded import MOST, SEED
from tests.harness.accounts import open_accounts
from tests.harness.postgres import database_url

from sepu.database.opening import connect
from sepu.database.opening import service_url as as_service

__all__ = ["database_url"]


def pytest_benchmark_generate_machine_info() -> dict[str, Any]:
    """Replaces the description of pytest-benchmark, which names the host and lacks what the figures depend on."""
    return machine.description()


def pytest_benchmark_update_commit_info(commit_info: dict[str, Any]) -> None:
    """Removes the name of the directory, which pytest-benchmark takes for the project."""
    commit_info.pop("project", None)


@pytest.fixture(scope="session")
def service_url(database_url: str) -> str:
    """Returns the service's database, with the accounts of `recorded`."""
    with connect(database_url) as owner:
        open_accounts(owner, SEED, MOST)
    return as_service(database_url)
