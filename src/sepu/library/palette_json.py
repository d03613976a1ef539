"""Reads palettes in JSON: design tokens by their specification, and other objects and lists of names and colours."""

import json
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import chain
from typing import Any, NamedTuple
from urllib.parse import unquote

from sepu import limits
from sepu.library.css import read_channels, read_css
from sepu.library.palette_entries import (
    DEEPEST,
    Found,
    PaletteError,
    decode,
    find_members,
    is_name,
    looks_like_a_color,
    of_unit,
)
from sepu.library.parsing import ColorLike
from sepu.library.records import Swatch

Path = tuple[str | int, ...]  # of names, and of places in lists from 1
Object = dict[str, Any]

_LISTS = ("colors", "colours", "palette", "swatches")
_ALIAS = re.compile(r"\s*\{([^{}]+)\}\s*")


class _Entry(NamedTuple):
    """A token, or what a plain file has in its place."""

    path: Path
    value: Any  # or a PaletteError
    name: str = ""
    kind: str | None = None  # the type that it has itself
    inherited: str | None = None  # and that of its groups
    stray: bool = False  # where a value that does not look like a colour is not meant as one


def read_json(content: bytes) -> Iterator[Found]:
    """Reads design tokens (Design Tokens Format Module 2025.10), and other objects and lists of names and colours.

    A document with any `$value` is of the first kind.
    """
    if sum(map(content.count, (b"{", b"["))) > limits.palettes.OBJECTS or content.count(b",") > limits.palettes.VALUES:
        raise PaletteError(f"JSON: there are more than {limits.palettes.OBJECTS:,} objects and lists; save fewer")
    text = decode(content)
    try:
        document, members, is_tokens = _load(text)
        walked = _TokenTree(document, members).tokens() if is_tokens else _plain_entries(document, ())
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
    members, is_tokens = 0, False

    def once(pairs: list[tuple[str, Any]]) -> Object:
        nonlocal members, is_tokens
        found = dict(pairs)
        if len(found) < len(pairs):
            [(twice, _)] = Counter(name for name, _ in pairs).most_common(1)
            raise PaletteError(f"{twice!r:.60} comes twice in one object; give each name once")
        members += len(pairs)
        is_tokens = is_tokens or "$value" in found
        return found

    document = json.loads(text, object_pairs_hook=once)
    return document, members, is_tokens


def _bounded(entries: Iterator[_Entry], members: int) -> list[_Entry]:
    """Returns the entries; raises PaletteError for more than a palette may have."""
    found = []
    for entry in entries:
        found.append(entry)
        if len(found) > max(members, limits.palettes.COLORS):
            raise PaletteError(f"there are more than {limits.palettes.COLORS:,} colours; save fewer")
    return found


def _check_path(path: Path) -> None:
    if len(path) > DEEPEST:
        raise RecursionError
    if sum(len(part) for part in path if isinstance(part, str)) > limits.palettes.PATH_CHARACTERS:
        raise PaletteError(
            f"a path of names has more than {limits.palettes.PATH_CHARACTERS:,} characters; give shorter names"
        )


