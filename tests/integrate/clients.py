"""The clients of docs/integrate, run as their users run them."""

import json
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.harness.processes import completed
from tests.programs import missing, program

CODE = Path(__file__).parents[2] / "docs" / "integrate"
TIMEOUT, DEADLINE = 2, 20  # a client's, in seconds


def _built(command: list[str | Path], directory: Path) -> None:
    done = completed(command, env={**os.environ, "GOCACHE": str(directory / "cache"), "GO111MODULE": "off"})
    assert done.returncode == 0, done.stderr


def _node(directory: Path) -> list[str]:  # noqa: ARG001
    node = program("node", "nodejs")
    version = completed([node, "--version"]).stdout
    if int(version[1:].split(".")[0]) < 18:
        missing(f"node {version} is older than 18")
    return [node, str(CODE / "sepu.mjs")]


def _go(directory: Path) -> list[str]:
    _built([program("go", "golang-go"), "build", "-o", directory / "sepu", CODE / "sepu.go"], directory)
    return [str(directory / "sepu")]


def _java(directory: Path) -> list[str]:
    _built([program("javac", "default-jdk-headless"), "-d", directory, CODE / "Sepu.java"], directory)
    return [program("java", "default-jdk-headless"), "-cp", str(directory), "Sepu"]


def _php(directory: Path) -> list[str]:  # noqa: ARG001
    php = program("php", "php-cli php-curl")
    if completed([php, "-r", "exit(extension_loaded('curl') ? 0 : 1);"]).returncode:
        missing("php has no curl (Debian: apt install php-curl)")
    return [php, str(CODE / "sepu.php")]


def _shell(directory: Path) -> list[str]:  # noqa: ARG001
    program("curl", "curl")
    return [program("sh", "dash"), str(CODE / "sepu.sh")]


# Each prepares a directory and returns the command.
CLIENTS = {"node": _node, "go": _go, "java": _java, "php": _php, "shell": _shell}


@dataclass
class Said:
    """A client's output. Its last line has `key` and the outcome."""

    code: int
    out: str
    err: str

    @property
    def body(self) -> Any:
        return json.loads(self.out)

    @property
    def told(self) -> str:
        return self.err.splitlines()[-1]

    @property
    def key(self) -> str:
        found = re.search(r"(?:charged|replayed|its key was) ([\w.:-]+)", self.told)
        assert found, self.err
        return found[1].rstrip(":")


def run(command: list[str], url: str, api_key: str, *given: str, key: str = "", deadline: int = DEADLINE) -> Said:
    """Runs a client to its end; `key` is an idempotency key. Empty settings are left out."""
    settings = {
        "SEPU_URL": url,
        "SEPU_API_KEY": api_key,
        "SEPU_IDEMPOTENCY_KEY": key,
        "SEPU_TIMEOUT": str(TIMEOUT),
        "SEPU_DEADLINE": str(deadline),
    }
    environment = {name: value for name, value in settings.items() if value}
    done = completed([*command, *given], env={"PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8", **environment})
    return Said(done.returncode, done.stdout, done.stderr)
