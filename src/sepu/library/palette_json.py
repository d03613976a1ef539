"""Reads palettes in JSON: design tokens by their specification, and other objects and lists of names and colours."""

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any

from sepu import limits
from sepu.library.css import read_channels, read_css
from sepu.library.palette_entries import (
    DEEPEST,
    Found,
    PaletteError,
    check_alpha,
    decode,
    looks_like_a_color,
    of_unit,
    opaque_alpha,
)
from sepu.library.palette_json_entries import Entry, Object, Path, joined, reference_of, reference_path
from sepu.library.palette_plain_json import is_color, is_meant, name_by_path, plain_entries
from sepu.library.palette_tokens import TokenTree
from sepu.library.parsing import ColorLike
from sepu.library.records import Swatch

# Objects and lists in a JSON file: a design token is three of them. Each takes up to 20 us and some 200 bytes.
_OBJECTS = 320_000
# Commas in a JSON file. Each separates values of some 50 bytes.
_VALUES = 1_000_000


def read_json(content: bytes) -> Iterator[Found]:
    """Reads design tokens (Design Tokens Format Module 2025.10), and other objects and lists of names and colours.

    A document with any `$value` is of the first kind.
    """
    if sum(map(content.count, (b"{", b"["))) > _OBJECTS or content.count(b",") > _VALUES:
        raise PaletteError(
            f"JSON: there are more than {_OBJECTS:,} objects and lists, or {_VALUES:,} values; save fewer"
        )
    text = decode(content)
    try:
        document, members, is_tokens = _load(text)
        walked = TokenTree(document, members).tokens() if is_tokens else plain_entries(document, ())
        entries = _bounded(walked, members)
    except json.JSONDecodeError as error:
        raise PaletteError(f"line {error.lineno}: {error.msg}; this is not JSON") from None
    except PaletteError as error:
        raise PaletteError(f"JSON: {error}") from None
    except (RecursionError, ValueError):
        raise PaletteError(f"line 1: objects lie more than {DEEPEST} deep, or a number is too long") from None
    return _Values(document, entries).colors(is_tokens=is_tokens)


def _load(text: str) -> tuple[Any, int, bool]:
    """Returns a document, how many members its objects have, and whether one of these is `$value`."""
    members = 0

    def once(pairs: list[tuple[str, Any]]) -> Object:
        nonlocal members
        found = dict(pairs)
        if len(found) < len(pairs):
            [(twice, _)] = Counter(name for name, _ in pairs).most_common(1)
            raise PaletteError(f"{twice!r:.60} comes twice in one object; give each name once")
        members += len(pairs)
        return found

    document = json.loads(text, object_pairs_hook=once)
    return document, members, _has_tokens(document)


def _has_tokens(document: object) -> bool:
    """Returns whether an object has a `$value`, other than those below `$extensions`."""
    waiting = [document]
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict):
            if "$value" in value:
                return True
            waiting += [each for name, each in value.items() if name != "$extensions"]
        elif isinstance(value, list):
            waiting += value
    return False


def _bounded(entries: Iterator[Entry], members: int) -> list[Entry]:
    """Returns the entries; raises PaletteError for more than a palette may have."""
    found = []
    for entry in entries:
        found.append(entry)
        if len(found) > max(members, limits.palettes.COLORS):
            raise PaletteError(f"there are more than {limits.palettes.COLORS:,} colours; save fewer")
    return found


