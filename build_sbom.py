"""Describes a wheel with a CycloneDX SBOM, for build_backend.py. The client's is a link to it."""

import json
import os
from collections.abc import Iterator
from datetime import UTC, datetime
from importlib.metadata import Distribution, distribution
from pathlib import Path
from uuid import NAMESPACE_URL, uuid5

from cyclonedx.contrib.license.factories import LicenseFactory
from cyclonedx.model import HashAlgorithm, HashType, Property
from cyclonedx.model.bom import Bom, BomMetaData
from cyclonedx.model.component import Component, ComponentScope, ComponentType
from cyclonedx.model.lifecycle import LifecyclePhase, PredefinedLifecycle
from cyclonedx.model.tool import ToolRepository
from cyclonedx.output.json import JsonV1Dot6
from packageurl import PackageURL
from packaging.requirements import Requirement

TOOLS = ("setuptools", "cyclonedx-python-lib")
CORE = Path("cext")
RELEASE = Path("data", "release", "manifest.json")


def sbom(project: Distribution) -> str:
    """Returns a project's SBOM, from its metadata: itself, its parts and its requirements."""
    component = described(project)
    component.components = [*parts(project)]
    date = os.environ.get("SOURCE_DATE_EPOCH")
    bom = Bom(
        # The same build has the same number.
        serial_number=uuid5(NAMESPACE_URL, f"{component.purl}#{date}") if date else None,
        metadata=BomMetaData(
            component=component,
            lifecycles=[PredefinedLifecycle(LifecyclePhase.BUILD)],
            timestamp=datetime.fromtimestamp(int(date), UTC) if date else None,
            tools=ToolRepository(components=[*(described(distribution(name)) for name in TOOLS), *further_tools()]),
        ),
        components=requirements(project),
    )
    bom.register_dependency(component, bom.components)
    return JsonV1Dot6(bom).output_as_string(indent=1) + "\n"


def further_tools() -> Iterator[Component]:
    """Yields the other tools that make the wheel: SBOM_TOOLS, such as "ziglang==0.17.1 auditwheel==6.8.2"."""
    for tool in os.environ.get("SBOM_TOOLS", "").split():
        name, _, version = tool.partition("==")
        purl = PackageURL("pypi", name=name, version=version)
        yield Component(name=name, version=version, bom_ref=str(purl), purl=purl)


def described(found: Distribution, description: str | None = None) -> Component:
    """Describes a distribution of a known version."""
    purl = PackageURL("pypi", name=found.name.lower(), version=found.version)
    # Older metadata has only License; CPython 3.15 raises for a missing one.
    named = next(name for name in ("License-Expression", "License") if name in found.metadata)
    licence = found.metadata[named]
    return Component(
        name=found.name,
        version=found.version,
        bom_ref=str(purl),
        purl=purl,
        description=description or found.metadata["Summary"],
        licenses=[LicenseFactory().make_from_string(licence)],
    )


def parts(project: Distribution) -> Iterator[Component]:
    """Yields the parts of the wheel that have their own version."""
    if CORE.exists():
        yield described(distribution("cython"), "The code that Cython adds to the compiled modules")
    if RELEASE.exists():
        release = json.loads(RELEASE.read_text("utf-8"))
        yield Component(
            type=ComponentType.DATA,
            name=f"{project.name}-library",
            version=release["version"],
            bom_ref=f"{project.name}-library@{release['version']}",
            description=f"The library of {release['recordCount']} colours",
            hashes=[HashType(alg=HashAlgorithm.SHA_256, content=release["librarySha256"])],
        )


def requirements(project: Distribution) -> list[Component]:
    """Returns the packages that the wheel requires, optional if only for an extra; the versions are not known."""
    found: dict[str, list[Requirement]] = {}
    for requirement in map(Requirement, project.requires or []):
        if requirement.name != project.name:  # one extra may ask for another
            found.setdefault(requirement.name, []).append(requirement)
    return [
        Component(
            name=name,
            bom_ref=f"pkg:pypi/{name}",
            purl=PackageURL("pypi", name=name),
            scope=(
                ComponentScope.OPTIONAL
                if all("extra ==" in str(requirement.marker) for requirement in asked)
                else ComponentScope.REQUIRED
            ),
            properties=[Property(name="Requires-Dist", value=str(requirement)) for requirement in asked],
        )
        for name, asked in found.items()
    ]
