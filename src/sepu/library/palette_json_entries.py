"""What the readers of JSON palettes share: entries with their paths, and references."""

import re
from typing import Any, NamedTuple
from urllib.parse import unquote

from sepu import limits
from sepu.library.palette_entries import DEEPEST, PaletteError

# Characters of the names of a colour and its groups, joined by dots.
_PATH_CHARACTERS = 500

Path = tuple[str | int, ...]  # of names, and of positions in lists from 1
Object = dict[str, Any]

_ALIAS = re.compile(r"\s*\{([^{}]+)\}\s*")


class Entry(NamedTuple):
    """A token, or what a plain file has in its place."""

    path: Path
    value: Any  # or a PaletteError
    name: str = ""
    kind: str | None = None  # the type that it has itself
    inherited: str | None = None  # and that of its groups
    alpha: object = None  # next to the value
    doubtful: bool = False  # where a value that does not look like a colour is not meant as one


def check_path(path: Path) -> None:
    """Raises RecursionError for a path that is too deep, and PaletteError for one with names that are too long."""
    if len(path) > DEEPEST:
        raise RecursionError
    if len(joined(path)) > _PATH_CHARACTERS:
        raise PaletteError(f"a path of names has more than {_PATH_CHARACTERS:,} characters; give shorter names")


def modified(token: Object, path: Path) -> PaletteError | None:
    """Returns why a token's value is not its colour: a member of the token or of its `$extensions` changes it.

    Tokens Studio and Style Dictionary call this member `modify`.
    """
    extensions = token.get("$extensions")
    holders = [extensions, *extensions.values()] if isinstance(extensions, dict) else []
    is_changed = isinstance(token.get("modify"), dict | list) or any(
        isinstance(holder, dict) and "modify" in holder for holder in holders
    )
    if not is_changed:
        return None
    return PaletteError(
        f"'modify' changes the value of {joined(path)[: limits.inputs.NAME_CHARACTERS]!r}, and sepu does not compute "
        "that: export the final value"
    )


def joined(path: Path) -> str:
    """Returns a path as it is shown."""
    return ".".join(map(str, path))


def reference_of(value: object) -> str | None:
    """Returns the text of a reference; None for other values."""
    if isinstance(value, dict):
        return value["$ref"] if isinstance(value.get("$ref"), str) else None
    return value if isinstance(value, str) and _ALIAS.fullmatch(value) else None


def reference_path(reference: object) -> Path | None:
    """Returns the names of an alias (`{a.b}`) or of a JSON Pointer (`#/a/b`, RFC 6901); None for other texts.

    Nothing below `$extensions` can be referred to.
    """
    path: list[str] = []
    if isinstance(reference, str):
        if form := _ALIAS.fullmatch(reference):
            path = form[1].strip().split(".")
        elif reference.startswith("#/") and len(reference) <= _PATH_CHARACTERS:
            path = [part.replace("~1", "/").replace("~0", "~") for part in unquote(reference[2:]).split("/")]
    return (*path,) if path and "$extensions" not in path else None
