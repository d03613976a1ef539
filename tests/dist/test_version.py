"""The version of what is built: with the commit, unless it is a release."""

import os
import sys
import tomllib
from pathlib import Path
from tempfile import mkdtemp

import pytest
from tests.harness.processes import completed
from tests.programs import program
from tools.dist import build
from tools.dist.contents import Distribution
from tools.workflows import PUBLISHERS

pytestmark = pytest.mark.slow  # it tests our build

ROOT = Path(__file__).parents[2]
_BUILD = "import sys, build_backend; print(build_backend.prepare_metadata_for_build_editable(sys.argv[1]))"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    root = tmp_path / "project"
    root.mkdir()
    (root / "pyproject.toml").write_text(
        '[project]\nname = "sepu"\nversion = "1.2.0"\n[tool.setuptools]\npy-modules = []\n'
        '[build-system]\nrequires = ["setuptools"]\nbuild-backend = "build_backend"\nbackend-path = ["."]\n'
    )
    (root / "build_backend.py").write_bytes((ROOT / "build_backend.py").read_bytes())
    return root


def built(project: Path, **environment: str) -> str:
    """Returns the version that a build has."""
    command = [sys.executable, "-c", _BUILD, mkdtemp(dir=project.parent)]
    done = completed(command, cwd=project, env={**os.environ, **environment})
    assert done.returncode == 0, done.stderr
    return done.stdout.split()[-1].removeprefix("sepu-").removesuffix(".dist-info")


def git(project: Path, *arguments: str) -> str:
    program("git", "git")
    identity = ["-c", "user.name=Ada", "-c", "user.email=ada@example.com"]
    done = completed(["git", *identity, "-C", str(project), *arguments])
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def commit_all(project: Path) -> None:
    git(project, "init", "--quiet")
    (project / ".gitignore").write_text("*.egg-info\n__pycache__\n")
    git(project, "add", ".")
    git(project, "commit", "--quiet", "--message", "First")


def test_a_commit_is_named_and_a_release_is_not(project: Path) -> None:
    commit_all(project)
    commit = git(project, "rev-parse", "--short=12", "HEAD")
    assert built(project) == f"1.2.0+g{commit}"
    git(project, "tag", "v1.1.0")
    assert built(project) == f"1.2.0+g{commit}"
    git(project, "tag", "v1.2.0")
    assert built(project) == "1.2.0"
    (project / ".gitignore").write_text("*.egg-info\n")
    assert built(project) == f"1.2.0+g{commit}.changed"


def test_without_its_own_history_the_commit_is_given_or_unknown(project: Path) -> None:
    assert built(project) == "1.2.0+unknown"
    assert built(project, COMMIT="1a2b3c4d5e6f7a8b9c0d") == "1.2.0+g1a2b3c4d5e6f"
    assert built(project, COMMIT="; rm -rf /") == "1.2.0+unknown"
    git(project.parent, "init", "--quiet")  # another repository around it
    assert built(project) == "1.2.0+unknown"


@pytest.mark.parametrize("workflow", PUBLISHERS)
def test_what_is_published_of_a_tag_is_the_release(project: Path, workflow: str) -> None:
    """The sdist is made from a copy without history. PyPI refuses a version with a local part."""
    prefix, distribution = PUBLISHERS[workflow]
    name = tomllib.loads((distribution.root / "pyproject.toml").read_text("utf-8"))["project"]["name"]
    (project / "pyproject.toml").write_text((project / "pyproject.toml").read_text().replace("sepu", name))
    commit_all(project)
    [another] = {prefix for prefix, _ in PUBLISHERS.values()} - {prefix}
    for tag, local in ((another, f"+g{git(project, 'rev-parse', '--short=12', 'HEAD')}"), (prefix, "")):
        git(project, "tag", f"{tag}1.2.0")
        sdist = build.sdist(Distribution(project), project.parent / tag)
        assert sdist.name == f"{name.replace('-', '_')}-1.2.0{local}.tar.gz"
