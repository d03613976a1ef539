"""The examples of the pages in Python, for both type checkers."""

import json
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent

import pytest
from tests.harness.processes import completed
from tests.programs import node_program

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "client" / "README.md", *sorted(ROOT.glob("docs/**/*.md"))]
SOURCES = [str(ROOT / "src"), str(ROOT / "client" / "src")]
SESSION = re.compile(r"^(?:>>> |\.\.\. ?|>>>$)(.*)$", re.MULTILINE)


def programs() -> Iterator[tuple[str, str]]:
    """Yields a name and a program for each page: its sessions follow each other, other blocks stand alone."""
    for page in PAGES:
        name = re.sub(r"\W", "_", str(page.relative_to(ROOT).with_suffix("")))
        blocks = re.findall(r"^( *)```(pycon|python)\n(.*?)^ *```$", page.read_text("utf-8"), re.MULTILINE | re.DOTALL)
        sessions = [code for _, kind, code in blocks if kind == "pycon"]
        if sessions:
            yield f"{name}.py", "\n".join("\n".join(SESSION.findall(dedent(code))) for code in sessions) + "\n"
        for number, code in enumerate(code for _, kind, code in blocks if kind == "python"):
            yield f"{name}_{number}.py", dedent(code)


@pytest.fixture(scope="module")
def examples(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("examples")
    for name, program in programs():
        (directory / name).write_text(program, "utf-8")
    return directory


def check(command: list[str], directory: Path) -> None:
    environment = os.environ | {"MYPYPATH": os.pathsep.join(SOURCES)}
    done = completed(command, cwd=directory, env=environment, timeout=None)
    assert done.returncode == 0, done.stdout + done.stderr


def test_mypy_takes_each_example(examples: Path) -> None:
    cache = ["--cache-dir", str(ROOT / ".mypy_cache" / "examples")]
    options = ["--config-file", "", "--ignore-missing-imports", *cache]
    check([sys.executable, "-m", "mypy", *options, *sorted(file.name for file in examples.glob("*.py"))], examples)


def test_pyright_takes_each_example(examples: Path) -> None:
    settings = {"extraPaths": SOURCES, "reportMissingImports": False, "reportUnusedExpression": False}
    (examples / "pyrightconfig.json").write_text(json.dumps(settings))
    check([node_program("pyright"), "--pythonpath", sys.executable, "--project", "."], examples)
