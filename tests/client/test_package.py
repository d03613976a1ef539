"""The distribution: its requirements, and the examples of its pages."""

import doctest
import inspect
import re
import sys
from importlib.metadata import requires
from pathlib import Path

import pytest
from tests.client.conftest import url_of
from tests.harness.processes import completed
from tests.harness.serving import Server

import sepu_client
from sepu.admin.keys import IssuedKey
from sepu.operations import search
from sepu_client import calls

ROOT = Path(__file__).parents[2]


def test_it_trims_what_the_service_trims() -> None:
    assert calls._WHITE_SPACE == search._WHITE_SPACE


def test_it_needs_nothing_of_the_server() -> None:
    """Imports it where sepu and its requirements cannot be imported, and where, as in a zip, no metadata is found."""
    script = """
import importlib.metadata, sys
importlib.metadata.MetadataPathFinder.find_distributions = lambda *_: []
for name in ("sepu", "numpy", "falcon", "psycopg", "gunicorn", "rich", "click", "httpx", "uvloop"):
    sys.modules[name] = None
import sepu_client
sepu_client.Client("https://colors.example", "a-key").close()
assert sepu_client.__version__ == "unknown"
"""
    done = completed([sys.executable, "-c", script])
    assert (done.returncode, done.stderr) == (0, "")
    assert requires("sepu-client") == ["httptools>=0.9", "msgspec>=0.21", "tinycss2>=1.5"]
    assert Path(sepu_client.__file__).with_name("py.typed").exists()  # otherwise type checkers ignore its types


@pytest.mark.parametrize("page", ["docs/client.md", "docs/client-reference.md", "client/README.md"])
def test_the_examples_of_the_pages(
    uvloop: Server, issued: IssuedKey, monkeypatch: pytest.MonkeyPatch, page: str
) -> None:
    monkeypatch.setenv("SEPU_URL", url_of(uvloop))
    monkeypatch.setenv("SEPU_API_KEY", issued.api_key)
    text = (ROOT / page).read_text("utf-8")
    examples = "\n".join(re.findall(r"^```pycon\n(.*?)^```$", text, re.MULTILINE | re.DOTALL))
    ran = doctest.DocTestRunner().run(doctest.DocTestParser().get_doctest(examples, {}, page, page, 0))
    assert ran.attempted == text.count("\n>>> ") > 3
    assert ran.failed == 0


def test_the_pages_list_every_error_and_all_that_is_public() -> None:
    text = (ROOT / "docs" / "client.md").read_text("utf-8")
    reference = (ROOT / "docs" / "client-reference.md").read_text("utf-8")
    assert {*re.findall(r"^::: sepu_client\.(\w+)$", reference, re.MULTILINE), "__version__"} == {*sepu_client.__all__}
    listed = set(re.findall(r"^\| `(\w+Error)` ", text, re.MULTILINE))
    assert listed == {name for name in sepu_client.__all__ if name.endswith("Error")} - {"Error", "ApiError"}
    for name in listed:
        (row,) = re.findall(rf"^\| `{name}` .* \| (.*) \|$", text, re.MULTILINE)
        assert row == ("at the deadline" if getattr(sepu_client, name).retryable else "immediately")


def test_both_clients_have_the_same_methods() -> None:
    """Except `aclose`, asyncio's convention."""
    for name, method in vars(sepu_client.Client).items():
        if callable(method) and name[0] != "_" and name != "close":
            assert inspect.signature(method) == inspect.signature(getattr(sepu_client.AsyncClient, name)), name