class _TokenTree:
    """The groups and tokens of a document, where those that a group extends count as its own."""

    def __init__(self, document: Any, members: int) -> None:  # noqa: ANN401  # of JSON
        self._document = document
        # By the group's identity: itself and those that it extends, or why that is unknown.
        self._extended: dict[int, list[Object] | str] = {}
        self._open: set[int] = set()  # groups whose references are being followed
        self._faults: list[_Entry] = []
        self._left = members + limits.palettes.COLORS  # members of groups to go over; a group may be extended often

    def tokens(self) -> Iterator[_Entry]:
        """Yields all tokens, and what is in the place of one and is none."""
        if isinstance(self._document, dict):
            yield from self._walk([self._document], (), None)
        yield from self._faults

    def _walk(self, layers: list[Object], path: Path, inherited: str | None) -> Iterator[_Entry]:
        """Yields the tokens of a group; `layers` are its object and those that it extends, the nearest first."""
        _check_path(path)
        self._left -= sum(map(len, layers))
        if self._left < 0:
            raise PaletteError(f"$extends makes more than {limits.palettes.COLORS:,} members of groups; write fewer")
        kind = next((layer["$type"] for layer in layers if isinstance(layer.get("$type"), str)), inherited)
        for name in dict.fromkeys(chain.from_iterable(reversed(layers))):
            if name.startswith("$") and name != "$root":
                continue
            place = (*path, name)
            below = self._below(layers, name, place)
            if not below:
                value = next(layer[name] for layer in layers if name in layer)
                if isinstance(value, list) or looks_like_a_color(value):
                    yield _Entry(place, PaletteError("it is not a token; write it as the $value of an object"))
            elif "$value" in below[-1]:
                yield from self._token(below, place, kind)
            else:
                yield from self._walk(below, place, kind)

    def _token(self, layers: list[Object], path: Path, inherited: str | None) -> Iterator[_Entry]:
        _check_path(path)
        token = layers[0]
        kind = token.get("$type") if isinstance(token.get("$type"), str) else None
        # Of a token with $ref alone the value is that of another.
        yield _Entry(path, token.get("$value", token), "", kind, inherited)
        for name, value in token.items():
            if not name.startswith("$") and isinstance(value, dict):
                reason = "it lies in a token; call that token $root, in a group of its name"
                yield _Entry((*path, name), PaletteError(reason))

    def _below(self, layers: list[Object], name: str, path: Path) -> list[Object]:
        """Returns the layers of a group's member; none if it is neither a group nor a token."""
        found: list[Object] = []
        for layer in layers:
            if name in layer:
                if not isinstance(layer[name], dict):
                    break
                below = self._with_extended(layer[name], path)
                if "$value" in below[-1]:  # a token: the nearest of a token and a group replaces the other
                    return found or below
                found += below
        return found

    def _with_extended(self, group: Object, path: Path) -> list[Object]:
        """Returns a group and those that it extends, the nearest first."""
        if "$value" in group or not ("$extends" in group or "$ref" in group):
            return [group]
        found = self._extended.get(id(group))
        if found is None:
            try:
                found = [group, *self._extension(group)]
            except PaletteError as error:
                found = str(error)
            self._extended[id(group)] = found
        if isinstance(found, str):
            if self._open:  # a group that extends one in a circle is in it too
                raise PaletteError(found)
            self._faults.append(_Entry(path, PaletteError(found)))
            found = self._extended[id(group)] = [group]
        return found

    def _extension(self, group: Object) -> list[Object]:
        """Returns what a group extends, the nearest first."""
        reference = group.get("$extends", group.get("$ref"))
        if id(group) in self._open or len(self._open) == DEEPEST:
            raise PaletteError(f"{reference!r:.60} leads in a circle, or over more than {DEEPEST} others")
        self._open.add(id(group))
        try:
            found = self._target(reference)
        finally:
            self._open.discard(id(group))
        if len(found) >= DEEPEST:
            raise PaletteError(f"{reference!r:.60} leads over more than {DEEPEST} others")
        if "$extends" in group and "$value" in found[0]:
            raise PaletteError(f"{reference!r:.60} is a token, and $extends takes a group")
        return found

    def _target(self, reference: object) -> list[Object]:
        """Returns the layers of the group or token to which a reference leads."""
        names = [str(name) for name in _reference_path(reference) or () if name != "$value"]
        found = [self._document]
        for place, name in enumerate(names):
            found = self._below(found, name, (*names[: place + 1],))
        if not names or not found:
            raise PaletteError(f"{reference!r:.60} is not a group or token of this file")
        return found


def _reference(value: object) -> str | None:
    """Returns the reference that a value is; None for other values."""
    if isinstance(value, dict):
        return value["$ref"] if isinstance(value.get("$ref"), str) else None
    return value if isinstance(value, str) and _ALIAS.fullmatch(value) else None


def _reference_path(reference: object) -> Path | None:
    """Returns the names of an alias (`{a.b}`) or of a JSON Pointer (`#/a/b`, RFC 6901); None for other texts."""
    if not isinstance(reference, str):
        return None
    if form := _ALIAS.fullmatch(reference):
        return (*(form[1].strip().split(".")),)
    if reference.startswith("#/") and len(reference) <= limits.palettes.PATH_CHARACTERS:
        return (*(part.replace("~1", "/").replace("~0", "~") for part in unquote(reference[2:]).split("/")),)
    return None


