"""Generates clients from the OpenAPI document and compiles them, each with the program here that calls it."""

import importlib.resources
import os
import re
import shutil
import sys
import sysconfig
from collections.abc import Callable, Sequence
from pathlib import Path

from tests.harness.processes import completed
from tests.openapi.document import PATH
from tests.programs import NODE_MODULES, missing, node_program, program

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
SCRIPTS = Path(sysconfig.get_path("scripts"))
# Also contains Jackson, for the Java client.
GENERATOR = importlib.resources.files("openapi_generator_cli") / "openapi-generator.jar"
ANNOTATIONS = Path("/usr/share/java/jakarta-annotation-api.jar")

Command = Sequence[str | Path]

GUIDE = re.sub(r" \\\n +", " ", (ROOT / "docs" / "integrate" / "generators.md").read_text("utf-8"))
OPTIONS = dict(
    zip(
        ("go", "java", "typescript", "python"),
        map(str.split, re.findall(r" (?:-o |--output-path=)\S+ (-.*)$", GUIDE, re.MULTILINE)),
        strict=True,
    )
)


def make(command: Command, directory: Path, **variables: str) -> str:
    """Runs a generator or compiler, which must succeed; returns its output."""
    done = completed(command, cwd=directory, env={**os.environ, **variables}, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def _openapi_generator(language: str, directory: Path) -> None:
    java = program("java", "default-jdk-headless")
    make([java, "-jar", str(GENERATOR), "generate", "-i", PATH, "-o", directory, *OPTIONS[language]], HERE)


def go(directory: Path) -> Command:
    """openapi-generator's client, on the standard library alone."""
    compiler = program("go", "golang-go")
    _openapi_generator("go", directory / "colors")
    shutil.rmtree(directory / "colors" / "test")  # needs a package
    shutil.copy(HERE / "go" / "main.go", directory)
    (directory / "go.mod").write_text("module sepu\n\ngo 1.19\n")
    make([compiler, "vet", "./..."], directory, GOFLAGS="-mod=mod", GOPROXY="off")
    make([compiler, "build", "-o", "client", "."], directory, GOFLAGS="-mod=mod", GOPROXY="off")
    return [directory / "client"]


def java(directory: Path) -> Command:
    """openapi-generator's client, with Java's own HTTP client."""
    compiler = program("javac", "default-jdk-headless libjakarta-annotation-api-java")
    if not ANNOTATIONS.exists():
        missing(f"there is no {ANNOTATIONS} (Debian: apt install libjakarta-annotation-api-java)")
    _openapi_generator("java", directory)
    sources = [*(directory / "src" / "main").rglob("*.java"), HERE / "java" / "Main.java"]
    path = f"{directory}/classes:{GENERATOR}:{ANNOTATIONS}"
    make([compiler, "-nowarn", "-encoding", "UTF-8", "-cp", path, "-d", "classes", *sources], directory)
    return [program("java", ""), "-Dfile.encoding=UTF-8", "-cp", path, "Main"]


def typescript(directory: Path) -> Command:
    """openapi-typescript's types, strict, with openapi-fetch."""
    make([node_program("openapi-typescript"), PATH, "-o", directory / "colors.d.ts", *OPTIONS["typescript"]], directory)
    for name in ("main.ts", "tsconfig.json"):
        shutil.copy(HERE / "typescript" / name, directory)
    (directory / "package.json").write_text('{"type": "module"}')
    (directory / "node_modules").symlink_to(NODE_MODULES)
    make([node_program("tsc")], directory)
    return [program("node", "nodejs npm"), directory / "main.js"]


def python(directory: Path) -> Command:
    """openapi-python-client's client, with httpx."""
    where = [f"--path={PATH}", f"--output-path={directory / 'colors'}"]
    path = f"{SCRIPTS}:{os.environ['PATH']}"  # where it finds ruff
    generator = SCRIPTS / "openapi-python-client"
    make([generator, "generate", *where, *OPTIONS["python"], "--fail-on-warning"], directory, PATH=path)
    shutil.copy(HERE / "python" / "main.py", directory)
    return [sys.executable, directory / "main.py"]


CLIENTS: dict[str, Callable[[Path], Command]] = {"go": go, "java": java, "typescript": typescript, "python": python}
