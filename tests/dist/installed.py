"""The installed wheel is the one tested, and works from the command line. cibuildwheel's test-command runs this.

Not part of `make test-all`, which tests the checkout.
"""

import json
import subprocess
import sysconfig
from importlib.util import find_spec
from pathlib import Path

import pytest

import sepu
from sepu import _index_builder, _names, _palette
from sepu.extras import how_to_install

SEPU = Path(sysconfig.get_path("scripts")) / "sepu"


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([SEPU, *arguments], capture_output=True, check=False, text=True, encoding="utf-8")


@pytest.mark.parametrize("module", [sepu, _index_builder, _names, _palette])
def test_it_is_the_installed_one(module: object) -> None:
    file = getattr(module, "__file__", None)
    assert isinstance(file, str)
    assert Path(file).is_relative_to(sysconfig.get_path("platlib"))


def test_a_match_from_the_command_line() -> None:
    done = run("match", "#c83c23", "--json")
    assert done.returncode == 0, done.stderr
    nearest = json.loads(done.stdout)["colors"][0]
    assert (nearest["input"], nearest["slug"], nearest["deltaE"]) == ("#C83C23", "fei-hong", 0)
    table = run("match", "#c83c23")
    assert (table.returncode, "绯红" in table.stdout) == (0, True)


def test_a_search_from_the_command_line() -> None:
    done = run("search", "tao", "hong", "--json")
    assert [color["slug"] for color in json.loads(done.stdout)["colors"]] == ["tao-hong"]


@pytest.mark.skipif(find_spec("gunicorn") is not None, reason="the server is installed")
def test_the_server_is_asked_for() -> None:
    done = run("serve")
    assert (done.returncode, done.stdout) == (1, "")
    assert how_to_install("server") in done.stderr
