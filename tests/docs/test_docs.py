"""The documentation is true."""

import json
import re
from pathlib import Path
from urllib.parse import quote

import psycopg
import pytest
from PIL import Image
from tests.cli.commands import COMMANDS, LEAVES
from tests.curl import Ask, by_curl, by_python, needs_curl
from tests.docs.examples import PAGES, RELEASED, counted_colours, reader, with_answers, with_release
from tests.harness.serving import Server
from tools.capacity import ACCOUNT_BYTES, COUNTER_BYTES, DAY_BYTES, RESULT_BYTES, capacity
from tools.site.errors import MISTAKES
from tools.site.errors import PAGE as ERRORS_PAGE
from tools.site.errors import page as page_of_errors
from tools.site.notebook import NOTEBOOK, PICTURE, notebook
from tools.site.pictures import IMAGES, PICTURES

import sepu
from sepu.admin import accounts
from sepu.admin.usage import show_usage
from sepu.cli.colors import LIBRARY_SIZE
from sepu.extras import PACKAGE
from sepu.http.errors import ERRORS, Again
from sepu_client.errors import error_class

ROOT = Path(__file__).parents[2]
ANYWHERE = {"--version", "--help"}


@pytest.mark.parametrize("ask", [pytest.param(by_curl, marks=[needs_curl, pytest.mark.slow]), by_python])
def test_examples_are_what_a_server_answers(ask: Ask, connection: psycopg.Connection, uvloop: Server) -> None:
    answers: dict[str, int] = {}
    for file in PAGES:
        key = accounts.create_account(connection, "standard").api_key
        page = file.read_text("utf-8")
        assert with_answers(page, reader(ask, uvloop.address, key)) == page
        answers[file.name] = page.count("\n{") + page.count("  reliability\n")
    assert answers == {
        "README.md": 1,
        "api.md": 2,
        "customers.md": 4,
        "designers.md": 2,
        "package.md": 1,
        "python.md": 1,
    }