def _plain_entries(value: object, path: Path, *, stray: bool = False) -> Iterator[_Entry]:
    """Yields what a document without `$value` has, by the path of its names."""
    _check_path(path)
    if isinstance(value, dict):
        found = _record(value, path, stray=stray)
        if found is not None:
            entry, taken = found
            yield entry
            for key, each in value.items():
                if not _belongs(key, each, taken, is_named=entry.name != ""):
                    yield from _plain_entries(each, (*path, key), stray=True)
            return
        has_list = not path and any(isinstance(value.get(key), dict | list) for key in _LISTS)
        for key, each in value.items():
            if not key.startswith("$"):
                below = stray or (has_list and key not in _LISTS) or (isinstance(each, str) and is_name(key))
                yield from _plain_entries(each, (*path, key), stray=below)
    elif isinstance(value, list) and not _is_triple(value):
        for place, each in enumerate(value, 1):
            yield from _plain_entries(each, (*path, place), stray=stray)
    else:
        yield _Entry(path, value, stray=stray)


def _name_by_path(path: Path, value: object) -> str:
    """Returns what a colour of a document without `$value` is called that has no name of its own."""
    names = path[1:] if path and path[0] in _LISTS else path
    if any(isinstance(part, str) for part in names):
        return _joined(names)
    return value if isinstance(value, str) else ""  # in a list alone it is called as it is written, or by its HEX


def _joined(path: Path) -> str:
    return ".".join(map(str, path))


def _is_triple(value: Sequence[object]) -> bool:
    return len(value) in {3, 4} and all(type(each) in (int, float) for each in value)


def _record(value: Object, path: Path, *, stray: bool) -> tuple[_Entry, str] | None:
    """Returns the colour that an object describes, and the member that has it; None if it is a group."""
    kind = value.get("type") if isinstance(value.get("type"), str) and "value" in value else None
    if kind is None and _is_color(value):
        return _Entry(path, value, stray=stray), "hex"
    fit = [
        key
        for key, each in value.items()
        if isinstance(each, str | int | float) or _is_color(each) or (key == "value" and kind is not None)
    ]
    name, place, channels = find_members(fit)
    if channels and all(type(value[channel]) in (int, float) for channel in channels):
        color: object = [value[channel] for channel in channels]
    elif place and not (isinstance(value[place], int | float) and kind is None):
        color = value[place]
    else:
        return None
    if isinstance(value.get("name"), dict):  # those of this library's records
        name = "name"
    given = "" if name is None else _name_of(value[name])
    return _Entry(path, color, given, kind, stray=stray), place or "hex"


# Members that have the same colour in other forms, and what Style Dictionary adds to a token.
_OTHER_FORMS = frozenset(
    "hex rgb rgba hsl hsla hsv hsb hwb cmyk lab lch oklab oklch xyz css original attributes path".split()  # noqa: SIM905
)


def _belongs(key: str, value: object, taken: str, *, is_named: bool) -> bool:
    """Returns whether a member of a colour belongs to it, or else may be a colour or a group of its own.

    `taken` is the member that has the colour's value. A text next to the HEX value of a colour with a name belongs to
    it, such as the HEX of a text on it.
    """
    if key == taken or is_name(key) or key.casefold() in _OTHER_FORMS:
        return True
    if isinstance(value, str):
        return is_named and taken.casefold().startswith("hex")
    return not isinstance(value, dict | list)


def _is_color(value: object) -> bool:
    """Returns whether an object or list is the value of a colour."""
    if isinstance(value, dict):
        return isinstance(value.get("colorSpace"), str) or value.keys() == {"r", "g", "b"}
    return isinstance(value, list) and _is_triple(value)


def _name_of(name: object) -> str:
    """Returns the name of a colour; those of this library have several."""
    if isinstance(name, dict):
        return " ".join(str(name[language]) for language in ("zh", "en") if language in name)
    return str(name)


