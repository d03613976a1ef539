"""Strict validators find nothing in the OpenAPI document, not even a warning."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.generators.toolchains import Command
from tests.harness.processes import completed
from tests.openapi.document import PATH
from tests.programs import NODE_MODULES, node_program, program

pytestmark = pytest.mark.slow

# Without network access or telemetry.
ENVIRONMENT = {**os.environ, "REDOCLY_TELEMETRY": "off", "REDOCLY_SUPPRESS_UPDATE_NOTICE": "true"}
PARSE = "(await import('@apidevtools/swagger-parser')).default.validate(process.argv[1])"


def swagger_cli(_: Path) -> Command:
    return [node_program("swagger-cli"), "validate"]


def swagger_parser(_: Path) -> Command:
    node_program("swagger-cli")  # from the same package.json
    return [program("node", "nodejs npm"), "--input-type=module", f"--eval={PARSE}", "--"]


def redocly(_: Path) -> Command:
    return [node_program("redocly"), "lint", "--extends=recommended-strict"]


def spectral(directory: Path) -> Command:
    rules = directory / "rules.yaml"
    rules.write_text("extends: spectral:oas\n")
    return [node_program("spectral"), "lint", f"--ruleset={rules}", "--fail-severity=hint"]


@pytest.mark.parametrize("validator", [swagger_cli, swagger_parser, redocly, spectral])
def test_a_validator_finds_nothing(validator: Callable[[Path], Command], tmp_path: Path) -> None:
    done = completed([*validator(tmp_path), PATH], cwd=NODE_MODULES.parent, env=ENVIRONMENT)
    assert done.returncode == 0, done.stdout + done.stderr
