"""`make workflows`: runs the workflows' commands in a fresh clone of the last commit. Exits with 1 if one fails.

Each command runs once, as GitHub's shell would run it: one `make test-all` stands for every Python of the matrix. Jobs
share the clone, so that a job finds in dist/ what another made, as its artifacts. Arguments name the jobs.
"""

import os
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import click
from tools.dist.contents import ROOT
from tools.workflows.steps import NOT_HERE, PUBLISHERS, Step, jobs, steps, tag


def run(step: Step, clone: Path) -> bool:
    """Runs one command; its output is shown as it comes."""
    workflow = step.job.partition("/")[0]
    reference = tag(workflow) if workflow in PUBLISHERS else "main"
    variables = os.environ | {"GITHUB_REF_NAME": reference, "GITHUB_OUTPUT": str(clone.parent / "output")}
    return subprocess.run(["bash", "-e", "-c", step.command], cwd=clone, env=variables, check=False).returncode == 0


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
            start = time.monotonic()
            good = run(step, clone)
            outcomes[step.command] = f"{'works' if good else 'FAILED'}, {time.monotonic() - start:.0f} s"
    click.echo()
    for command, outcome in outcomes.items():
        click.echo(f"{' ; '.join(command.split(chr(10))).rstrip(' ;'):<60.60}  {outcome}")
    return int(any(outcome.startswith("FAILED") for outcome in outcomes.values()))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
