"""Nothing that tests start goes on after them, and they start nothing that nobody was told to install."""

import os
import re
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
from tests.processes import completed
from tests.programs import ALWAYS

ROOT = Path(__file__).parents[1]

needs_linux = pytest.mark.skipif(sys.platform != "linux", reason="only Linux lets a process adopt orphans")


@pytest.mark.slow
@needs_linux
@pytest.mark.parametrize(
    ("ends", "options", "said"),
    [
        ("is_killed", ["-n", "1"], "worker 'gw0' crashed"),
        ("forgets", [], "The tests left processes behind"),
    ],
)
def test_nothing_outlives_a_test(ends: str, options: list[str], said: str, tmp_path: Path) -> None:
    """Of each a server runs with workers, and an embedded Postgres with its watcher."""
    started = tmp_path / "started"
    done = completed(
        [
            sys.executable,
            "-m",
            "pytest",
            *options,
            f"tests/badly_ending_tests.py::test_that_{ends}",
            f"--basetemp={tmp_path / 't'}",
        ],
        cwd=ROOT,
        env={**os.environ, "STARTED": str(started)},
        timeout=100,
    )
    names = dict(line.split(maxsplit=1) for line in started.read_text().splitlines())
    assert {name for name in names.values() if "postgres" in name}
    assert done.returncode not in {0, 5}
    assert said in done.stdout + done.stderr
    assert [(pid, name) for pid, name in names.items() if psutil.pid_exists(int(pid))] == []


def test_a_program_that_nobody_was_told_to_install_is_missing() -> None:
    with pytest.raises(FileNotFoundError, match="README.md does not tell to install it"):
        subprocess.run(["ls"], check=False)
    told, *_ = re.findall(r"apt install ([a-z0-9 -]+)`", (ROOT / "README.md").read_text("utf-8"))
    assert {"gcc", "git", "make"} == ALWAYS & set(told.split())
