"""Tests start nothing that nobody was told to install."""

import re
import subprocess
from pathlib import Path

import pytest
from tests.programs import ALWAYS

ROOT = Path(__file__).parents[1]


def test_a_program_that_nobody_was_told_to_install_is_missing() -> None:
    with pytest.raises(FileNotFoundError, match="README.md does not tell to install it"):
        subprocess.run(["ls"], check=False)
    told, *_ = re.findall(r"apt install ([a-z0-9 -]+)`", (ROOT / "README.md").read_text("utf-8"))
    assert {"gcc", "git", "make"} == ALWAYS & set(told.split())
