"""Reads the colours of a style sheet: its custom properties, and the colours that GTK's `@define-color` names."""

import re
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from graphlib import CycleError, TopologicalSorter

from sepu import limits
from sepu.library.css import bare_components, in_function, read_css
from sepu.library.palette_entries import Found, PaletteError, decode, looks_like_a_color
from sepu.library.parsing import ColorLike
from sepu.library.records import Swatch

_LONGEST_VALUE = 1000  # characters of a value that may be a colour, with references and comments

_COMMENT = r"/\*.*?(?:\*/|\Z)"
_IDENT = r"(?>[-0-9A-Za-z_\x80-\U0010ffff]|\\[0-9A-Fa-f]{1,6}\s?|\\.)"
# Each turn of a possessive loop is atomic: CPython before 3.11.5 does not undo one that fails halfway (cpython#106052).
_GAP = rf"(?:(?>\s|{_COMMENT}))*+"
_QUOTED = rf"""{_COMMENT}|"(?:(?>[^"\\\n]|\\.))*+"?|'(?:(?>[^'\\\n]|\\.))*+'?"""
_PROPERTY_NAME = rf"--{_IDENT}*+"
_NAMED_COLOR = rf"@define-color(?![-\w]){_GAP}"
# Anything but a declaration, and then one: a custom property or GTK's, and its value.
_DECLARATION = re.compile(
    rf"(?:(?>{_QUOTED}|[^-0-9A-Za-z_\x80-\U0010ffff\"'/\\@]++|/|(?!{_NAMED_COLOR})@|(?!--){_IDENT}++"
    rf"|{_PROPERTY_NAME}(?!{_GAP}:)))*+"
    rf"(?:(?:({_PROPERTY_NAME}){_GAP}:|{_NAMED_COLOR}({_IDENT}++))((?:(?>{_QUOTED}|[^;{{}}\"'/\\]++|/|\\.))*+)|\\|\Z)",
    re.DOTALL,
)
# A reference, up to its fallback or end; a parenthesis; anything else.
_PIECE = re.compile(
    rf"var\({_GAP}({_PROPERTY_NAME}){_GAP}(?=[,)])|@({_IDENT}++)|[()]|[^()@Vv]++|.", re.DOTALL | re.IGNORECASE
)
_IN_FUNCTION = re.compile(
    rf"\b(rgb|hsl|hwb|(?:ok)?l(?:ab|ch))a?\(\s*var\(\s*({_PROPERTY_NAME})\s*\)\s*[,/)]", re.DOTALL | re.IGNORECASE
)
_IMPORTANT = re.compile(r"\s*!\s*important\s*\Z", re.IGNORECASE)
_COMMENTS = re.compile(_COMMENT, re.DOTALL)

Text = str | PaletteError  # in place of a reference that has no value, why


def read_style_sheet(content: bytes) -> Iterator[Found]:
    """Reads a style sheet's custom properties that are colours, and GTK's named colours; ignores the rest.

    Only their values are given to tinycss2, which takes 15 times as long as finding them.
    """
    text = decode(content)
    found: list[tuple[str, str]] = []
    for form in _DECLARATION.finditer(text):
        if form[1] or form[2]:
            value = _COMMENTS.sub(" ", form[3]).strip() if len(form[3]) <= _LONGEST_VALUE else ""
            found.append((_unescaped(form[1] or f"@{form[2]}"), _IMPORTANT.sub("", value)))
        if len(found) > limits.palettes.COLORS:
            raise PaletteError(f"CSS: there are more than {limits.palettes.COLORS:,} custom properties; save fewer")
    values = _Values(found)
    functions: dict[str, set[str]] = {}  # into which the file puts a property, as in hsl(var(--primary))
    for form in _IN_FUNCTION.finditer(_COMMENTS.sub("", text)):
        functions.setdefault(_unescaped(form[2]), set()).add(form[1].lower())
    for name, given in found:
        color: ColorLike | PaletteError | None
        try:
            color = _color(values.fill(given), functions.get(name, ()), is_named=name[0] == "@")
        except ValueError as error:
            color = PaletteError(str(error))
        if color is not None:
            yield name, name[1 if name[0] == "@" else 2 :], color


