"""Gives the stubs of the compiled modules, which mkdocstrings reads, the docstrings of their Cython sources."""

import re
from inspect import cleandoc
from pathlib import Path
from typing import Any

from griffe import Alias, Class, Docstring, Extension, Module

_CEXT = Path(__file__).parents[2] / "cext"
# A class or function with its docstring, without the signature with which Cython's may begin.
_DOCUMENTED = re.compile(
    r'^ *(?:cdef class|def) (\w+)(?:(?!\n\n).)*?:\n +"""(?:[^\n]*\\n--\\n\n)?(.*?)"""', re.MULTILINE | re.DOTALL
)
# An asterisk outside code: Markdown would read L*a*b* as emphasis.
_ASTERISK = re.compile(r"(`[^`]*`)|\*")


class Compiled(Extension):
    """Fills in what the stubs leave out, and keeps asterisks as they are."""

    def on_package(self, *, pkg: Module, **_: Any) -> None:  # noqa: ANN401
        """Finds each docstring by the name of its function or class."""
        texts: dict[str, str] = {}
        if pkg.name == "sepu":
            for path in (*_CEXT.glob("*.pxi"), *_CEXT.glob("*.pyx")):
                texts |= {found[1]: cleandoc(found[2]) for found in _DOCUMENTED.finditer(path.read_text("utf-8"))}
        _fill(pkg, texts)


def _fill(parent: Module | Class, texts: dict[str, str]) -> None:
    for name, member in parent.members.items():
        if isinstance(member, Alias):
            continue
        if parent.path.startswith("sepu._palette") and name in texts:
            member.docstring = Docstring(texts[name], parent=member)
        if member.docstring:
            member.docstring.value = _ASTERISK.sub(lambda found: found[1] or "\\*", member.docstring.value)
        if isinstance(member, Class | Module):
            _fill(member, texts)
