"""Walks design tokens (Design Tokens Format Module 2025.10): groups, what they extend, and tokens."""

from collections.abc import Iterator
from itertools import chain
from typing import Any

from sepu import limits
from sepu.library.palette_entries import DEEPEST, PaletteError, find_alpha, looks_like_a_color
from sepu.library.palette_json_entries import Entry, Object, Path, check_path, modified, reference_path


class TokenTree:
    """The groups and tokens of a document, where those that a group extends count as its own."""

    def __init__(self, document: Any, members: int) -> None:  # noqa: ANN401  # of JSON
        self._document = document
        # By the group's identity: itself and those that it extends, or why that is unknown.
        self._extended: dict[int, list[Object] | str] = {}
        self._open: set[int] = set()  # groups whose references are being followed
        self._faults: list[Entry] = []
        self._left = members + limits.palettes.COLORS  # members still to visit; a group may be extended often

    def tokens(self) -> Iterator[Entry]:
        """Yields all tokens, and what is in a token's place but is not one."""
        if isinstance(self._document, dict):
            yield from self._walk([self._document], (), None)
        yield from self._faults

    def _walk(self, layers: list[Object], path: Path, inherited: str | None) -> Iterator[Entry]:
        """Yields the tokens of a group; `layers` are its object and those that it extends, the nearest first."""
        check_path(path)
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
                    yield Entry(place, PaletteError("it is not a token; write it as the $value of an object"))
            elif "$value" in below[-1]:
                yield from self._token(below, place, kind)
            else:
                yield from self._walk(below, place, kind)

    def _token(self, layers: list[Object], path: Path, inherited: str | None) -> Iterator[Entry]:
        check_path(path)
        token = layers[0]
        kind = token.get("$type") if isinstance(token.get("$type"), str) else None
        # A token with only $ref has another's value.
        value = modified(token, path) or token.get("$value", token)
        alpha = find_alpha(name for name, member in token.items() if isinstance(member, str | int | float))
        yield Entry(path, value, "", kind, inherited, None if alpha is None else token[alpha])
        for name, value in token.items():
            if not name.startswith("$") and isinstance(value, dict):
                reason = "it lies in a token; call that token $root, in a group of its name"
                yield Entry((*path, name), PaletteError(reason))

    def _below(self, layers: list[Object], name: str, path: Path) -> list[Object]:
        """Returns the layers of a group's member; none if it is neither a group nor a token."""
        found: list[Object] = []
        for layer in layers:
            if name in layer:
                if not isinstance(layer[name], dict):
                    break
                below = self._with_extended(layer[name], path)
                if "$value" in below[-1]:  # a token and a group do not merge: the nearer one counts
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
            if self._open:  # a group that extends a faulty one is faulty too
                raise PaletteError(found)
            self._faults.append(Entry(path, PaletteError(found)))
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
        names = [str(name) for name in reference_path(reference) or () if name != "$value"]
        found = [self._document]
        for position, name in enumerate(names):
            found = self._below(found, name, (*names[: position + 1],))
        if not names or not found:
            raise PaletteError(f"{reference!r:.60} is not a group or token of this file")
        return found
