"""The recipes print what their pages show."""

import doctest
import os
import re
from importlib.util import find_spec
from pathlib import Path

import psycopg
import pytest
from tests.harness.serving import SEPU, Server
from tests.programs import missing

from sepu.admin import accounts

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("page", sorted((ROOT / "docs" / "recipes").glob("*.md")), ids=lambda page: page.stem)
def test_a_recipe(
    page: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    connection: psycopg.Connection,
    ledger_url: str,
    uvloop: Server,
) -> None:
    text = page.read_text("utf-8")
    for package in re.findall(r"^>>> import (cv2|matplotlib|pandas)\b", text, re.MULTILINE):
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