def test_each_command_in_the_prose_is_one_of_the_programs() -> None:
    targets = set(re.findall(r"^([a-z-]+(?: [a-z-]+)*):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))
    known = {("make", target) for line in targets for target in line.split()}
    unknown = []
    for page in (*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "client").glob("*.md")):
        for program, text in re.findall(r"`(sepu|make)\s([^`]+)`", page.read_text("utf-8")):
            words, path = text.split(), tuple[str, ...]()
            while words and program == "sepu" and (*path, words[0]) in COMMANDS:
                path = (*path, words.pop(0))
            options = {name for option in getattr(COMMANDS.get(path), "params", []) for name in option.opts}
            found = path in LEAVES or words[:1] in ([], ["…"], ["--version"]) or (program, words[0]) in known
            if not found or (program == "sepu" and {word for word in words if word[:2] == "--"} - options - ANYWHERE):
                unknown.append(f"{page.name}: {program} {text}")
    assert unknown == []


def test_the_readme_gives_the_size_that_make_serve_prints() -> None:
    (size,) = re.findall(r"first start installs (\d+) MB", " ".join((ROOT / "README.md").read_text("utf-8").split()))
    assert f"of {size} MB" in (ROOT / "Makefile").read_text("utf-8")


def test_what_is_said_to_install_can_be_installed() -> None:
    """PyPI shows package.md unchanged; in other pages the site replaces `.` in a release."""
    for file in (ROOT / "README.md", *(ROOT / "docs").rglob("*.md"), *(ROOT / "docs").rglob("*.ipynb")):
        known = {PACKAGE} if file.name == "package.md" else {".", PACKAGE}
        assert {*re.findall(r"pip install '?(\.|sepu)(?=[\[\s`'])", file.read_text("utf-8"))} <= known, file
    told = {file.name for file in (ROOT / "src").rglob("*.py") if "pip install '" in file.read_text("utf-8")}
    assert told == {"extras.py"}


# Phrases that we avoid, and their replacements. docs/glossary.md has the fixed terms.
NOT_OUR_WORDS = {
    r"\bA test runs\b": "nothing: that is for maintainers",
    r"\bcredits? (?:consumed|used)\b": "units",
    r"\b(?:deduct|bill)(?:s|ed)? (?:the )?(?:key|request)\b": "charge",
    r"\b(?:re-?sends?|re-?plays? back)\b": "retry; replay",
    r"\b(?:API )?tokens? (?:is|are) (?:charged|metered)\b": "unit",
    r"\btake[sn]? (?:it |them |a \w+ |an \w+ )away\b": "remove",
    r"\b(?:in order to|please note|leverage|seamless(?:ly)?|utili[sz]e[sd]?)\b": "a plain word",
    r"\bis begun\b|\bwas begun\b": "has started",
    r"\bends by an error\b": "raises an error",
    r"\bhas \d+ and \d+ MB\b": "takes",
    r"\btimes less than\b": "times faster than",
    r"\bIf it stays\b": "If it persists",
    r"\bis no use\b|\bis no proof\b|\bare no proof\b": "does not count; proves nothing",
    r"\bmany an? \w+ of\b": "many",
    r"\bas a whole in time\b": "in full in time",
    r"\bsubscription\b": "plan",
}


def test_documents_keep_to_our_words() -> None:
    files = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    found = [
        (file.name, match[0], better)
        for file in files
        for turn, better in NOT_OUR_WORDS.items()
        for match in re.finditer(turn, " ".join(file.read_text("utf-8").split()))
    ]
    assert found == []


def test_what_to_buy_is_what_the_figures_give() -> None:
    assert f"\n\n{capacity()}\n\n" in (ROOT / "docs" / "capacity.md").read_text("utf-8")
    sizes = re.findall(r"(?m)^\| (?:a|an) .* \| ([\d,]+) \|$", (ROOT / "docs" / "scaling.md").read_text("utf-8"))
    assert sizes == [f"{each:,}" for each in (RESULT_BYTES, ACCOUNT_BYTES, COUNTER_BYTES, DAY_BYTES)]


def test_customers_are_shown_the_attribution_to_keep() -> None:
    page = (ROOT / "data" / "README.md").read_text("utf-8")
    rights = json.loads((ROOT / "data" / "release" / "rights.json").read_text("utf-8"))
    assert [line[4:] for line in page.splitlines() if line.startswith("> - ")] == [of["attribution"] for of in rights]


def test_every_link_finds_its_heading_on_github_too() -> None:
    """GitHub keeps letters such as δ in an anchor, MkDocs does not; MkDocs itself checks that all links hold there."""
    linked = {
        ((path.parent / file).resolve() if file else path, anchor)
        for path in (ROOT / "README.md", *(ROOT / "docs").rglob("*.md"))
        for file, anchor in re.findall(r"\]\(((?:\.\./)*[\w/-]+\.md|)#([^)]+)\)", path.read_text("utf-8"))
    }
    missing = []
    for path, anchor in sorted(linked):
        if path.name == "reference.md":  # only the site has its headings
            continue
        headings = re.findall(r"^#+ (.*)$", path.read_text("utf-8"), re.MULTILINE)
        if anchor not in {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}:
            missing.append(f"{path.name}#{anchor}")
    assert missing == []


def test_the_number_of_colours_is_that_of_this_library() -> None:
    assert counted_colours() == LIBRARY_SIZE == len(sepu.load())


@pytest.mark.parametrize("page", RELEASED, ids=lambda page: page.name)
def test_pages_have_the_counts_of_this_library(page: Path) -> None:
    text = page.read_text("utf-8")
    assert with_release(text) == text


@pytest.mark.parametrize("name", PICTURES)
def test_pictures_are_of_this_library(name: str) -> None:
    assert (IMAGES / name).read_text("utf-8") == PICTURES[name]()


def test_the_notebook_is_what_its_page_does() -> None:
    """Running it gives its stored outputs and picture."""
    text, named = notebook()
    assert NOTEBOOK.read_text("utf-8") == text
    with Image.open(PICTURE) as shown:
        assert shown.convert("RGB").tobytes() == named.tobytes()
    assert json.loads(text)["cells"][2]["outputs"][0]["data"]["text/html"][0].count("background:#") == 6


# --- the page of errors


def test_each_mistake_leads_to_its_line(connection: psycopg.Connection, uvloop: Server) -> None:
    issued = accounts.create_account(connection, "standard")
    answers = {}
    for mistake in MISTAKES:
        sent: dict[str, str | None] = {
            "Authorization": f"Bearer {issued.api_key}",
            "Idempotency-Key": f"mistake-{mistake.anchor}",
            "Content-Type": "application/json",
            **mistake.headers,
        }
        method, target = mistake.line.split(" ")
        headers = {name: value.replace("KEY", issued.api_key) for name, value in sent.items() if value is not None}
        body = None if mistake.body is None else mistake.body.encode()
        answers[mistake.anchor] = uvloop.request(method, quote(target, safe="/?&=+%"), headers, body).error
    assert answers == {mistake.anchor: mistake.code for mistake in MISTAKES}
    assert [meter.committed for meter in show_usage(connection, issued.account_id).usage] == [0, 0]


def test_the_page_of_errors_is_written_from_the_table_with_an_anchor_for_each_code_and_mistake() -> None:
    text = ERRORS_PAGE.read_text("utf-8")
    assert text == page_of_errors()
    anchors = [*re.findall(r"^## (\w+)$", text, re.MULTILINE), *re.findall(r'<a id="([\w-]+)">', text)]
    assert len(anchors) == len(set(anchors))
    assert set(anchors) == ERRORS.keys() | {mistake.anchor for mistake in MISTAKES}


def test_the_client_sends_again_what_the_page_says() -> None:
    assert {code for code, error in ERRORS.items() if error_class(error.status, code).retryable} == {
        code for code, error in ERRORS.items() if error.again is Again.SAME
    }


def test_no_command_of_the_readme_is_broken_over_two_lines() -> None:
    """A reader copies it unchanged, and so does the program that reads the `apt install` line."""
    text = re.sub(r"(?s)```.*?```", "", (ROOT / "README.md").read_text("utf-8"))
    assert [code for code in re.findall(r"`[^`]+`", text) if "\n" in code] == []
