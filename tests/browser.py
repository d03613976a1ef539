"""A real Chromium: its view of pages, and pictures of them."""

import json
import subprocess
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

import msgspec
from tests.programs import NODE_MODULES, missing, program

Scheme = Literal["light", "dark"]


@dataclass(frozen=True)
class Look:
    """A page to look at, and optionally where to store a picture of it."""

    url: str
    width: int = 1280
    scheme: Scheme = "light"
    file: str | None = None
    height: int = 800
    typed: str | None = None
    """Typed into the search field at the end, before the Enter key."""


class Stop(msgspec.Struct):
    """What the Tab key reached, and the style of its focus outline."""

    name: str
    outline: str


class Seen(msgspec.Struct):
    overflow: int
    """Pixels by which it is wider than the window."""
    off: list[str]
    """Texts and controls outside the window, or outside a table that scrolls."""
    through: list[str]
    """Texts and controls that overlap."""
    requests: list[str]
    complaints: list[str]
    """The browser's console messages."""
    violations: list[str]
    """Violated accessibility rules of axe-core."""
    passes: list[str]
    """The rules that hold."""
    reached: list[Stop]
    """Elements that the Tab key reaches, from the page's start to its end."""


def look(pages: Sequence[Look]) -> list[Seen]:
    chromium, node = program("chromium", "chromium"), program("node", "nodejs npm")
    for name in ("playwright-core", "axe-core"):
        if not (NODE_MODULES / name).exists():
            missing(f"{name} is not installed: make build/npm/ready")
    script = str(Path(__file__).with_suffix(".mjs"))
    done = subprocess.run(
        [node, script, str(NODE_MODULES), chromium],
        input=json.dumps([asdict(page) for page in pages]),
        capture_output=True,
        text=True,
        check=False,
        timeout=30 + 30 * len(pages),
    )
    assert done.returncode == 0, done.stderr
    return msgspec.json.decode(done.stdout, type=list[Seen])
