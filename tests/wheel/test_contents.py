"""What would be published, without compiling it: `make wheel` builds, checks and tries the real one."""

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from zipfile import ZipFile

import pytest
from tests.wheel import build
from tests.wheel.contents import ROOT, differences, held, listed, version

COMPILED = {"sepu/_names.abi3.so", "sepu/_palette.abi3.so"}


@pytest.fixture(scope="module")
def sdist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build.sdist(tmp_path_factory.mktemp("dist"))


def test_the_sdist_holds_what_is_listed(sdist: Path) -> None:
    assert differences(sdist) == []


def test_the_wheel_would_hold_what_is_listed(sdist: Path, tmp_path: Path) -> None:
    source = build.unpack(sdist, tmp_path)
    done = subprocess.run(
        [sys.executable, "setup.py", "--quiet", "build_py", "--build-lib", str(tmp_path / "lib")],
        cwd=source,
        capture_output=True,
        check=False,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    packed = {str(path.relative_to(tmp_path / "lib")) for path in files(tmp_path / "lib")}
    assert packed | COMPILED == {name for name in listed("wheel") if ".dist-info/" not in name}


def files(directory: Path) -> Iterator[Path]:
    return (path for path in directory.rglob("*") if path.is_file())


def test_the_sdist_is_the_same_every_time(sdist: Path, tmp_path: Path) -> None:
    assert build.sdist(tmp_path).read_bytes() == sdist.read_bytes()


def test_what_is_built_has_a_date_without_git(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SOURCE_DATE_EPOCH", raising=False)
    monkeypatch.setenv("PATH", "")
    assert build.source_date() == build.FIRST_OF_ZIP
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1767225600")
    assert build.source_date() == 1767225600


def test_a_difference_is_told_as_a_line_for_the_list(sdist: Path, tmp_path: Path) -> None:
    with ZipFile(tmp_path / f"sepu-{version()}-py3-none-any.whl", "w") as wheel:
        for name in {*listed("wheel"), "sepu/notes.txt"} - {"sepu/py.typed"}:
            wheel.writestr(name, "")
    assert differences(Path(str(wheel.filename))) == ["+ sepu/notes.txt", "- sepu/py.typed"]
    assert held(sdist) > {"setup.py", "cext/_names.pyx"}


def test_the_last_release_in_the_changelog_is_this_version() -> None:
    sections = re.findall(r"^## \[(.+?)\]", (ROOT / "CHANGELOG.md").read_text("utf-8"), re.MULTILINE)
    assert sections[0] == "Unreleased"
    assert sections[1:2] in ([], [version()])
