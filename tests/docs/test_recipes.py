"""The recipes print what their pages show."""

import doctest
import os
import re
import sys
from importlib.util import find_spec
from pathlib import Path

import psycopg
import pytest
from tests.harness.processes import completed
from tests.harness.serving import SEPU, Server
from tests.programs import missing

from sepu.admin import accounts

ROOT = Path(__file__).parents[2]


VIEWS = ROOT / "docs" / "recipes" / "web-view.md"
PAGES = sorted({*(ROOT / "docs" / "recipes").glob("*.md")} - {VIEWS})
# What every Django project has.
DJANGO = """
import os

os.environ |= {"DJANGO_SETTINGS_MODULE": "conftest", "SEPU_URL": "http://localhost:9", "SEPU_API_KEY": "a-key"}
SECRET_KEY = "none"

import django

django.setup()
"""


def test_the_views_pass_the_tests_of_their_page(tmp_path: Path) -> None:
    """In one pytest for both frameworks, as a reader would run it."""
    text = VIEWS.read_text("utf-8")
    assert len(re.findall(r"Client\(os.*, deadline=5\)", text)) == 2  # less than a server's request timeout
    find_spec("django") or missing("django is not installed: make recipes")
    blocks = re.findall(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    for name, code in zip(("app", "test_app", "views", "test_views"), blocks, strict=True):
        (tmp_path / f"{name}.py").write_text(code)
    (tmp_path / "conftest.py").write_text(DJANGO)
    done = completed([sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", tmp_path], cwd=tmp_path)
    assert "2 passed" in done.stdout, done.stdout


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_recipe(
    page: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    connection: psycopg.Connection,
    ledger_url: str,
    uvloop: Server,
) -> None:
    text = page.read_text("utf-8")
    for package in re.findall(r"^>>> (?:import|from) (cv2|matplotlib|opentelemetry|pandas)\b", text, re.MULTILINE):
        find_spec(package) or missing(f"{package} is not installed: make recipes")
    (tmp_path / "docs").symlink_to(ROOT / "docs")
    monkeypatch.chdir(tmp_path)
    issued = accounts.create_account(connection, "standard")
    for name, value in {
        "PATH": f"{SEPU.parent}:{os.environ['PATH']}",
        "ACCOUNT": issued.account_id,
        "SEPU_API_KEY": issued.api_key,
        "SEPU_DATABASE_URL": ledger_url,
        "SEPU_URL": f"http://{uvloop.address}",
    }.items():
        monkeypatch.setenv(name, value)
    examples = "\n".join(re.findall(r"^```pycon\n(.*?)^```$", text, re.MULTILINE | re.DOTALL))
    ran = doctest.DocTestRunner().run(doctest.DocTestParser().get_doctest(examples, {}, page.name, None, 0))
    assert ran.failed == 0
    assert ran.attempted > 1
