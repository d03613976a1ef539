"""Whether the lists of a page are shown as they were written: Python-Markdown nests blocks only from four spaces."""

import re
from html.parser import HTMLParser
from itertools import zip_longest

_FENCE = re.compile(r"^ *```.*?^ *```$", re.DOTALL | re.MULTILINE)
_MARKER = re.compile(r"^ *(?:> *)?(?:[-*+]|(\d+)\.)[ \t]+(?=\S)", re.MULTILINE)


def fault(markdown: str, html: str) -> str | None:
    """The first item that is shown differently, if there is one."""
    written = [number or "-" for number in _MARKER.findall(_FENCE.sub("", markdown))]
    page = _Page()
    page.feed(html)
    for place, (wanted, shown) in enumerate(zip_longest(written, page.items), 1):
        if wanted != shown:
            return f"item {place} of its lists is written {wanted!r} and shown as {shown!r}"
    return None


class _Page(HTMLParser):
    """Collects the number of each item as a browser counts it, `-` where there is none."""

    def __init__(self) -> None:
        super().__init__()
        self.items: list[str] = []
        self._lists: list[int | None] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in ("ol", "ul"):
            self._lists.append(int(dict(attrs).get("start") or 1) if tag == "ol" else None)
        elif tag == "li":
            number = self._lists[-1]
            self.items.append("-" if number is None else str(number))
            self._lists[-1] = None if number is None else number + 1

    def handle_endtag(self, tag: str) -> None:
        if tag in ("ol", "ul"):
            self._lists.pop()
