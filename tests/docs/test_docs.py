"""The documentation says what is so."""

import json
import os
import shlex
import subprocess
from pathlib import Path

import psycopg
import pytest
from docs.site.pictures import IMAGES, PICTURES
from tests.curl import Ask, by_curl, by_python, needs_curl
from tests.docs.examples import PAGES, reader, with_answers
from tests.serving import SEPU, serving

from sepu.metering import accounts

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "docs" / "package.md"


@pytest.mark.parametrize("ask", [pytest.param(by_curl, marks=needs_curl), by_python])
def test_examples_are_what_a_server_answers(ask: Ask, connection: psycopg.Connection, service_url: str) -> None:
    answers = {}
    with serving("uvloop", service_url) as server:
        for file in PAGES:
            key = accounts.create_account(connection, "standard").api_key
            page = file.read_text("utf-8")
            assert with_answers(page, reader(ask, server.address, key)) == page
            answers[file.name] = page.count("\n{")
    assert answers == {"api.md": 7, "README.md": 2}


def test_customers_are_shown_the_attribution_to_keep() -> None:
    page = (ROOT / "docs" / "api.md").read_text("utf-8")
    rights = json.loads((ROOT / "data" / "release" / "rights.json").read_text("utf-8"))
    assert [line[4:] for line in page.splitlines() if line.startswith("> - ")] == [of["attribution"] for of in rights]


def test_the_package_prints_what_its_page_shows() -> None:
    def run(command: str) -> str:
        if not command.startswith("sepu match"):
            return ""
        done = subprocess.run(
            [SEPU, *shlex.split(command)[1:]],
            env={**os.environ, "COLUMNS": "100"},
            capture_output=True,
            text=True,
            check=True,
        )
        return "".join(f"{line.rstrip()}\n" for line in done.stdout.splitlines())

    page = PACKAGE.read_text("utf-8")
    assert with_answers(page, run) == page
    assert "绯红" in page


@pytest.mark.parametrize("name", PICTURES)
def test_pictures_are_of_this_library(name: str) -> None:
    assert (IMAGES / name).read_text("utf-8") == PICTURES[name]()
