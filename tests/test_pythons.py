"""The supported CPythons: those of pyproject.toml's classifiers, and the same wherever else they are named."""

import re
import tomllib
from itertools import chain

import pytest
from tools.dist.contents import CLIENT, FREE_THREADED, ROOT, SEPU
from tools.workflows import jobs

PYTHONS = SEPU.pythons
OLDEST, NEWEST = PYTHONS[0], PYTHONS[-1]
DOCUMENTS = [
    "README.md",
    "CHANGELOG.md",
    "client/README.md",
    "client/CHANGELOG.md",
    "docs/*.md",
    "requirements/check-python.sh",
]
SETUP = [
    (name, str(step["with"]["python-version"]))
    for name, job in jobs().items()
    for step in job["steps"]
    if step.get("uses", "").startswith("actions/setup-python@")
]
TRIED_ON_EACH = {
    "client/build": PYTHONS,
    **dict.fromkeys(("tests/wheel", "wheels/manylinux", "wheels/again"), PYTHONS + FREE_THREADED),
}


def text(name: str) -> str:
    return (ROOT / name).read_text("utf-8")


def test_the_client_supports_the_same_and_older_ones_install_neither() -> None:
    assert CLIENT.pythons == PYTHONS
    for name in ("pyproject.toml", "client/pyproject.toml"):
        assert tomllib.loads(text(name))["project"]["requires-python"] == f">={OLDEST}"


def test_a_wheel_is_tried_and_the_suite_has_to_pass_on_each() -> None:
    settings = tomllib.loads(text("pyproject.toml"))["tool"]["cibuildwheel"]
    assert settings["build"] == [f"cp{version.replace('.', '')}-*" for version in PYTHONS + FREE_THREADED]
    suite = jobs()["tests/suite"]
    assert suite["strategy"]["matrix"] == {"python": PYTHONS}
    assert "continue-on-error" not in suite


@pytest.mark.parametrize(("job", "asked"), SETUP, ids=[job for job, _ in SETUP])
def test_a_job_takes_one_of_them_or_all(job: str, asked: str) -> None:
    if job in TRIED_ON_EACH:
        assert sorted(asked.split()) == sorted(TRIED_ON_EACH[job])
        assert asked.split()[-1] == OLDEST  # the last one is `python3`
    else:
        assert asked in {*PYTHONS, "${{ matrix.python }}"}


def test_the_core_is_built_for_the_oldest_and_the_image_has_one_of_them() -> None:
    assert f'"Py_LIMITED_API": "0x03{int(OLDEST[2:]):02X}0000"' in text("setup.py")
    assert f'"py_limited_api": "cp{OLDEST.replace(".", "")}"' in text("setup.py")
    assert f"--universal --python-version {OLDEST} " in text("Makefile")
    assert f"sys.version_info < ({OLDEST.replace('.', ', ')})" in text("requirements/check-python.sh")
    assert set(re.findall(r"^FROM python:(\d\.\d+)-", text("Dockerfile"), re.MULTILINE)) <= set(PYTHONS)


def test_documents_name_the_oldest_and_the_newest() -> None:
    places: dict[str, set[str]] = {}
    for file in chain.from_iterable(ROOT.glob(pattern) for pattern in DOCUMENTS):
        for span in re.findall(r"3\.\d+\s+(?:to|or|and)\s+(?:3\.\d+|later|newer)", file.read_text("utf-8")):
            places.setdefault(" ".join(span.split()), set()).add(str(file.relative_to(ROOT)))
    meinheld = {"3.11 and 3.12"}
    assert places.keys() - meinheld == {f"{OLDEST} to {NEWEST}", f"{OLDEST} or later"}, places
    assert {"README.md", "docs/package.md", "docs/versioning.md"} <= places[f"{OLDEST} to {NEWEST}"]
