"""Describes the machine and the commit in the records of the suite, and gives it a database."""

from typing import Any

import psycopg
import pytest
from tests.conftest import database_url, service_url

from bench import machine
from sepu.metering import accounts
from sepu.metering.keys import Credential, credential

__all__ = ["database_url", "service_url"]


def pytest_benchmark_generate_machine_info() -> dict[str, Any]:
    """Replaces the description of pytest-benchmark, which names the host and lacks what the figures depend on."""
    return machine.description()


def pytest_benchmark_update_commit_info(commit_info: dict[str, Any]) -> None:
    """Removes the name of the directory, which pytest-benchmark takes for the project."""
    commit_info.pop("project", None)


@pytest.fixture(scope="session")
def issued(database_url: str) -> accounts.IssuedKey:
    """Makes an account without limits that a benchmark could reach."""
    with psycopg.connect(database_url, autocommit=True) as opened:
        most = 2**31 - 1
        accounts.set_plan(opened, "bench", match_limit=most, search_limit=most, requests_per_minute=most)
        return accounts.create_account(opened, "bench")


@pytest.fixture(scope="session")
def holder(issued: accounts.IssuedKey) -> Credential:
    """Returns the credential of that account."""
    found = credential(issued.api_key)
    assert found is not None
    return found
