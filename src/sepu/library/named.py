"""Palettes with names: your own colours, matched and shown like the library's."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, overload

from sepu._palette import Palette
from sepu.library.collection import Collection, spellings
from sepu.library.css import quoted
from sepu.library.parsing import ColorError, ColorLike, parse_color
from sepu.library.records import Records, Swatch, SwatchMatch, SwatchShare, is_in_srgb


class NamedPalette(Collection[Swatch, SwatchMatch, SwatchShare]):
    """Your own colours with names; `match` and `name_image` work as in the library.

    `colors`: at least one, as a mapping from names to colours in any form that `sepu.match` takes but the library's
    names, as pairs of name and colour, or as texts, each its own name. A pandas Series is a mapping. Names and colours
    may repeat; all are kept, in order, and ties go to the first. `index`: as in `Palette`. Raises ColorError for text
    or numbers that are not a colour, and names them; TypeError for other values.
    """

    attribution: tuple[str, ...] = ()
    _match = SwatchMatch
    _share = SwatchShare

    @overload  # for each form, because type checkers read a mapping's values without the others
    def __init__(self, colors: Mapping[str, ColorLike], *, index: bool | bytes | None = None) -> None: ...

    @overload
    def __init__(self, colors: Iterable[tuple[str, ColorLike] | str], *, index: bool | bytes | None = None) -> None: ...

    def __init__(
        self,
        colors: Mapping[str, ColorLike] | Iterable[tuple[str, ColorLike] | str],
        *,
        index: bool | bytes | None = None,
    ) -> None:
        self.records = tuple(_read(name, color) for name, color in _pairs(colors))
        if not self.records:
            raise ValueError("a palette needs at least one colour")
        if all(is_in_srgb(record.rgb) for record in self.records):
            self._numbers = Palette([record.rgb for record in self.records], index, scale=255)
        else:
            self._numbers = Palette(index=index, lab=[record.lab for record in self.records])

    def __repr__(self) -> str:
        """Says how many colours there are."""
        return f"<NamedPalette of {len(self)} colours>"

    def palette(self) -> Palette:
        """Returns the palette of the colours, for arrays; its positions are those of `records`."""
        return self._numbers

    def named(self, name: str) -> Records[Swatch]:
        """Returns the colours with this name, or else those that differ in case, accents, width or punctuation only."""
        found = super().named(name)
        return Records(record for record in found if record.name == name) or found

    def _index_names(self) -> dict[str, list[int]]:
        positions: dict[str, list[int]] = {}
        for position, record in enumerate(self.records):
            for spelling in {*spellings(record.name)}:
                positions.setdefault(spelling, []).append(position)
        return positions


_FORM = "write {'ink': '#1A1A1A', 'paper': (250, 245, 235)}"


def _pairs(colors: Any) -> Iterator[tuple[Any, Any]]:  # noqa: ANN401  # whatever a caller passes
    """Yields names and colours; raises TypeError for anything else."""
    if isinstance(colors, str | bytes) or not isinstance(colors, Iterable):
        raise TypeError(f"{quoted(colors)} is not a palette; {_FORM}")
    if hasattr(colors, "columns"):
        raise TypeError("a table is not a palette; write dict(zip(table['name'], table['hex']))")
    items = getattr(colors, "items", None)  # of a mapping, or of a Series
    for item in items() if callable(items) else colors:
        if isinstance(item, str):
            yield item, item
        elif isinstance(item, tuple | list) and len(item) == 2:
            yield item[0], item[1]
        else:
            raise TypeError(f"{quoted(item)} is not a pair of name and colour; {_FORM}")


def _read(name: str, color: ColorLike) -> Swatch:
    if not isinstance(name, str):
        raise TypeError(f"a name is a text, not {quoted(name)}; {_FORM}")
    name = str.__str__(name)  # of a subclass, its characters
    try:
        return Swatch(name, parse_color(color))
    except ColorError as error:
        raise ColorError(f"{quoted(name)}: {error}") from None
