"""Which layer may import which. These tests read the table in CONTRIBUTING.md."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "sepu"
CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
CHANGES = (ROOT / "docs" / "develop" / "parts.md").read_text("utf-8").partition("\n## The core\n")[0]
# By layer: the other layers and the restricted packages that it may import.
MAY_IMPORT = {
    layer: set(re.findall(r"`(\w+)`", names))
    for layer, names in re.findall(r"^\| `src/sepu/(\w+)/` \|.*\|(.*)\|$", CONTRIBUTING, re.MULTILINE)
}
SHARED = ("errors.", "extras.", "labels.", "limits", "outgoing.", "printable.", "shell.")
SQL = ("select", "insert", "update", "delete", "create", "alter", "drop", "truncate", "lock")
RESTRICTED = set().union(*MAY_IMPORT.values()) - MAY_IMPORT.keys()


def imports(file: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(file.read_text("utf-8"))):
        match node:
            case ast.Import(names=names):
                yield from (name.name for name in names)
            case ast.ImportFrom(module=str(module), level=0, names=names):
                yield from (f"{module}.{name.name}" for name in names)
            case ast.ImportFrom():
                pytest.fail(f"{file}: a relative import")


@pytest.mark.parametrize("layer", MAY_IMPORT)
def test_a_layer_imports_only_what_it_may(layer: str) -> None:
    for file in (SOURCE / layer).rglob("*.py"):
        for name in imports(file):
            package, _, rest = name.partition(".")
            if package == "sepu" and rest and not rest.startswith(("_", *SHARED)):
                assert rest.partition(".")[0] in {layer, *MAY_IMPORT[layer]}, f"{file}: {name}"
            if package in RESTRICTED:
                assert package in MAY_IMPORT[layer], f"{file}: {name}"


def test_the_table_lists_every_layer_and_each_may_import_only_those_above_it() -> None:
    above: set[str] = set()
    for layer, names in MAY_IMPORT.items():
        assert names - RESTRICTED <= above, layer
        above.add(layer)
    assert {path.name for path in SOURCE.iterdir() if (path / "__init__.py").exists()} == above


@pytest.mark.parametrize(("top", "never"), [("bench", r"tests(?!\.harness\b)"), ("tests", r"bench\b")])
def test_tests_and_benchmarks_share_the_harness_alone(top: str, never: str) -> None:
    taken = re.compile(rf"^\s*(?:from|import) {never}", re.MULTILINE)
    assert [file for file in (ROOT / top).rglob("*.py") if taken.search(file.read_text("utf-8"))] == []


def test_the_table_of_changes_names_files_that_exist() -> None:
    files = re.findall(r"^\| [^|]+ \| `([^`]+)`", CHANGES, re.MULTILINE)
    assert len(files) > 20
    assert [file for file in files if not (ROOT / file).exists()] == []


def test_no_private_name_of_another_package() -> None:
    """Private names may change with any release. meinheld has no public interface for what its worker needs."""
    for file in set(SOURCE.rglob("*.py")) - {SOURCE / "server" / "meinheld.py"}:
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            match node:
                case ast.Attribute(value=ast.Name(id="self" | "cls") | ast.Call(func=ast.Name(id="super"))):
                    continue
                case ast.Attribute(attr=name):
                    private = name.startswith("_") and not name.endswith("__") and ast.unparse(node) != "os._exit"
                case ast.ImportFrom(module=str(module), names=names):
                    parts = [*module.split("."), *(imported.name for imported in names)]
                    private = not module.startswith("sepu") and any(part.startswith("_") for part in parts)
                case _:
                    continue
            assert not private, f"{file}:{node.lineno}: {ast.unparse(node)}"


@pytest.mark.parametrize("root", [SOURCE, ROOT / "client" / "src" / "sepu_client"], ids=lambda path: path.name)
def test_no_modules_import_each_other(root: Path) -> None:
    """Not even within functions or for types."""
    files = {".".join(file.relative_to(root.parent).with_suffix("").parts): file for file in root.rglob("*.py")}
    left = {
        module: {name for found in imports(file) for name in (found, found.rpartition(".")[0])} & files.keys()
        for module, file in files.items()
    }
    while found := {module for module, names in left.items() if not names & left.keys()}:
        left = {module: names for module, names in left.items() if module not in found}
    assert not left


def test_sql_lives_in_sql_files() -> None:
    for file in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                words = node.value.split()[:2]
                assert len(words) < 2 or words[0] not in {*SQL, *map(str.upper, SQL)}, f"{file}: {words}"
