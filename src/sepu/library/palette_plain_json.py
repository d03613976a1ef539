"""Walks JSON without design tokens: objects and lists of names and colours, as people write them."""

from collections.abc import Iterator, Sequence

from sepu.library.palette_entries import (
    PaletteError,
    find_alpha,
    find_members,
    is_name,
    is_value,
    looks_like_a_color,
)
from sepu.library.palette_json_entries import Entry, Object, Path, check_path, joined, modified

_LISTS = ("colors", "colours", "palette", "swatches")


def plain_entries(value: object, path: Path, *, doubtful: bool = False, called: str = "") -> Iterator[Entry]:
    """Yields the entries of a document without `$value`, with their paths; `called` names a lone colour."""
    check_path(path)
    if isinstance(value, dict) and isinstance(value.get("valuesByMode"), dict):  # a variable of Figma's
        if "COLOR" in (value.get("resolvedType"), value.get("type")):
            for mode, each in value["valuesByMode"].items():
                is_alias = isinstance(each, dict) and each.get("type") == "VARIABLE_ALIAS"
                color = PaletteError("it is an alias; export the values that aliases have") if is_alias else each
                yield from plain_entries(color, (*path, "valuesByMode", mode), called=str(value.get("name", "")))
    elif isinstance(value, dict):
        found = _record(value, path, doubtful=doubtful)
        if found is not None:
            entry, taken = found
            yield Entry(path, entry.value, entry.name or called, entry.kind, alpha=entry.alpha, doubtful=doubtful)
            for key, each in value.items():
                if not _belongs(key, each, taken, is_named=entry.name != ""):
                    yield from plain_entries(each, (*path, key), doubtful=True)
            return
        has_list = not path and any(isinstance(value.get(key), dict | list) for key in _LISTS)
        for key, each in value.items():
            if not key.startswith("$"):
                is_doubtful = doubtful or (has_list and key not in _LISTS) or (isinstance(each, str) and is_name(key))
                name = find_members(value).name if isinstance(each, dict) and is_value(key) else None
                given = "" if name is None else _name_of(value[name])
                yield from plain_entries(each, (*path, key), doubtful=is_doubtful, called=given)
    elif isinstance(value, list) and not _is_triple(value):
        for position, each in enumerate(value, 1):
            yield from plain_entries(each, (*path, position), doubtful=doubtful)
    else:
        yield Entry(path, value, called, doubtful=doubtful)


def name_by_path(path: Path, value: object) -> str:
    """Returns a name for a colour that has none, in a document without `$value`."""
    names = path[1:] if path and path[0] in _LISTS else path
    if any(isinstance(part, str) for part in names):
        return joined(names)
    return value if isinstance(value, str) else ""  # in a plain list: as it is written, or by its HEX


def _is_triple(value: Sequence[object]) -> bool:
    return len(value) in {3, 4} and all(type(each) in (int, float) for each in value)


def _record(value: Object, path: Path, *, doubtful: bool) -> tuple[Entry, str] | None:
    """Returns the colour that an object describes, and the member that has it; None if it is a group."""
    kind = value.get("type") if isinstance(value.get("type"), str) and "value" in value else None
    if kind is None and is_color(value):
        return Entry(path, value, doubtful=doubtful), "hex"
    fit = [
        key
        for key, each in value.items()
        if isinstance(each, str | int | float) or is_color(each) or (key == "value" and kind is not None)
    ]
    name, place, channels = find_members(fit)
    if channels and all(type(value[channel]) in (int, float) for channel in channels):
        color: object = {short: value[channel] for short, channel in zip("rgb", channels, strict=True)}
    elif place and not (isinstance(value[place], int | float) and kind is None):
        color = value[place]
    else:
        return None
    alpha = find_alpha(fit)
    if isinstance(value.get("name"), dict):  # as in this library's records
        name = "name"
    given = "" if name is None else _name_of(value[name])
    color = modified(value, path) or color
    return Entry(
        path, color, given, kind, alpha=None if alpha is None else value[alpha], doubtful=doubtful
    ), place or "hex"


# Members that have the same colour in other forms, and what Style Dictionary adds to a token.
_OTHER_FORMS = frozenset(
    "hex rgb rgba hsl hsla hsv hsb hwb cmyk lab lch oklab oklch xyz css type original attributes path".split()  # noqa: SIM905
)


def _belongs(key: str, value: object, taken: str, *, is_named: bool) -> bool:
    """Returns whether a member of a colour belongs to it; if not, it may be a colour or a group of its own.

    `taken` is the member that has the colour's value. A text next to a named colour's HEX value belongs to it, such as
    the HEX of a text on it.
    """
    if key == taken or key.startswith("$") or is_name(key) or key.casefold() in _OTHER_FORMS:
        return True
    if isinstance(value, str):
        return is_named and taken.casefold().startswith("hex")
    return not isinstance(value, dict | list)


def is_color(value: object) -> bool:
    """Returns whether an object or list is the value of a colour."""
    if isinstance(value, dict):
        return isinstance(value.get("colorSpace"), str) or value.keys() == {"r", "g", "b"}
    return isinstance(value, list) and _is_triple(value)


def _name_of(name: object) -> str:
    """Returns the name of a colour; those of this library have several."""
    if isinstance(name, dict):
        return " ".join(str(name[language]) for language in ("zh", "en") if language in name)
    return str(name)


def is_meant(entry: Entry, value: object) -> bool:
    """Returns whether an entry of a document without `$value` is meant as a colour."""
    if entry.kind not in (None, "color"):  # other lists have a "type" too
        return looks_like_a_color(entry.value)
    return not entry.doubtful or looks_like_a_color(value) or is_color(value)
