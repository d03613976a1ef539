"""The workflows: their permissions, and that each of their commands works here or says why not."""

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
from tools.dist.contents import ROOT
from tools.workflows import DIRECTORY, PUBLISHERS, jobs, steps, tag, workflows

PINNED = re.compile(r"uses: (?P<action>[\w-]+/[\w-]+)@(?P<commit>[0-9a-f]{40})  # (?P<version>v\d+\.\d+\.\d+)$")
JOBS = jobs()
MAKEFILE = (ROOT / "Makefile").read_text("utf-8")


def test_every_action_is_pinned_to_one_commit_that_is_named() -> None:
    lines = [line.strip() for path in DIRECTORY.glob("*.yml") for line in path.read_text("utf-8").splitlines()]
    pins = {line: PINNED.fullmatch(line.removeprefix("- ")) for line in lines if "uses:" in line}
    assert [line for line, pin in pins.items() if not pin] == []
    found = {pin.groups() for pin in pins.values() if pin}
    assert len(found) == len({action for action, _, _ in found})


@pytest.mark.parametrize("name", workflows())
def test_a_workflow_may_only_read(name: str) -> None:
    workflow = workflows()[name]
    assert workflow["permissions"] == {"contents": "read"}
    assert workflow["concurrency"]["group"] == f"{name}-${{{{ github.ref }}}}"


@pytest.mark.parametrize("name", JOBS)
def test_a_job_ends_and_keeps_no_credentials(name: str) -> None:
    assert JOBS[name]["timeout-minutes"] <= 60
    for step in JOBS[name]["steps"]:
        if step.get("uses", "").startswith("actions/checkout@"):
            assert step["with"]["persist-credentials"] is False
        assert "${{" not in step.get("run", ""), "an expression in a command is text of a stranger's"


def needed(workflow: str, name: str) -> set[str]:
    """The jobs that must succeed before the job `name` of a workflow."""
    needs: str | list[str] = JOBS[f"{workflow}/{name}"].get("needs", [])
    direct = {needs} if isinstance(needs, str) else set(needs)
    return direct.union(*(needed(workflow, other) for other in direct))


def test_nothing_else_may_publish() -> None:
    powerful = {name for name, job in JOBS.items() if "permissions" in job or "environment" in job}
    assert powerful == {f"{workflow}/publish" for workflow in PUBLISHERS}
    # PyPI identifies pending publishers by repository, workflow and environment, so no two may share all three.
    assert len({JOBS[name]["environment"] for name in powerful}) == len(powerful)


@pytest.mark.parametrize("workflow", PUBLISHERS)
def test_only_a_tag_is_published_after_everything_else(workflow: str) -> None:
    content = workflows()[workflow]
    assert content["concurrency"]["cancel-in-progress"] == "${{ github.event_name == 'pull_request' }}"
    publish = JOBS[f"{workflow}/publish"]
    assert publish["permissions"] == {"id-token": "write", "attestations": "write"}
    assert publish["if"] == "github.event_name == 'push' && github.ref_type == 'tag'"
    assert needed(workflow, "publish") == content["jobs"].keys() - {"publish"} != set()
    assert not any("run" in step for step in publish["steps"])
    assert not any("cache" in step.get("with", {}) for job in content["jobs"].values() for step in job["steps"])
    assert content[True]["push"] == {"tags": [f"{PUBLISHERS[workflow][0]}*"]}  # YAML 1.1 reads `on` as true


@pytest.mark.parametrize("workflow", PUBLISHERS)
def test_a_tag_that_is_not_the_version_is_refused(workflow: str) -> None:
    [command] = {step.command for step in steps() if step.job.startswith(workflow) and "REF_NAME" in step.command}

    def accepts(name: str) -> bool:
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        variables = {**os.environ, "PATH": path, "GITHUB_REF_NAME": name}
        return subprocess.run(["bash", "-e", "-c", command], cwd=ROOT, env=variables, check=False).returncode == 0

    assert accepts(tag(workflow))
    assert not accepts(f"{tag(workflow)}1")
    assert not any(accepts(tag(other)) for other in PUBLISHERS if other != workflow)


def test_vulnerabilities_are_looked_for_each_week() -> None:
    [schedule] = workflows()["advisories"][True]["schedule"]
    assert re.fullmatch(r"\d+ \d+ \* \* [0-6]", schedule["cron"])


@pytest.mark.parametrize("step", [*steps()], ids=lambda step: f"{step.job} {step.command.split()[-1]}")
def test_make_has_what_a_step_makes(step: Any) -> None:
    for target in re.findall(r"\bmake ([\w-]+)", step.command):
        assert re.search(rf"^([\w-]+ )*{target}( [\w-]+)*:", MAKEFILE, re.MULTILINE), target


def test_the_core_tests_are_the_same_everywhere() -> None:
    [paths] = re.findall(r"^CORE_TESTS := (.*)$", MAKEFILE, re.MULTILINE)
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["cibuildwheel"]
    pytest_command = settings["test-command"][0].split()
    assert pytest_command == ["pytest", "-q", *paths.split(), "tests/dist/installed.py"]
    assert set(pytest_command[2:]) <= set(settings["test-sources"])
    assert all((ROOT / source).exists() for source in settings["test-sources"])
    pages = re.findall(r'^ +\("([\w/-]+\.md)", \d+\),$', (ROOT / "tests/test_library_use.py").read_text(), re.MULTILINE)
    assert pages
    assert set(pages) <= set(settings["test-sources"])
