"""Faults of the distributions that `make wheel`, which builds, checks and tries them, does not find."""

import hashlib
import re
import runpy
import subprocess
import sys
import tomllib
from email import message_from_bytes
from email.policy import default
from importlib.metadata import distribution
from pathlib import Path
from sysconfig import get_platform
from typing import Any

import build_sbom
import pytest
from tests.harness.processes import completed
from tools.dist import build, check, tryout
from tools.dist.contents import CLIENT, SEPU, Distribution, tracked

DISTRIBUTIONS = {"sepu": SEPU, "sepu-client": CLIENT}
FENCED = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
TARGET = re.compile(
    r"""\]\(<?([^)>\s]*)|^ {0,3}\[[^]]+\]:\s*<?([^>\s]+)|\b(?:href|src)=["']?([^"'>\s]*)""", re.MULTILINE
)


@pytest.fixture(scope="module")
def sdists(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    directory = tmp_path_factory.mktemp("dist")
    return {name: build.sdist(distribution, directory) for name, distribution in DISTRIBUTIONS.items()}


@pytest.mark.slow
@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_the_sdist_holds_every_source(sdists: dict[str, Path], name: str) -> None:
    assert DISTRIBUTIONS[name].faults(sdists[name]) == []


@pytest.mark.slow
def test_a_wheels_tests_need_only_what_they_are_given(sdists: dict[str, Path], tmp_path: Path) -> None:
    """`make wheel` and cibuildwheel copy `test-sources`. All are collected; those that read files run too."""
    source = build.unpack(sdists["sepu"], tmp_path)
    settings = tomllib.loads((source / "pyproject.toml").read_text("utf-8"))["tool"]["cibuildwheel"]
    place = tmp_path / "trial"
    tryout.copy_sources(tryout.Trial(source, settings), place)
    without_client = "import sys, pytest; sys.modules['sepu_client'] = None; sys.exit(pytest.main(sys.argv[1:]))"
    pytest_run = [sys.executable, "-P", "-c", without_client, "-q", "-p", "no:cacheprovider"]
    for tests in (
        ["--collect-only", *settings["test-command"][0].split()[2:-1]],
        ["tests/library/test_build.py", "tests/library/test_release.py", "tests/test_library_use.py"],
    ):
        done = completed([*pytest_run, *tests], cwd=place)
        assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.slow
def test_a_wheel_holds_nothing_of_an_older_build(sdists: dict[str, Path], tmp_path: Path) -> None:
    """As when `pip install .` runs in a clone, where earlier builds leave directories."""
    source = build.unpack(sdists["sepu-client"], tmp_path)
    for left in ("build/lib/sepu_client/gone.py", f"build/bdist.{get_platform()}/wheel/sepu_client/gone.py"):
        (source / left).parent.mkdir(parents=True)
        (source / left).touch()
    script = "import sys, build_backend; build_backend.build_wheel(sys.argv[1])"
    done = completed([sys.executable, "-c", script, str(tmp_path)], cwd=source)
    assert done.returncode == 0, done.stderr
    [wheel] = tmp_path.glob("*.whl")
    assert CLIENT.faults(wheel) == []


@pytest.mark.slow
@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_the_description_leads_nowhere_that_pypi_has_not(sdists: dict[str, Path], tmp_path: Path, name: str) -> None:
    metadata = message_from_bytes((build.unpack(sdists[name], tmp_path) / "PKG-INFO").read_bytes(), policy=default)
    assert (metadata["Name"], metadata["Description-Content-Type"]) == (name, "text/markdown")
    assert "\n>>> " in metadata.get_content()
    text = FENCED.sub("", metadata.get_content())
    assert not re.search(r"!\[|<img\b", text), "a picture"
    targets = ["".join(target) for target in TARGET.findall(text)]
    assert [target for target in targets if not target.startswith("https://")] == []


def test_one_fault_is_enough(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    names = ("good", "stray", "bad")
    for name in names:
        (tmp_path / name).touch()
    monkeypatch.setattr(Distribution, "faults", lambda _, file: ["a stray file"] * (file.name == "stray"))
    monkeypatch.setattr(check, "tools", lambda file: [[f"/bin/{file.name != 'bad'}".lower()], ["/bin/true"]])
    assert [check.check(SEPU, [tmp_path / name, tmp_path / "good"]) for name in names] == [True, False, False]


def test_the_sbom_has_the_hash_of_the_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(SEPU.root)
    [[digest]] = [part.hashes for part in build_sbom.parts(distribution("sepu")) if part.name == "sepu-library"]
    assert digest.content == hashlib.sha256(Path("data", "release", "library.json").read_bytes()).hexdigest()


def test_processes_that_compile_the_core_may_read_setup_py(monkeypatch: pytest.MonkeyPatch) -> None:
    """multiprocessing imports it wherever it does not fork: by default on macOS, and on Linux from CPython 3.14."""
    monkeypatch.chdir(SEPU.root)
    assert "extensions" in runpy.run_path("setup.py", run_name="__mp_main__")


def test_the_wheel_gets_every_file_of_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    given: dict[str, Any] = {}
    monkeypatch.chdir(SEPU.root)
    monkeypatch.setattr("Cython.Build.cythonize", lambda *_, **__: [])
    monkeypatch.setattr("setuptools.setup", given.update)
    runpy.run_path("setup.py", run_name="__main__")
    found = {
        str(path.relative_to("src"))
        for package in given["packages"]
        for pattern in ("*.py", *given["package_data"].get(package, []))
        for path in Path("src", *package.split(".")).glob(pattern)
    }
    assert [name for name in SEPU.package() - found if not name.endswith(".so")] == []


def test_a_trial_is_told_nothing_of_our_database(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SEPU_DATABASE_URL", "postgresql://production")
    (tmp_path / "env" / "bin").mkdir(parents=True)
    trial = tryout.Trial(SEPU.root, {"before-test": "export -p", "test-sources": ["pyproject.toml"]})
    said: list[str] = []
    tryout.perform(trial, Path("no.whl"), "/bin/true", tmp_path, said.append)
    assert ("PATH=" in said[1], "SEPU_" in said[1]) == (True, False)


def test_each_lock_needs_wheels_on_each_platform(monkeypatch: pytest.MonkeyPatch) -> None:
    for lacking in check.PLATFORMS[SEPU]:
        monkeypatch.setattr(check, "installable", lambda *asked, lacking=lacking: asked[2] != lacking)
        assert not check.availability(SEPU)
    monkeypatch.setattr(check, "installable", lambda *_: True)
    assert check.availability(SEPU)


def test_only_what_git_tracks_is_published(tmp_path: Path) -> None:
    """New files are included by themselves; untracked and deleted ones are left out."""
    git = ["git", "-C", str(tmp_path), "-c", "core.excludesFile="]
    for name in ("src/new/module.py", "src/deleted.py", "data/index.bin", "src/stray.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    (tmp_path / "src" / "release").symlink_to(tmp_path / "data")
    subprocess.run([*git, "init", "--quiet"], check=True)
    subprocess.run([*git, "add", "src/new", "src/deleted.py", "src/release", "data"], check=True)
    (tmp_path / "src" / "deleted.py").unlink()
    assert {*tracked(tmp_path)} == {"src/new/module.py", "src/release/index.bin", "data/index.bin"}


@pytest.mark.parametrize("distribution", DISTRIBUTIONS.values(), ids=DISTRIBUTIONS)
def test_the_last_release_in_the_changelog_is_this_version(distribution: Distribution) -> None:
    text = (distribution.root / "CHANGELOG.md").read_text("utf-8")
    sections = re.findall(r"^## \[(.+?)\]", text, re.MULTILINE)
    assert sections[0] == "Unreleased"
    assert sections[1:2] in ([], [distribution.version])