class _Values:
    """The values of a document's entries, with references followed."""

    def __init__(self, document: Any, entries: Sequence[Entry]) -> None:  # noqa: ANN401  # of JSON
        self._document = document
        self._entries = entries
        self._opaque = opaque_alpha(entry.alpha for entry in entries)
        # Of entries that refer to others, by their identity: the type and value, or the reason why there is none.
        self._resolved: dict[int, tuple[str | None, Any] | str] = {}
        self._parts: dict[str, tuple[object] | str] = {}  # by reference: its target, or why there is none

    @cached_property
    def _by_path(self) -> dict[str, Entry]:
        return {joined(entry.path): entry for entry in reversed(self._entries)}

    def colors(self, *, is_tokens: bool) -> Iterator[Found]:
        """Yields the entries that are meant as a colour."""
        for entry in self._entries:
            color: ColorLike | PaletteError
            try:
                kind, value = self._resolve(entry)
                if not (self._is_meant(entry, kind, value) if is_tokens else is_meant(entry, value)):
                    continue
                color = self._color(value)
            except PaletteError as error:
                if (entry.kind or entry.inherited) not in (None, "color") or entry.doubtful:
                    continue
                color = PaletteError(str(error))  # without the frames that a traceback holds
            where = joined(entry.path)[: limits.inputs.NAME_CHARACTERS] or "JSON"
            name = entry.name or (where if is_tokens else name_by_path(entry.path, entry.value))
            yield where, name[: limits.inputs.NAME_CHARACTERS], color

    @staticmethod
    def _is_meant(entry: Entry, kind: str | None, value: object) -> bool:
        """Returns whether a token is meant as a colour; a token without any type is, if its value is one."""
        if entry.kind == "color" != kind:
            raise PaletteError(f"it refers to a token of the type {kind!r:.60}")
        return kind == "color" or (kind is None and _is_written_as_color(value))

    def _resolve(self, entry: Entry, depth: int = 0) -> tuple[str | None, Any]:
        """Returns the type and the value of an entry, or of the one to which its references lead."""
        if isinstance(entry.value, PaletteError):
            raise entry.value
        check_alpha(entry.alpha, self._opaque)
        reference = reference_of(entry.value)
        if reference is None:
            return entry.kind or entry.inherited, entry.value
        found = self._resolved.get(id(entry))
        if found is None:
            try:
                found = self._follow(entry, reference, depth)
            except PaletteError as error:
                found = str(error)
            self._resolved[id(entry)] = found
        if isinstance(found, str):
            raise PaletteError(found)
        return found

    def _follow(self, entry: Entry, reference: str, depth: int) -> tuple[str | None, Any]:
        path = reference_path(reference)
        if path is None:
            raise PaletteError(f"{reference!r:.60} is neither '{{a.b}}' nor a JSON Pointer such as '#/a/b'")
        if depth == DEEPEST:
            raise PaletteError(f"its references lead in a circle, or over more than {DEEPEST} others")
        target = self._find(path) or self._in_set(path, entry)
        if target is None:
            return entry.kind or entry.inherited, self._at(path, reference, depth)
        kind, value = self._resolve(target, depth + 1)
        if entry.kind not in (None, kind, "color"):
            return entry.kind, value
        return kind or entry.kind or entry.inherited, value

    def _find(self, path: Path) -> Entry | None:
        names = joined(path)
        for ending in ("", ".$value", ".value"):
            if names.endswith(ending) and (found := self._by_path.get(names.removesuffix(ending))):
                return found
        return None

    def _in_set(self, path: Path, entry: Entry) -> Entry | None:
        """Returns an alias's target in a file of several sets: Tokens Studio leaves the set's name out of aliases.

        The alias's own set comes first; otherwise exactly one set must have the token.
        """
        own = self._find((*entry.path[:1], *path))
        found = self._by_path_in_set.get(joined(path).removesuffix(".value"), ())
        return own or (found[0] if len(found) == 1 else None)

    @cached_property
    def _by_path_in_set(self) -> dict[str, list[Entry]]:
        found: dict[str, list[Entry]] = {}
        for entry in self._entries:
            found.setdefault(joined(entry.path[1:]), []).append(entry)
        return found

    def _at(self, path: Path, reference: str, depth: int = 0) -> Any:  # noqa: ANN401
        """Returns what a JSON Pointer leads to: a part of a token's value, or of the document."""
        value, rest = self._document, path
        if "$value" in path:
            position = path.index("$value")
            target = self._find(path[:position])
            value, rest = (None if target is None else self._resolve(target, depth + 1)[1]), path[position + 1 :]
        for name in map(str, rest):
            if isinstance(value, dict) and name in value:
                value = value[name]
            elif isinstance(value, list) and name.isascii() and name.isdecimal() and int(name[:9]) < len(value):
                value = value[int(name[:9])]
            else:
                raise PaletteError(f"{reference:.60} is not a token of this file")
        return value

    def _color(self, value: object) -> ColorLike:
        """Returns a colour as `parse_color` takes it."""
        if not isinstance(value, dict):
            if not isinstance(value, str | list):
                raise PaletteError(f"{value!r:.60} is not a colour; write '#C83C23'")
            if any(isinstance(each, float) and each % 1 for each in value):  # a list of scales, or channels from 0 to 1
                raise PaletteError(f"{value!r:.60} is not three whole numbers; write '#C83C23', or r, g and b by name")
            return value
        if value.keys() == {"r", "g", "b"}:
            if not all(type(channel) in (int, float) for channel in value.values()):
                raise PaletteError("r, g and b are three numbers")
            return value
        space, channels, alpha = (self._part(value.get(key)) for key in ("colorSpace", "components", "alpha"))
        if not isinstance(space, str) or not isinstance(channels, list) or len(channels) != 3:
            raise PaletteError("a colour has the members colorSpace and components, three of these")
        parts = [0 if part == "none" else part for part in map(self._part, channels)]
        numbers = [part for part in parts if isinstance(part, int | float) and not isinstance(part, bool)]
        if len(numbers) != 3:
            raise PaletteError("components are three numbers, or 'none'")
        check_alpha(alpha, 1)
        if space == "srgb":
            return of_unit(numbers)
        try:
            rgb = read_channels(space, numbers)
        except ValueError as error:
            raise PaletteError(str(error)) from None
        if rgb is None:
            raise PaletteError(f"{space!r:.60} is not a colour space of CSS")
        return Swatch("", rgb)

    def _part(self, value: object, depth: int = 0) -> object:
        """Returns a part of a colour, or what it refers to."""
        reference = reference_of(value)
        if reference is None:
            return value
        if depth == DEEPEST:
            raise PaletteError(f"its references lead in a circle, or over more than {DEEPEST} others")
        found = self._parts.get(reference)
        if found is None:
            try:
                found = (self._part(self._at(reference_path(reference) or (), reference), depth + 1),)
            except PaletteError as error:
                found = str(error)
            self._parts[reference] = found
        if isinstance(found, str):
            raise PaletteError(found)
        return found[0]


def _is_written_as_color(value: object) -> bool:
    if looks_like_a_color(value) or is_color(value):
        return True
    return isinstance(value, str) and value.strip().isalpha() and read_css(value) is not None  # a name such as tomato