class _Values:
    """The values of a document's entries, behind their references."""

    def __init__(self, document: Any, entries: Sequence[_Entry]) -> None:  # noqa: ANN401  # of JSON
        self._document = document
        self._entries = entries
        # Of entries that refer to others, by their identity: the type and value, or the reason why there is none.
        self._resolved: dict[int, tuple[str | None, Any] | str] = {}
        self._parts: dict[str, tuple[object] | str] = {}  # by the reference: what it leads to, or why to nothing

    @cached_property
    def _by_path(self) -> dict[str, _Entry]:
        return {_joined(entry.path): entry for entry in reversed(self._entries)}

    def colors(self, *, is_tokens: bool) -> Iterator[Found]:
        """Yields the entries that are meant as a colour."""
        for entry in self._entries:
            color: ColorLike | PaletteError
            try:
                kind, value = self._resolve(entry)
                if not (self._is_meant(entry, kind, value) if is_tokens else _is_meant_in_plain(entry, value)):
                    continue
                color = self._color(value)
            except PaletteError as error:
                if (entry.kind or entry.inherited) not in (None, "color") or entry.stray:
                    continue
                color = PaletteError(str(error))  # without the frames that a traceback holds
            where = _joined(entry.path)[: limits.inputs.NAME_CHARACTERS] or "JSON"
            name = entry.name or (where if is_tokens else _name_by_path(entry.path, entry.value))
            yield where, name[: limits.inputs.NAME_CHARACTERS], color

    @staticmethod
    def _is_meant(entry: _Entry, kind: str | None, value: object) -> bool:
        """Returns whether a token is meant as a colour; a token without any type is, if its value is one."""
        if entry.kind == "color" != kind:
            raise PaletteError(f"it refers to a token of the type {kind!r:.60}")
        return kind == "color" or (kind is None and _is_written_as_color(value))

    def _resolve(self, entry: _Entry, depth: int = 0) -> tuple[str | None, Any]:
        """Returns the type and the value of an entry, or of the one to which its references lead."""
        if isinstance(entry.value, PaletteError):
            raise entry.value
        reference = _reference(entry.value)
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

    def _follow(self, entry: _Entry, reference: str, depth: int) -> tuple[str | None, Any]:
        path = _reference_path(reference)
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

    def _find(self, path: Path) -> _Entry | None:
        names = _joined(path)
        for ending in ("", ".$value", ".value"):
            if names.endswith(ending) and (found := self._by_path.get(names.removesuffix(ending))):
                return found
        return None

    def _in_set(self, path: Path, entry: _Entry) -> _Entry | None:
        """Returns what an alias means in a file of several sets, as Tokens Studio writes: it leaves the set's name out.

        A token of the alias's own set precedes; of other sets, one alone has it, or none is meant.
        """
        own = self._find((*entry.path[:1], *path))
        found = self._by_path_in_set.get(_joined(path).removesuffix(".value"), ())
        return own or (found[0] if len(found) == 1 else None)

    @cached_property
    def _by_path_in_set(self) -> dict[str, list[_Entry]]:
        found: dict[str, list[_Entry]] = {}
        for entry in self._entries:
            found.setdefault(_joined(entry.path[1:]), []).append(entry)
        return found

    def _at(self, path: Path, reference: str, depth: int = 0) -> Any:  # noqa: ANN401
        """Returns what a JSON Pointer leads to: a part of a token's value, or of the document."""
        value, rest = self._document, path
        if "$value" in path:
            place = path.index("$value")
            target = self._find(path[:place])
            value, rest = (None if target is None else self._resolve(target, depth + 1)[1]), path[place + 1 :]
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
            return value
        if value.keys() == {"r", "g", "b"}:
            return value
        space, channels, alpha = (self._part(value.get(key)) for key in ("colorSpace", "components", "alpha"))
        if not isinstance(space, str) or not isinstance(channels, list) or len(channels) != 3:
            raise PaletteError("a colour has the members colorSpace and components, three of these")
        parts = [0 if part == "none" else part for part in map(self._part, channels)]
        numbers = [part for part in parts if isinstance(part, int | float) and not isinstance(part, bool)]
        if len(numbers) != 3:
            raise PaletteError("components are three numbers, or 'none'")
        if alpha not in (None, 1):
            raise PaletteError(f"it has an alpha channel of {alpha!r:.20}: blend it with its background first")
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
        """Returns a part of a colour, or that to which it refers."""
        reference = _reference(value)
        if reference is None:
            return value
        if depth == DEEPEST:
            raise PaletteError(f"its references lead in a circle, or over more than {DEEPEST} others")
        found = self._parts.get(reference)
        if found is None:
            try:
                found = (self._part(self._at(_reference_path(reference) or (), reference), depth + 1),)
            except PaletteError as error:
                found = str(error)
            self._parts[reference] = found
        if isinstance(found, str):
            raise PaletteError(found)
        return found[0]


def _is_meant_in_plain(entry: _Entry, value: object) -> bool:
    """Returns whether an entry of a document without `$value` is meant as a colour."""
    if entry.kind not in (None, "color"):  # "type" is a word of other lists too
        return looks_like_a_color(entry.value)
    return not entry.stray or looks_like_a_color(value) or _is_color(value)


def _is_written_as_color(value: object) -> bool:
    try:
        return looks_like_a_color(value) or _is_color(value) or (isinstance(value, str) and read_css(value) is not None)
    except ValueError:
        return True
