"""sepu as a library: the contents of `import sepu`, and the examples of its documentation."""

import ast
import doctest
import importlib
import inspect
import pkgutil
import pydoc
import re
import runpy
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

import sepu
import sepu._index_builder
import sepu._names
import sepu._palette

ROOT = Path(__file__).parents[1]


def run(examples: str, name: str) -> doctest.TestResults:
    return doctest.DocTestRunner().run(doctest.DocTestParser().get_doctest(examples, {}, name, name, 0))


@pytest.mark.parametrize(
    ("name", "least"),
    [
        ("README.md", 3),
        ("docs/library.md", 16),
        ("docs/package.md", 4),
        ("docs/photograph.md", 11),
        ("docs/python.md", 4),
        ("docs/python-reference.md", 20),
    ],
)
def test_the_examples_of_a_page(name: str, least: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT / "docs")  # where the photograph is
    page = (ROOT / name).read_text("utf-8")
    examples = "\n".join(re.findall(r"^```pycon\n(.*?)^```$", page, re.MULTILINE | re.DOTALL))
    failed, attempted = run(examples, name)
    assert attempted == page.count("\n>>> ") >= least
    assert failed == 0


def test_the_example_of_the_package() -> None:
    assert sepu.__doc__ is not None
    failed, attempted = run(sepu.__doc__, "sepu")
    assert attempted > 3
    assert failed == 0


def test_importing_sepu_alone_imports_nothing_heavy() -> None:
    script = "import sys; before = set(sys.modules); import sepu; print(*sorted(set(sys.modules) - before))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, check=True, text=True)
    assert not {"numpy", "msgspec", "sepu._palette", "sepu._names", "sepu.library"} & set(done.stdout.split())


def test_everything_public_is_there_and_documented() -> None:
    assert len(pydoc.render_doc(sepu).splitlines()) < 100, "help(sepu) is a page"
    public = {name for name in dir(sepu) if not name.startswith("__")}
    page = (ROOT / "docs" / "python-reference.md").read_text("utf-8")
    assert public == set(re.findall(r"^::: sepu\.(\w+)$", page, re.MULTILINE))
    for name in public - {"ColorLike"}:
        thing = getattr(sepu, name)
        assert inspect.getdoc(thing), name
        if callable(thing) and not (isinstance(thing, type) and issubclass(thing, Exception)):
            assert "*args" not in str(inspect.signature(thing)), name
    with pytest.raises(AttributeError, match="no attribute 'palete'"):
        sepu.palete  # type: ignore[attr-defined]  # noqa: B018


@pytest.mark.parametrize("core", [sepu._index_builder, sepu._names, sepu._palette], ids=lambda core: core.__name__)
def test_the_stub_of_the_core_says_what_the_core_says(core: ModuleType) -> None:
    """Signatures, which editors take from the stub and `help` from the core, and docstrings."""
    stub = Path(sepu.__file__).with_name(f"{core.__name__.removeprefix('sepu.')}.pyi")
    tree = ast.parse(stub.read_text("utf-8"))
    for node in tree.body:
        if isinstance(node, ast.FunctionDef):
            same(node, getattr(core, node.name))
        elif isinstance(node, ast.ClassDef):
            made = getattr(core, node.name)
            assert ast.get_docstring(node) in (None, inspect.getdoc(made))
            for member in node.body:
                if isinstance(member, ast.FunctionDef) and not member.decorator_list:
                    same(member, made if member.name == "__init__" else getattr(made, member.name))


def same(node: ast.FunctionDef, thing: Callable[..., object]) -> None:
    if node.name != "__init__":
        assert ast.get_docstring(node) in (None, inspect.getdoc(thing))
    elif node.args.args[0].arg == "self":
        del node.args.args[0]
    for argument in ast.walk(node.args):
        if isinstance(argument, ast.arg):
            argument.annotation = None
    stub: dict[str, Callable[..., object]] = {}
    exec(f"def written({ast.unparse(node.args)}): ...", stub)
    assert inspect.signature(thing) == inspect.signature(stub["written"]), node.name


def test_the_signature_of_a_palette_is_what_it_takes() -> None:
    """The core's classes declare their signatures, which Python does not check."""
    named = {name: value.default for name, value in inspect.signature(sepu.Palette).parameters.items()}
    with pytest.raises(ValueError, match="needs either rgb or lab"):
        sepu.Palette(**named)
    assert sepu.Palette([(1, 2, 3)], **{name: value for name, value in named.items() if name != "rgb"}).size == 1
    with pytest.raises(TypeError, match="unexpected keyword"):
        sepu.Palette(**named, threads=2)  # type: ignore[call-arg]


def test_pyinstaller_gets_what_is_imported_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """PyInstaller sees the imports of Python files only. Tried with PyInstaller 6.22.3 on a wheel."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    module, _, function = project["entry-points"]["pyinstaller40"]["hook-dirs"].partition(":")
    [directory] = getattr(importlib.import_module(module), function)()
    hooks = ModuleType("PyInstaller.utils.hooks")
    vars(hooks).update(
        collect_data_files=lambda package: [f"files of {package}"],
        collect_submodules=lambda package: [
            f"{package}.{each.name}" for each in pkgutil.iter_modules(importlib.import_module(package).__path__)
        ],
        copy_metadata=lambda package: [f"metadata of {package}"],
    )
    for name in ("PyInstaller", "PyInstaller.utils", hooks.__name__):
        monkeypatch.setitem(sys.modules, name, hooks)
    hook = runpy.run_path(str(Path(directory, "hook-sepu.py")))
    assert hook["datas"] == ["files of sepu", "metadata of sepu"]
    compiled = {f"sepu.{file.name.partition('.')[0]}" for file in Path(sepu.__file__).parent.glob("*.pyi")}
    assert compiled | {*sepu._HOMES.values(), "sepu.labels"} <= {*hook["hiddenimports"]}
