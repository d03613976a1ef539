"""sepu as a library: what `import sepu` gives, and the examples of its documentation."""

import ast
import doctest
import inspect
import re
import subprocess
import sys
from pathlib import Path

import pytest

import sepu
import sepu._names

ROOT = Path(__file__).parents[1]


def run(examples: str, name: str) -> doctest.TestResults:
    return doctest.DocTestRunner().run(doctest.DocTestParser().get_doctest(examples, {}, name, name, 0))


@pytest.mark.parametrize(("name", "least"), [("docs/library.md", 16), ("docs/package.md", 5)])
def test_the_examples_of_a_page(name: str, least: int) -> None:
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
    assert set(sepu.__all__) <= set(dir(sepu))
    for name in sepu.__all__:
        assert inspect.getdoc(getattr(sepu, name)), name
    with pytest.raises(AttributeError, match="no attribute 'palete'"):
        sepu.palete  # type: ignore[attr-defined]  # noqa: B018


def test_the_stub_of_the_index_says_what_the_index_says() -> None:
    tree = ast.parse((ROOT / "src" / "sepu" / "_names.pyi").read_text("utf-8"))
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            thing = getattr(sepu._names, node.name)
            same(node, thing)
            for member in node.body:
                if isinstance(member, ast.FunctionDef):
                    same(member, getattr(thing, member.name))


def same(node: ast.FunctionDef | ast.ClassDef, thing: object) -> None:
    written = ast.get_docstring(node)
    assert written is None or written == inspect.getdoc(thing), node.name
