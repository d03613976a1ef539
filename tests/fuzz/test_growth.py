"""No input takes time that grows by the square: instructions are counted, and nothing is timed."""

import json
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest
from bench.gate import callgrind
from tests.fuzz import slow
from tests.fuzz.cases import run

ROOT = Path(__file__).parents[2]
GROWTH = 2.5  # of an input of twice the size; 4 would be a square


@pytest.mark.slow  # half a minute: valgrind starts Python
@pytest.mark.timeout(150)
@pytest.mark.skipif(callgrind.valgrind() is None, reason="instructions are counted by valgrind: apt install valgrind")
def test_the_worst_inputs_take_instructions_by_their_size(tmp_path: Path) -> None:
    program = callgrind.command(tmp_path, "--instr-atstart=no", sys.executable, "-m", "tests.fuzz.slow", str(tmp_path))
    environment = callgrind.environment(LD_PRELOAD=callgrind.library(tmp_path), PYTHONPATH=str(ROOT))
    done = subprocess.run(program, env=environment, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    found = {
        name: [callgrind.total(callgrind.read(file)) for file in files]
        for name, files in json.loads(done.stdout).items()
    }
    assert {
        name: counts for name, counts in found.items() if any(more > GROWTH * less for less, more in pairwise(counts))
    } == {}


@pytest.mark.slow
def test_slow() -> None:
    run(slow.play, 400, {})
