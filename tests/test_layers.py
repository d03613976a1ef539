"""The boundaries of the rooms: who may import whom. The layout is the architecture."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "sepu"
MAY_IMPORT = {
    "library": {"library"},
    "operations": {"operations", "library"},
    "metering": {"metering"},
    "http": {"http", "operations", "library", "metering"},
    "server": {"server", "http", "library", "metering"},
    "cli": {"cli", "server", "http", "operations", "library", "metering"},
}
FOREIGN = {
    "falcon": {"http"},
    "psycopg": {"metering", "cli"},
    "prometheus_client": {"server"},
    "psycopg_pool": {"metering"},
    "gunicorn": {"server"},
    "click": {"cli", "library"},  # the release is built by a command
    "rich": {"cli"},
    "joserfc": {"metering"},
}


def imports(file: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(file.read_text("utf-8"))):
        match node:
            case ast.Import(names=names):
                yield from (name.name for name in names)
            case ast.ImportFrom(module=str(module), level=0, names=names):
                yield from (f"{module}.{name.name}" for name in names)
            case ast.ImportFrom():
                pytest.fail(f"{file}: a relative import")


@pytest.mark.parametrize("room", MAY_IMPORT)
def test_a_room_imports_only_what_it_may_know(room: str) -> None:
    for file in (SOURCE / room).rglob("*.py"):
        for name in imports(file):
            package, _, rest = name.partition(".")
            if package == "sepu" and rest and not rest.startswith(("_", "errors.", "limits")):
                assert rest.partition(".")[0] in MAY_IMPORT[room], f"{file}: {name}"
            if package in FOREIGN:
                assert room in FOREIGN[package], f"{file}: {name}"


def test_no_private_name_of_another_package() -> None:
    """What is not public may change with any release of it. meinheld has no public way to what its worker needs."""
    for file in set(SOURCE.rglob("*.py")) - {SOURCE / "server" / "meinheld.py"}:
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            match node:
                case ast.Attribute(value=ast.Name(id="self" | "cls")):
                    continue
                case ast.Attribute(attr=name):
                    private = name.startswith("_") and not name.endswith("__") and ast.unparse(node) != "os._exit"
                case ast.ImportFrom(module=str(module), names=names):
                    parts = [*module.split("."), *(imported.name for imported in names)]
                    private = not module.startswith("sepu") and any(part.startswith("_") for part in parts)
                case _:
                    continue
            assert not private, f"{file}:{node.lineno}: {ast.unparse(node)}"


def test_every_room_is_listed() -> None:
    assert {path.name for path in SOURCE.iterdir() if (path / "__init__.py").exists()} == set(MAY_IMPORT)


def test_sql_lives_in_sql_files() -> None:
    for file in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                words = node.value.split()[:2]
                assert len(words) < 2 or words[0] not in {"select", "insert", "update", "delete", "create"}, (
                    f"{file}: {words}"
                )
