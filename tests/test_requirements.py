"""The messages of `make` when something is missing or insecure, and the locks of what it installs."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from tests.harness.processes import completed
from tools.advisories import embedded_version, main, postgres

ROOT = Path(__file__).parents[1]


def test_the_core_is_compiled_again_after_each_change() -> None:
    read = completed(["make", "--dry-run", "--print-data-base", ".venv/core"], cwd=ROOT).stdout
    [inputs] = re.findall(r"^\.venv/core: ([^|\n]*)", read, re.MULTILINE)
    sources = {f"cext/{path.name}" for path in (ROOT / "cext").iterdir()}
    assert {"setup.py", "pyproject.toml", *sources} <= {*inputs.split()}


def test_undefined_behaviour_ends_the_sanitized_core(tmp_path: Path) -> None:
    [flags] = re.findall(r'CFLAGS="(.*?)"', completed(["make", "--dry-run", "sanitize"], cwd=ROOT).stdout)
    (tmp_path / "overflow.c").write_text("int main(int one, char **_) { return one + 2147483647; }\n")
    completed(["gcc", *flags.split(), "overflow.c"], cwd=tmp_path)
    assert completed([tmp_path / "a.out"]).returncode == 1  # a report alone would leave 0


def test_only_the_quick_tests_leave_slow_ones_out() -> None:
    told = [completed(["make", "--dry-run", target], cwd=ROOT).stdout for target in ("test", "test-all")]
    assert ["not slow" in text for text in told] == [True, False]


def check(python: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = ["/bin/sh", str(ROOT / "requirements" / "check-python.sh"), python]
    return completed(command, env={"PATH": os.environ["PATH"], **environment}, cwd=ROOT, timeout=30)


def test_a_complete_machine_passes() -> None:
    done = check(sys.executable)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    ("python", "environment", "reason"),
    [
        ("python9.9", {}, "there is no python9.9"),
        (sys.executable, {"PATH": "/nowhere"}, "there is no C compiler"),
        (sys.executable, {"CC": "/nowhere/gcc"}, "CC names a compiler that is not there: /nowhere/gcc"),
        ("version_info", {}, "is older than 3.11"),
        ("ensurepip", {}, "python3-venv"),
        ("Python.h", {}, "python3-dev"),
    ],
)
def test_what_is_missing_is_named(tmp_path: Path, python: str, environment: dict[str, str], reason: str) -> None:
    if python in {"version_info", "ensurepip", "Python.h"}:  # an interpreter that fails the check that mentions it
        script = tmp_path / "python"
        script.write_text(f'#!/bin/sh\ncase "$2" in *{python}*) exit 1;; esac\n')
        script.chmod(0o755)
        python = str(script)
    done = check(python, **environment)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("sepu: ")
    assert reason in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("change", [{"supported": False}, {"major": "1"}, {"latestMinor": "100"}, {}], ids=str)
def test_an_embedded_postgres_without_fixes_is_told(
    tmp_path: Path, change: dict[str, object], capsys: pytest.CaptureFixture[str]
) -> None:
    major, minor = embedded_version().split(".")
    versions = tmp_path / "versions.json"
    versions.write_text(json.dumps([{"major": major, "latestMinor": minor, "supported": True} | change]))
    with pytest.raises(SystemExit, match=str(bool(change))):
        main([lambda: postgres(versions.as_uri()), lambda: None])  # a later check changes nothing
    assert bool(re.search("fixes|supported", capsys.readouterr().err)) is bool(change)


@pytest.mark.parametrize("lock", sorted(ROOT.glob("requirements/**/*lock.json")), ids=lambda lock: lock.parent.name)
def test_a_lock_of_npm_names_no_registry(lock: Path) -> None:
    """npm records where it found a package unless told not to; without that, the lock works with any registry."""
    packages = json.loads(lock.read_text("utf-8"))["packages"]
    assert len(packages) > 1
    assert all("resolved" not in package and ("integrity" in package or not name) for name, package in packages.items())


@pytest.mark.parametrize("stage", ["core", "embedded"])
def test_the_tools_of_development_replace_nothing_that_serving_installed(stage: str) -> None:
    def pins(name: str) -> set[str]:
        lines = (ROOT / "requirements" / f"{name}.txt").read_text("utf-8").splitlines()
        return {line.rstrip(" \\").partition(" ;")[0] for line in lines if "==" in line.partition(";")[0]}

    assert pins(stage)
    assert pins(stage) <= pins("dev")
