"""MkDocs: pages of the site that live elsewhere in the repository, and the links between here and there."""

import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[2]
ELSEWHERE = {
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "LICENSE": "LICENSE",
    "README.md": "index.md",
    "SECURITY.md": "vulnerabilities.md",
    "client/CHANGELOG.md": "client-changelog.md",
    "data/README.md": "data.md",
}
_LINK = re.compile(r"\]\((?:\.\./)?([\w/]+\.md)(#[\w-]*)?\)")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Adds those pages."""
    for source, page in ELSEWHERE.items():
        if (ROOT / source).is_file() and files.get_file_from_path(page) is None:
            text = re.sub(r"\]\(docs/", "](", (ROOT / source).read_text("utf-8"))
            files.append(File.generated(config, page, content=_linked(text)))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:  # noqa: ARG001
    """Lets links from `docs` to those pages find them."""
    return _linked(markdown)


def _linked(markdown: str) -> str:
    return _LINK.sub(lambda found: f"]({ELSEWHERE.get(found[1], found[1])}{found[2] or ''})", markdown)
