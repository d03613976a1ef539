"""`make workflows`: runs the workflows' commands in a fresh clone of the last commit. Exits with 1 if one fails.

Each command runs once, as GitHub's shell would run it: one `make test-all` stands for every Python of the matrix. Jobs
share the clone, so that a job finds in dist/ what another made, as its artifacts. Arguments name the jobs.
"""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import click
import msgspec
from tools.dist.contents import CLIENT, ROOT, SEPU

DIRECTORY = ROOT / ".github" / "workflows"


class Step(NamedTuple):
    """A command of a job, which is named workflow/job."""

    job: str
    command: str


# What can run only on GitHub, and why.
_INSTALL = "sudo apt-get update\nsudo apt-get install --yes --no-install-recommends"
NOT_HERE = {
    Step("tests/gate", f"{_INSTALL} valgrind\n"): (
        "it changes the machine; without valgrind the gate says how to get it, and fails"
    ),
    Step("tests/generators", f"{_INSTALL} default-jdk-headless golang-go libjakarta-annotation-api-java\n"): (
        "it changes the machine; what is missing fails a test, which says how to install it"
    ),
    Step("tests/integrate", f"{_INSTALL} golang-go default-jdk-headless php-cli php-curl\n"): (
        "it changes the machine; without these programs `make integrate` fails, and names them"
    ),
    Step("wheels/check", "set -- dist/*.whl\ntest $# -eq 18\n"): (
        "the wheels for musl, other processors and macOS are built by actions"
    ),
}

# The workflows that publish: the prefix of their tags, and the distribution whose version follows it.
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


def main(names: list[str]) -> int:
    """Runs the jobs of these names."""
    if unknown := set(names) - set(jobs()):
        sys.exit(f"no job: {', '.join(sorted(unknown))}; there are {', '.join(jobs())}")
    outcomes: dict[str, str] = {}
    with TemporaryDirectory(prefix="sepu-workflows-") as directory:
        clone = Path(directory) / "clone"
        subprocess.run(["git", "clone", "--quiet", str(ROOT), str(clone)], check=True)
        for step in steps():
            if (names and step.job not in names) or step.command in outcomes:
                continue
            if step in NOT_HERE:
                outcomes[step.command] = f"not here: {NOT_HERE[step]}"
                continue
            click.echo(f"\n== {step.job}: {step.command}")
            workflow = step.job.partition("/")[0]
            reference = tag(workflow) if workflow in PUBLISHERS else "main"
            variables = os.environ | {"GITHUB_REF_NAME": reference, "GITHUB_OUTPUT": f"{directory}/output"}
            start = time.monotonic()
            done = subprocess.run(["bash", "-e", "-c", step.command], cwd=clone, env=variables, check=False)
            outcome = "FAILED" if done.returncode else "works"
            outcomes[step.command] = f"{outcome}, {time.monotonic() - start:.0f} s"
    click.echo()
    for command, outcome in outcomes.items():
        click.echo(f"{' ; '.join(command.split(chr(10))).rstrip(' ;'):<60.60}  {outcome}")
    return int(any(outcome.startswith("FAILED") for outcome in outcomes.values()))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
