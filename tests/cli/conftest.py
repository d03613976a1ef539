"""Runs commands as others do: as processes."""

import os
import subprocess

import pytest
from tests.cli.running import Run
from tests.processes import completed
from tests.serving import SEPU, free_port


@pytest.fixture
def run(database_url: str) -> Run:
    """Runs `sepu` against the run's database."""

    # Somebody may have a server on the usual port.
    own = {"SEPU_DATABASE_URL": database_url, "SEPU_PORT": str(free_port()), "COLUMNS": "200"}

    def sepu(*arguments: str, given: str = "", **environment: str) -> subprocess.CompletedProcess[str]:
        return completed([SEPU, *arguments], env={**os.environ, **own, **environment}, input=given)

    return sepu
