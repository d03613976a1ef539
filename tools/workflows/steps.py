"""The commands of the workflows, read from their files."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import msgspec
from tools.dist.contents import CLIENT, ROOT, SEPU

DIRECTORY = ROOT / ".github" / "workflows"


@dataclass(frozen=True)
class Step:
    """A command of a job, which is named workflow/job."""

    job: str
    command: str


# What can run only there, and why.
NOT_HERE = {
    Step("tests/gate", "sudo apt-get update\nsudo apt-get install --yes --no-install-recommends valgrind\n"): (
        "it changes the machine; without valgrind the gate says how to get it, and fails"
    ),
    Step(
        "tests/generators",
        "sudo apt-get update\nsudo apt-get install --yes --no-install-recommends "
        "default-jdk-headless golang-go libjakarta-annotation-api-java\n",
    ): "it changes the machine; what is missing fails a test, which says how to install it",
    Step(
        "tests/integrate",
        "sudo apt-get update\n"
        "sudo apt-get install --yes --no-install-recommends golang-go default-jdk-headless php-cli php-curl\n",
    ): "it changes the machine; without these programs `make integrate` fails, and names them",
    Step("wheels/check", "set -- dist/*.whl\ntest $# -eq 18\n"): (
        "the wheels for musl, other processors and macOS are built by actions"
    ),
}


# Which workflows publish, and the distributions by whose versions their tags are named.
PUBLISHERS = {"wheels": ("v", SEPU), "client": ("client-v", CLIENT)}


def tag(workflow: str) -> str:
    """The tag by which a workflow publishes what is checked out."""
    prefix, distribution = PUBLISHERS[workflow]
    return f"{prefix}{distribution.version}"


def workflows() -> dict[str, Any]:
    """Every workflow by its name."""
    return {path.stem: msgspec.yaml.decode(path.read_bytes()) for path in sorted(DIRECTORY.glob("*.yml"))}


def jobs() -> dict[str, Any]:
    """Every job by workflow/job."""
    return {
        f"{workflow}/{name}": job for workflow, content in workflows().items() for name, job in content["jobs"].items()
    }


def steps() -> Iterator[Step]:
    """Every command, in order."""
    for name, job in jobs().items():
        yield from (Step(name, step["run"]) for step in job["steps"] if "run" in step)
