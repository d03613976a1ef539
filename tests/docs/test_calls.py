"""The calls that the reference shows with each operation, in each language: they run, and each is charged once."""

import os
import re
import sys
from pathlib import Path

import psycopg
import pytest
from tests.harness.processes import completed
from tests.harness.serving import Server
from tests.openapi.document import operations
from tests.programs import program
from tools.site.calls import CALLS, LANGUAGES

import sepu
from sepu.admin import accounts
from sepu.admin.usage import show_usage

CLIENTS = Path(__file__).parents[2] / "docs" / "integrate"


def copy(name: str, mark: str) -> str:
    """A client without its last part, as the page says to copy it."""
    return (CLIENTS / name).read_text("utf-8").partition(mark)[0]


def written(file: Path, text: str) -> Path:
    file.write_text(text, "utf-8")
    return file


def curl(_: Path, calls: list[str]) -> list[str]:
    program("curl", "curl")
    return ["bash", "-ec", "\n".join(call.removeprefix("$ ") for call in calls)]


def python(_: Path, calls: list[str]) -> list[str]:
    return [sys.executable, "-c", "\n".join([LANGUAGES["Python"][1], *calls])]


def node(directory: Path, calls: list[str]) -> list[str]:
    blocks = "\n".join(f"{{ {call}\n}}" for call in calls)
    text = f"{copy('sepu.mjs', '// An example')}\n{LANGUAGES['Node'][1]}\n{blocks}"
    return [program("node", "nodejs"), str(written(directory / "calls.mjs", text))]


def go(directory: Path, calls: list[str]) -> list[str]:
    blocks = "\n".join(f"{{\n{call}\n}}" for call in calls)
    main = "func main() {\nif err := run(context.Background()); err != nil {\npanic(err)\n}\n}\n"
    body = f"func run(ctx context.Context) error {{\n{LANGUAGES['Go'][1]}\n{blocks}\nreturn nil\n}}\n"
    file = written(directory / "calls.go", f"{copy('sepu.go', '// An example')}{main}{body}")
    return [program("go", "golang-go"), "run", str(file)]


def java(directory: Path, calls: list[str]) -> list[str]:
    program("javac", "default-jdk-headless")
    blocks = "\n".join(f"{{\n{call}\n}}" for call in calls)
    main = f"public static void main(String[] given) throws Exception {{\n{LANGUAGES['Java'][1]}\n{blocks}\n}}\n}}\n"
    file = written(directory / "Sepu.java", f"{copy('Sepu.java', '/** An example')}{main}")
    return [program("java", "default-jdk-headless"), "-Dfile.encoding=UTF-8", str(file)]


def php(directory: Path, calls: list[str]) -> list[str]:
    text = "\n".join([copy("sepu.php", "// An example"), LANGUAGES["PHP"][1], *calls])
    return [program("php", "php-cli php-curl"), str(written(directory / "calls.php", text))]


def shell(directory: Path, calls: list[str]) -> list[str]:
    program("curl", "curl")
    text = "\n".join(["set -e", copy("sepu.sh", "# An example"), *calls])
    return [program("sh", "dash"), str(written(directory / "calls.sh", text))]


PROGRAMS = {"curl": curl, "Python": python, "Node": node, "Go": go, "Java": java, "PHP": php, "Shell": shell}


@pytest.mark.slow
@pytest.mark.parametrize("language", PROGRAMS)
def test_the_calls_of_a_language_run(
    language: str, tmp_path: Path, connection: psycopg.Connection, uvloop: Server
) -> None:
    issued = accounts.create_account(connection, "standard")
    chosen = {operation: calls[language] for operation, calls in CALLS.items() if language in calls}
    done = completed(
        PROGRAMS[language](tmp_path, [*chosen.values()]),
        cwd=tmp_path,
        env={
            **os.environ,
            "GO111MODULE": "off",
            "GOCACHE": str(tmp_path / "cache"),
            "SEPU_URL": f"http://{uvloop.address}",
            "SEPU_API_KEY": issued.api_key,
        },
    )
    assert done.returncode == 0, done.stderr
    printed = {"matchColors": "Scarlet Silk", "searchColors": "Peach Blossom Pink", "getUsage": "color_search"}
    assert [text for operation, text in printed.items() if text not in done.stdout] == [], done.stdout
    assert ("getLibrary" in chosen) == (sepu.load().manifest.version in done.stdout.splitlines()[-1])
    assert [meter.committed for meter in show_usage(connection, issued.account_id).usage] == [1, 1]


def test_each_operation_is_shown_in_every_language_that_has_it() -> None:
    assert CALLS.keys() == {operation["operationId"] for _, _, operation in operations()}
    assert all(calls.keys() == PROGRAMS.keys() for operation, calls in CALLS.items() if operation != "getLibrary")
    assert LANGUAGES.keys() == PROGRAMS.keys()


def test_java_is_given_the_client_s_own_bounds() -> None:
    own = re.findall(
        r'getOrDefault\("SEPU_(?:TIMEOUT|DEADLINE)", "(\d+)"\)', (CLIENTS / "Sepu.java").read_text("utf-8")
    )
    assert re.findall(r"ofSeconds\((\d+)\)", LANGUAGES["Java"][1]) == own