def _color(value: Text, functions: Collection[str], *, is_named: bool) -> ColorLike | None:
    """Returns the colour of a value; None if it is not meant as one. Raises ValueError if it is meant, but is not one.

    `functions`: those into which the file puts the value.
    """
    if isinstance(value, PaletteError):
        raise value
    if bare_components(value):
        if len(functions) != 1:
            several = f", and this file puts it into {'() and '.join(sorted(functions))}()" if functions else ""
            raise PaletteError(
                f"{value!r} is without a function{several}: write {in_function(value)!r}, or what is meant"
            )
        value = f"{min(functions)}({value})"
    # Not `parse_color`, which would take 'abc' for HEX.
    rgb = read_css(value)
    if rgb is not None:
        return Swatch("", rgb)
    if is_named or looks_like_a_color(value):
        raise PaletteError(f"{value!r:.60} is not a colour that is known here")
    return None


class _Values:
    """The values of a style sheet's properties, each with its references resolved once."""

    def __init__(self, found: Sequence[tuple[str, str]]) -> None:
        self._given = dict[str, str | None](found)
        several = {name for name, value in found if self._given[name] != value}  # the element decides which one holds
        self._given.update((name, None) for name, value in found if name in several and _may_be_a_color(value))
        self._filled: dict[str, Text] = {}
        order = TopologicalSorter(
            {name: _references(value) for name, value in self._given.items() if value is not None}
        )
        with suppress(CycleError):  # afterwards, what is in a circle or leads into one never becomes ready
            order.prepare()
        while ready := order.get_ready():
            for name in ready:
                value = self._given.get(name)
                if value is not None:
                    self._filled[name] = self.fill(value)
            order.done(*ready)

    def fill(self, value: str) -> Text:
        """Returns a value with its references replaced; if that fails, the reason, or '' if no colour was meant."""
        if "(" not in value and "@" not in value:
            return value
        texts: list[Text] = []
        outer: list[
            tuple[str | None, list[Text]]
        ] = []  # open parentheses: the property of var(), and what is before it
        for form in _PIECE.finditer(value):
            piece: Text = form[0]
            if form[1]:
                outer.append((_unescaped(form[1]), texts))
                texts = []
            elif form[2]:
                texts.append(self._value_of(_unescaped(f"@{form[2]}"), None))
            elif piece == "(":
                outer.append((None, texts))
                texts.append(piece)
            elif piece == ")" and outer:
                name, before = outer.pop()
                if name is not None:
                    fallback = _joined(texts) if texts else None
                    piece = self._value_of(
                        name, fallback.removeprefix(",").strip() if isinstance(fallback, str) else fallback
                    )
                    texts = before
                texts.append(piece)
            else:
                texts.append(piece)
        filled = _joined(texts)
        if isinstance(filled, PaletteError):
            return filled if len(texts) == 1 or looks_like_a_color(value) or "@" in value else ""
        return filled if len(filled) <= _LONGEST_VALUE else ""

    def _value_of(self, name: str, fallback: Text | None) -> Text:
        if name not in self._given:
            missing = PaletteError(f"it refers to '{name:.60}', which this file does not declare")
            return missing if fallback is None else fallback
        if self._given[name] is None:
            return PaletteError(f"it refers to '{name:.60}', which has several values: write the one that you mean")
        return self._filled.get(name, PaletteError("its references lead in a circle"))


def _joined(texts: list[Text]) -> Text:
    return next((text for text in texts if isinstance(text, PaletteError)), None) or "".join(map(str, texts))


def _references(value: str) -> set[str]:
    return {_unescaped(form[1] or f"@{form[2]}") for form in _PIECE.finditer(value) if form[1] or form[2]}


def _may_be_a_color(value: str) -> bool:
    is_reference = value[:4].lower() == "var(" or value[:1] == "@"
    return is_reference or looks_like_a_color(value) or value.isalpha() or bool(bare_components(value))


def _unescaped(name: str) -> str:
    """Returns the name of a property as CSS reads it."""
    if "\\" in name:
        from tinycss2 import parse_one_component_value

        start = 1 if name[0] == "@" else 0
        name = name[:start] + str(parse_one_component_value(name[start:_LONGEST_VALUE]).value)
    return name
