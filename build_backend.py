"""Builds as setuptools does, and adds a CycloneDX SBOM (PEP 770) to each wheel, which setuptools cannot yet.

The backend that pyproject.toml names. The client's is a link to it.
"""

import shutil
from importlib.metadata import PathDistribution
from pathlib import Path
from tempfile import TemporaryDirectory
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

Settings = dict[str, Any] | None


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
