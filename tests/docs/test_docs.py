"""The documentation says what is so."""

import doctest
import json
import os
import re
import shlex
import subprocess
from pathlib import Path

import psycopg
import pytest
from docs.site.notebook import NOTEBOOK, notebook
from docs.site.pictures import IMAGES, PICTURES
from PIL import Image
from tests.curl import Ask, by_curl, by_python, needs_curl
from tests.docs.examples import PAGES, reader, with_answers
from tests.serving import SEPU, Server

from sepu.admin import accounts

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "docs" / "package.md"
LIBRARY = ROOT / "docs" / "library.md"
PHOTOGRAPH = ROOT / "docs" / "photograph.md"


@pytest.mark.parametrize("ask", [pytest.param(by_curl, marks=needs_curl), by_python])
def test_examples_are_what_a_server_answers(ask: Ask, connection: psycopg.Connection, uvloop: Server) -> None:
    answers = {}
    for file in PAGES:
        key = accounts.create_account(connection, "standard").api_key
        page = file.read_text("utf-8")
        assert with_answers(page, reader(ask, uvloop.address, key)) == page
        answers[file.name] = page.count("\n{")
    assert answers == {"api.md": 7, "README.md": 2}


def test_customers_are_shown_the_attribution_to_keep() -> None:
    page = (ROOT / "docs" / "api.md").read_text("utf-8")
    rights = json.loads((ROOT / "data" / "release" / "rights.json").read_text("utf-8"))
    assert [line[4:] for line in page.splitlines() if line.startswith("> - ")] == [of["attribution"] for of in rights]


@pytest.mark.parametrize(("page", "columns"), [(PACKAGE, "100"), (LIBRARY, "80")])
def test_the_package_prints_what_its_pages_show(page: Path, columns: str) -> None:
    def run(command: str) -> str:
        if not command.startswith(("sepu match", "sepu image")):
            return ""
        done = subprocess.run(
            [SEPU, *shlex.split(command)[1:]],
            env={**os.environ, "COLUMNS": columns},
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=True,
        )
        return "".join(f"{line.rstrip()}\n" for line in done.stdout.splitlines())

    text = page.read_text("utf-8")
    assert with_answers(text, run) == text
    assert "绯红" in text


@pytest.mark.parametrize("name", PICTURES)
def test_pictures_are_of_this_library(name: str) -> None:
    assert (IMAGES / name).read_text("utf-8") == PICTURES[name]()


def test_the_notebook_is_what_its_page_does() -> None:
    """Running it gives the outputs that are in it."""
    assert NOTEBOOK.read_text("utf-8") == notebook()
    assert json.loads(notebook())["cells"][2]["outputs"][0]["data"]["text/html"][0].count("background:#") == 6


def test_the_page_of_the_photograph_prints_what_it_shows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(NOTEBOOK.parent)
    examples = "\n".join(re.findall(r"^```pycon\n(.*?)^```$", PHOTOGRAPH.read_text("utf-8"), re.MULTILINE | re.DOTALL))
    page = doctest.DocTestParser().get_doctest(examples, {}, PHOTOGRAPH.name, None, 0)
    ran = doctest.DocTestRunner().run(page, clear_globs=False)
    assert (ran.failed, ran.attempted > 10) == (0, True)
    named: Image.Image = page.globs["named"]
    with Image.open(IMAGES / "coffee-named.png") as shown:
        assert shown.convert("RGB").tobytes() == named.tobytes()
