"""Builds as setuptools does, and adds what setuptools cannot yet: a CycloneDX SBOM (PEP 770) in each wheel, and the
commit in the version of whatever was not released.

The backend that pyproject.toml names. The client's is a link to it.
"""

import atexit
import os
import re
import shutil
import subprocess
import tomllib
from contextlib import suppress
from importlib.metadata import PathDistribution
from pathlib import Path
from tempfile import TemporaryDirectory, mkdtemp
from typing import Any

from setuptools import build_meta
from setuptools.build_meta import (
    build_editable,
    build_sdist,
    get_requires_for_build_editable,
    get_requires_for_build_sdist,
    get_requires_for_build_wheel,
    prepare_metadata_for_build_editable,
)

__all__ = [
    "build_editable",
    "build_sdist",
    "build_wheel",
    "get_requires_for_build_editable",
    "get_requires_for_build_sdist",
    "get_requires_for_build_wheel",
    "prepare_metadata_for_build_editable",
    "prepare_metadata_for_build_wheel",
]

# The prefix of a release's tag, by project.
TAGS = {"sepu": "v", "sepu-client": "client-v"}

Settings = dict[str, Any] | None


def _local_version() -> str:
    """Returns the local part of the version (PEP 440): the commit, or nothing for the commit with the version's tag.

    GIT_DIR may name the history of a copied directory. Without history it is COMMIT from the environment, such as in a
    Dockerfile, or `unknown`.
    """
    root = Path(__file__).resolve().parent
    project = tomllib.loads(Path("pyproject.toml").read_text("utf-8"))["project"]
    tag = TAGS[project["name"]] + project["version"]

    def git(*arguments: str) -> str:
        command = ["git", "-c", "safe.directory=*", "-C", str(root), *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()  # noqa: S603

    with suppress(OSError, subprocess.CalledProcessError):
        if not git("rev-parse", "--show-prefix"):  # else the repository is another one around this directory
            changed = ".changed" if git("status", "--porcelain", "--untracked-files=no") else ""
            is_released = tag in git("tag", "--points-at", "HEAD").split() and not changed
            return "" if is_released else f"g{git('rev-parse', '--short=12', 'HEAD')}{changed}"
    given = os.environ.get("COMMIT", "")
    return f"g{given[:12]}" if re.fullmatch("[0-9a-f]{7,64}", given) else "unknown"


def _tag_version() -> None:
    """Lets setuptools add the local part to the version. A source distribution has it in its setup.cfg."""
    if Path("PKG-INFO").exists() or not (local := _local_version()):
        return
    settings = Path(mkdtemp(), "version.cfg")
    atexit.register(shutil.rmtree, settings.parent, ignore_errors=True)
    settings.write_text(f"[egg_info]\ntag_build = +{local}\n")
    os.environ["DIST_EXTRA_CONFIG"] = str(settings)


_tag_version()


def prepare_metadata_for_build_wheel(metadata_directory: str, config_settings: Settings = None) -> str:
    """Makes the .dist-info directory, with the SBOM; returns its name."""
    from build_sbom import sbom  # an editable install needs neither the SBOM nor the library that makes it

    name = build_meta.prepare_metadata_for_build_wheel(metadata_directory, config_settings)
    made = Path(metadata_directory, name)
    project = PathDistribution(made)
    (made / "sboms").mkdir()
    (made / "sboms" / f"{project.name}.cdx.json").write_text(sbom(project))
    return name


def build_wheel(wheel_directory: str, config_settings: Settings = None, metadata_directory: str | None = None) -> str:
    """Builds the wheel around that .dist-info directory; returns its name."""
    # setuptools would pack what an older build left there, too.
    for left in [*Path("build").glob("lib*"), *Path("build").glob("bdist.*")]:
        shutil.rmtree(left)
    with TemporaryDirectory() as directory:
        if metadata_directory is None:
            metadata_directory = str(Path(directory, prepare_metadata_for_build_wheel(directory, config_settings)))
        return build_meta.build_wheel(wheel_directory, config_settings, metadata_directory)
