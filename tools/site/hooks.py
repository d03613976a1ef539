"""MkDocs: pages of the site that live elsewhere in the repository, and the links between here and there."""

import html
import json
import re
import runpy
from functools import cache
from pathlib import Path
from typing import Any
from unicodedata import east_asian_width

import yaml
from calls import tab, tabs  # MkDocs finds these files next to this one
from lists import fault
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.plugins import get_plugin_logger
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page
from reference import reference
from samples import COLLECTION, HTTP_FILE, collection, http_file

ROOT = Path(__file__).parents[2]
ELSEWHERE = {
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "LICENSE": "LICENSE",
    "README.md": "index.md",
    "SECURITY.md": "vulnerabilities.md",
    "client/CHANGELOG.md": "client-changelog.md",
    "data/README.md": "data.md",
    "tests/README.md": "tests.md",
}
# The name that installs the package; read from its file, because the site is built without the package.
_PACKAGE: str = runpy.run_path(str(ROOT / "src" / "sepu" / "extras.py"))["PACKAGE"]
_UNTIL = re.compile(r"^Until sepu is on PyPI.*?\n\n", re.MULTILINE | re.DOTALL)
_SUPPORT = re.compile(r"(\b(?:ask|give|from|send|when|to)\s)support\b(?!`)", re.IGNORECASE)
_LOG = get_plugin_logger("hooks")
# A link to a file of code in a line of its own: the site shows the code below it.
_CODE = re.compile(r"^\[(\w+\.(?:m(js)|(go|java|php|sh)))\]\(\1\)$", re.MULTILINE)
_WIDE_TABLE = re.compile(r"^\|(?:---\|){11,}$", re.MULTILINE)
_LINK = re.compile(r"\]\((?:\.\./)?((?:\.\./)*)([\w/]+\.md)(#[\w-]*)?\)")


def on_config(config: MkDocsConfig) -> None:
    """Shows what a terminal shows as such, not as code."""
    fence = {"name": "console", "class": "console", "format": _console}
    config.mdx_configs["pymdownx.superfences"] = {"custom_fences": [fence]}


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Adds those pages, and what is made from the OpenAPI document."""
    for source, page in ELSEWHERE.items():
        if (ROOT / source).is_file() and files.get_file_from_path(page) is None:
            text = re.sub(r"\]\((\.\./)?docs/", "](", (ROOT / source).read_text("utf-8"))
            files.append(File.generated(config, page, content=_linked(text)))
    document = _document()
    made = {
        "openapi.json": json.dumps(document, ensure_ascii=False, indent=2),
        f"integrate/{COLLECTION}": json.dumps(collection(document), ensure_ascii=False),
        f"integrate/{HTTP_FILE}": http_file(document),
    }
    for name, content in made.items():
        files.append(File.generated(config, name, content=content))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:  # noqa: ARG001
    """Lets links from `docs` to those pages find them, and appends the OpenAPI document to its page."""
    if _PACKAGE != ".":
        markdown = re.sub(r"(pip install '?)\.(?=[\[\n`])", rf"\1{_PACKAGE}", _UNTIL.sub("", markdown))
        markdown = markdown.replace("pip install ./client", f"pip install {_PACKAGE}-client")
    if support := config.extra["support"]:
        address = f"mailto:{support}" if re.fullmatch(r"[^/:]+@[^/:]+", support) else support
        markdown = _SUPPORT.sub(rf"\1[support]({address})", markdown)
    if words := config.extra["words"].get(page.file.src_uri):
        page.meta["tags"] = [str(word) for word in words]  # the search weighs them; they are not shown
    page.meta.setdefault("description", _description(markdown))
    if page.file.src_uri == "reference.md":
        markdown = f"{markdown}\n{reference(_document(), tabs)}"
    if page.file.src_uri == "observe.md":
        markdown = re.sub("(?m)^### (Sepu.*)$", lambda heading: f"{heading[0]}\n\n{_rules()[heading[1]]}", markdown)
    if _WIDE_TABLE.search(markdown):  # at 1280 pixels these columns need the room of the list of contents
        page.meta["hide"] = ["toc"]
    directory = Path(page.file.abs_src_path or ROOT).parent
    markdown = _CODE.sub(lambda found: _with_code(found, directory), _linked(markdown))
    if page.file.src_uri == "integrate/clients.md":
        head, *sections = re.split(r"^## ", markdown, flags=re.MULTILINE)
        return head + "".join(tab(*section.split("\n", 1)) for section in sections)
    for name in (COLLECTION, HTTP_FILE):
        markdown = markdown.replace(f"`integrate/{name}`", f"[`{name}`]({name})")
    return markdown


def on_page_content(html: str, page: Page, config: MkDocsConfig, files: Files) -> str:  # noqa: ARG001
    """Refuses broken lists, as a warning is an error here."""
    if found := fault(page.markdown or "", html):
        _LOG.warning("%s: %s", page.file.src_uri, found)
    return html.replace("<th></th>", "<td></td>")  # screen readers would announce a header without a name


def _console(source: str, *_: object, **__: object) -> str:
    """Returns a terminal's lines: typed ones after their prompt, printed ones, wide characters two columns wide."""
    lines, typed = [], False
    for line in source.split("\n"):
        text = "".join(
            f'<span class="wide">{character}</span>' if east_asian_width(character) in "WF" else html.escape(character)
            for character in line.removeprefix("$ ")
        )
        prompt = '<span class="gp">$ </span>' if line.startswith("$ ") else ""
        lines.append(f"{prompt}{text}" if prompt or typed else f'<span class="go">{text}</span>')
        typed = line.endswith("\\") and bool(prompt or typed)
    shown = "\n".join(lines)
    return f'<div class="highlight console"><pre><code>{shown}</code></pre></div>'


@cache
def _rules() -> dict[str, str]:
    """Returns the line that shows each alert's rule, below its heading."""
    (group,) = yaml.safe_load((ROOT / "deploy" / "prometheus" / "alerts.yml").read_text("utf-8"))["groups"]
    return {
        rule["alert"]: f"`{rule['expr']}`, for {rule.get('for', '0s')}: `severity: {rule['labels']['severity']}`"
        for rule in group["rules"]
    }


def _description(markdown: str) -> str:
    """The beginning of the first paragraph, for search engines and previews."""
    paragraphs = re.findall(r"^(?![#!|<>*\-]|```)(?:\S.*\n?)+", markdown, re.MULTILINE)
    text = re.sub(r"!?\[([^]]*)\]\([^)]*\)|[`*\\]", r"\1", " ".join(paragraphs[0].split())) if paragraphs else ""
    return html.escape(text if len(text) <= 160 else f"{text[:160].rpartition(' ')[0]} …")


def _document() -> dict[str, Any]:
    return yaml.safe_load((ROOT / "docs" / "openapi.yaml").read_text("utf-8"))


def _with_code(link: re.Match[str], directory: Path) -> str:
    return f"{link[0]}\n\n```{link[2] or link[3]}\n{(directory / link[1]).read_text('utf-8')}```"


def _linked(markdown: str) -> str:
    def linked(found: re.Match[str]) -> str:
        return f"]({found[1]}{ELSEWHERE[found[2]]}{found[3] or ''})" if found[2] in ELSEWHERE else found[0]

    return _LINK.sub(linked, markdown)
