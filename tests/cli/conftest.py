"""Runs commands as others do: as processes."""

import os
import subprocess

import pytest
from tests.cli.running import Run
from tests.serving import SEPU


@pytest.fixture
def run(database_url: str) -> Run:
    """Runs `sepu` against the run's database."""

    def sepu(*arguments: str, given: str = "", **environment: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [SEPU, *arguments],
            env={**os.environ, "SEPU_DATABASE_URL": database_url, "COLUMNS": "200", **environment},
            input=given,
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )

    return sepu
