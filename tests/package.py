"""Copies of the package and the client with edits: other releases, and faults.

Edits are tables of TOML. A key is a file, or a function, method, table or statement in it (`sepu/x.py::Class.method`,
`sepu/x.sql::name`). Its value has pairs of the text to replace, which must occur once there, and the new text. Spaces
and line breaks in the first match any others. A file that does not exist begins empty.
"""

import ast
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import sepu
import sepu_client


class StaleEditError(Exception):
    """The text to replace is not in the package once; the message names the place."""


@dataclass(frozen=True)
class Package:
    directory: Path

    @property
    def environment(self) -> dict[str, str]:
        """An environment in which every Python process imports the copies of `sepu` and `sepu_client`."""
        return {**os.environ, "PYTHONPATH": str(self.directory)}

    @property
    def program(self) -> list[str]:
        """The command that runs its `sepu`."""
        start = "import sys; sys.path.insert(0, sys.argv.pop(1)); from sepu.cli.main import main; main()"
        return [sys.executable, "-c", start, str(self.directory)]

    def run(self, *arguments: str, url: str) -> str:
        """Runs a command that must succeed, and returns its output."""
        done = subprocess.run(
            [*self.program, *arguments, "--database-url", url], capture_output=True, text=True, check=False, timeout=60
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def json(self, *arguments: str, url: str) -> Any:
        return json.loads(self.run(*arguments, "--json", url=url))


def copied(directory: Path) -> Package:
    for package in (sepu, sepu_client):
        assert package.__file__
        source = Path(package.__file__).parent
        shutil.copytree(source, directory / source.name, ignore=shutil.ignore_patterns("__pycache__"))
    return Package(directory)


Edits = Mapping[str, Sequence[str]]


def edited(directory: Path, edits: Edits) -> Package:
    """Copies the package into a directory, and edits it."""
    package = copied(directory)
    for name, text in edited_files(package, edits).items():
        (directory / name).write_text(text, "utf-8")
    return package


def edited_files(package: Package, edits: Edits) -> dict[str, str]:
    """Returns the new text of each file that the edits change.

    Raises:
        StaleEditError: a text to replace does not occur once.
    """
    texts: dict[str, str] = {}
    for place, pairs in edits.items():
        name, _, within = place.partition("::")
        path = package.directory / name
        text = texts.get(name) or (path.read_text("utf-8") if path.exists() else "")
        for old, new in zip(pairs[::2], pairs[1::2], strict=True):
            start, end = _span(text, within, is_python=path.suffix == ".py") if within else (0, len(text))
            found = list(re.compile(r"\s+".join(map(re.escape, old.split()))).finditer(text, start, end))
            if len(found) != 1:
                raise StaleEditError(f"{place} has this {len(found)} times, not once: {old}")
            text = text[: found[0].start()] + new + text[found[0].end() :]
        texts[name] = text
    return texts


def _span(text: str, within: str, *, is_python: bool) -> tuple[int, int]:
    """Returns where a definition begins and ends: (0, 0) if there is none."""
    if is_python:
        nodes: list[ast.AST] = [ast.parse(text)]
        for part in within.split("."):
            nodes = [one for node in nodes for one in ast.iter_child_nodes(node) if getattr(one, "name", "") == part]
        lines = text.splitlines(keepends=True)
        for one in nodes:
            assert isinstance(one, ast.stmt)
            assert one.end_lineno
            return sum(map(len, lines[: one.lineno - 1])), sum(map(len, lines[: one.end_lineno]))
    elif found := re.search(rf"^(create .*\bsepu\.{within}\b|-- name: {within}$)", text, re.MULTILINE):
        following = re.compile(r"^(create|-- name:) ", re.MULTILINE).search(text, found.end())
        return found.start(), following.start() if following else len(text)
    return 0, 0
