"""Compares the instruction counts of the hot paths with those in expected.json."""

import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from bench.gate.count import Count

from bench import machine

EXPECTED = Path(__file__).with_name("expected.json")
TOLERANCE = 0.02
SLOWDOWN = 0.05  # the gate must notice this

Counts = Mapping[str, Count]


def why_not() -> str | None:
    """Returns why nothing can be counted here, or None."""
    if sys.platform != "linux":
        return "valgrind is for Linux"
    return None if shutil.which("valgrind") else "there is no valgrind (Debian: apt install valgrind)"


def counted(slowdown: float = 0) -> tuple[str, Counts]:
    """Counts; returns the key of this machine's expectations and the counts."""
    with tempfile.TemporaryDirectory() as directory:
        dumps = f"{directory}/callgrind"
        done = subprocess.run(
            [
                *("valgrind", "--tool=callgrind", f"--log-file={dumps}.log", f"--callgrind-out-file={dumps}"),
                *("--dump-before=getppid", "--dump-line=no", "--compress-strings=no", "--compress-pos=no"),
                *(sys.executable, "-m", "bench.gate.count", dumps, str(slowdown)),
            ],
            # Nothing of the caller's environment, because Python reads it, and its size changes the counts.
            env={"PATH": os.environ["PATH"], "PYTHONHASHSEED": "0", "PYTHONDONTWRITEBYTECODE": "1"},
            stdout=subprocess.PIPE,
            check=True,
            text=True,
        )
    result = json.loads(done.stdout)
    return _key(result["cpu"]), {name: Count(**count) for name, count in result["counts"].items()}


def _key(cpu: str) -> str:
    """Returns what the count of unchanged code depends on, with the date on which this Python was built.

    `cpu` is the instruction set that the core chose: valgrind's processor lacks some of the real one's.
    """
    build = " ".join(platform.python_build()[1].split())
    return f"{machine.python()} of {build}; {machine.compiler()}; {machine.libc()}; {platform.machine()} with {cpu}"


def expected(key: str) -> Counts | None:
    """Returns the counts in expected.json; None if there are none for this key."""
    known = json.loads(EXPECTED.read_text("utf-8")).get(key)
    return known and {name: Count(*count) for name, count in known.items()}


def renew(key: str, counts: Counts) -> None:
    """Takes these counts as the expectations. Removes those of other machines if they must be stale."""
    before = expected(key)
    stale = before is not None and alarms(counts, before)
    every = {} if stale else json.loads(EXPECTED.read_text("utf-8"))
    every[key] = {name: (round(count.instructions), count.formula) for name, count in counts.items()}
    EXPECTED.write_text(json.dumps(every, indent=2, sort_keys=True, ensure_ascii=False) + "\n", "utf-8")


def alarms(counts: Counts, before: Counts) -> list[str]:
    """Returns what is not as expected, slower or faster: nobody would notice the loss of an unrecorded gain."""
    found = [f"{name}: not counted" for name in before.keys() - counts.keys()]
    for name, count in counts.items():
        if name not in before:
            found.append(f"{name}: no expectation")
            continue
        change = count.instructions / before[name].instructions - 1
        if abs(change) > TOLERANCE:
            found.append(f"{name}: {change:+.1%} instructions")
        if count.formula != before[name].formula:
            found.append(f"{name}: {count.formula:g} calls of the formula instead of {before[name].formula:g}")
    return found
