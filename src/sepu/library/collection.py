"""Collects colours with names: matches them exactly, and finds them by name."""

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from numbers import Real
from operator import index
from typing import TYPE_CHECKING, Generic, Literal, TypeVar, overload

import numpy as np

from sepu import limits
from sepu._names import fold
from sepu._palette import Palette
from sepu.errors import SepuError
from sepu.labels import LAB, in_order
from sepu.library.css import lab_of_srgb, quoted, srgb_of_lab
from sepu.library.display import html
from sepu.library.images import Image, Opacity, Pixels, count_pixels, merge_shares, read_image
from sepu.library.once import once
from sepu.library.parsing import ColorLike, Rgb, parse_color
from sepu.library.records import (
    NamedColor,
    Records,
    is_in_srgb,
    line_of,
    with_measure,
)

_HINTED = 1000  # names that an unknown one is compared with

R = TypeVar("R", bound=NamedColor)  # a colour; below, with a difference and with a share
M = TypeVar("M", bound=NamedColor)
S = TypeVar("S", bound=NamedColor)


class UnknownNameError(SepuError, KeyError):
    """No colour has this name, or several have it; the message suggests some."""

    __str__ = Exception.__str__  # KeyError's quotes the message


class Collection(Generic[R, M, S]):
    """Colours with names: iterable, with a length, matched exactly, and found by their names."""

    __slots__ = ()

    records: tuple[R, ...]
    _match: type[M]
    _share: type[S]

    def __len__(self) -> int:
        """Returns the number of colours."""
        return len(self.records)

    def __iter__(self) -> Iterator[R]:
        """Iterates over the records in library order."""
        return iter(self.records)

    def __contains__(self, item: object) -> bool:
        """Returns whether there is this record, or a colour with this slug or name."""
        return bool(self.named(item)) if isinstance(item, str) else item in self.records

    @overload
    def __getitem__(self, key: str | int) -> R: ...

    @overload
    def __getitem__(self, key: slice) -> Records[R]: ...

    def __getitem__(self, key: str | int | slice) -> R | Records[R]:
        """Returns the record with this slug, Chinese or English name or unique pinyin, or at this position.

        Raises UnknownNameError for any other name, and IndexError for a position without a record.
        """
        if isinstance(key, slice):
            return Records(self.records[key])
        if not isinstance(key, str):
            position = whole_number(key, "a position")
            if not -len(self) <= position < len(self):
                raise IndexError(f"no colour has the position {position}; the positions are 0 to {len(self) - 1}")
            return self.records[position]
        found = self.named(key)
        if len(found) == 1:
            return found[0]
        if found:
            raise UnknownNameError(f"{quoted(key)} is the name of several colours: {self._several(found)}")
        raise UnknownNameError(f"no colour is named {quoted(key)}{self.hint(key) or ' or anything similar'}")

    def _several(self, found: Records[R]) -> str:
        """Returns the colours that have one name, and how to tell them apart."""
        return f"{', '.join(record.hex for record in found)}; take one by its position, or all by named()"

    def hint(self, name: str) -> str:
        """Returns the end of a message: the colours that an unknown name may mean; may be empty."""
        from difflib import get_close_matches

        if len(name) > limits.inputs.NAME_CHARACTERS:
            return ""
        near = get_close_matches(name, [record.label for record in self.records[:_HINTED]], 3)
        return f"; perhaps you mean {' or '.join(near)}" if near else ""

    def named(self, name: str) -> Records[R]:
        """Returns the records with this slug or name, in any language; there may be none."""
        for spelling in spellings(name):
            if positions := self._positions.get(spelling):
                return Records(self.records[position] for position in positions)
        return Records()

    def match(
        self,
        color: ColorLike | None = None,
        *,
        lab: Sequence[float] | None = None,
        white: Literal["D65", "D50"] = "D65",
        top: int = 1,
    ) -> Records[M]:
        """Returns the `top` nearest colours by CIEDE2000, nearest first, ties in the order of the colours.

        `color`: '#C83C23', '#fff', three numbers from 0 to 255, a name of its own colours, a colour of CSS Color 4 such
        as 'oklch(0.6 0.2 30)', or a record. Labels such as r, g and b decide, not the order. Or `lab`: L*, a* and b*
        under D65, or with `white="D50"` under D50, which lab() of CSS has. A colour over 0.1% outside sRGB is
        compared at its true value, and its matches have `in_srgb` False.

        Raises ColorError for text or numbers that are not a colour, and for a name to which CSS gives another value.
        Raises ValueError for L*a*b* that is not three finite numbers, and unless `top` is from 1 to the number of
        colours.
        """
        if lab is None:
            named = self.named(color) if isinstance(color, str) else ()
            return self.match_rgb(parse_color(color, named), top=top)  # type: ignore[arg-type]  # None is refused there
        if color is not None:
            raise TypeError("match takes a colour or lab=(L, a, b), not both")
        ordered = in_order(lab, LAB)
        nearest = self._palette.nearest(k=self._top(top), lab=ordered, white=white)
        return self._matches(nearest, is_in_srgb(srgb_of_lab([float(value) for value in ordered], white)))

    def match_rgb(self, rgb: Rgb, *, top: int = 1) -> Records[M]:
        """Works like `match`, for a result of `parse_color`."""
        inside = is_in_srgb(rgb)
        if inside:
            red, green, blue = rgb
            nearest = self._palette.nearest(red, green, blue, self._top(top))
        else:
            nearest = self._palette.nearest(k=self._top(top), lab=lab_of_srgb(rgb))
        return self._matches(nearest, inside)

    def _top(self, top: int) -> int:
        if not 1 <= whole_number(top, "top") <= len(self.records):
            raise ValueError(f"top must be from 1 to {len(self)}, not {top}")
        return top

    def _matches(self, nearest: Sequence[tuple[int, float]], in_srgb: bool) -> Records[M]:
        kind, records = self._match, self.records  # PERF: looked up once, not for each colour
        return Records([with_measure(kind, records[position], delta_e, in_srgb) for position, delta_e in nearest])

    def name_image(
        self, image: Image, *, top: int | None = None, scale: int | None = None, within: float = 0
    ) -> Records[S]:
        """Returns the colours of an image with their shares of its pixels, the largest share first.

        Each pixel counts for its nearest colour, weighted by its opacity. `image`: a path, an open file, its content as
        bytes, or a Pillow image (these need the `image` extra); or an array of shape (height, width, 3) or, with alpha,
        (height, width, 4). `scale`: the greatest value that a channel of an array may have, 1 or 255; only uint8 and
        int64, which are from 0 to 255, need none. `within`: merges a colour into one as frequent or more that differs
        by at most this ΔE (CIEDE2000); 20 leaves the few dominant ones. `top`: the maximum number of colours.

        Raises ImageError for an image that cannot be read, and for an array that does not fit its scale.
        """
        if top is not None and whole_number(top, "top") < 1:
            raise ValueError(f"top must be at least 1, not {top}")
        if isinstance(within, bool) or not isinstance(within, Real):
            raise TypeError(f"within is a difference such as 20, not {within!r}")
        if not within >= 0:
            raise ValueError(f"within is a difference such as 20, not {within}")
        return self.name_pixels(*read_image(image, scale), top=top, within=within)

    def name_pixels(
        self, pixels: Pixels, opacity: Opacity | None, *, top: int | None = None, within: float = 0
    ) -> Records[S]:
        """Works like `name_image`, for a result of `read_image`."""
        shares = count_pixels(self._palette, pixels, opacity)
        if within:
            shares = merge_shares(shares, np.array([record.lab for record in self.records]), within)
        order = [position for position in np.argsort(-shares, kind="stable").tolist() if shares[position]]
        return Records(
            with_measure(self._share, self.records[position], float(shares[position])) for position in order[:top]
        )

    def _repr_html_(self) -> str:
        return html(map(line_of, self.records))

    def __rich__(self) -> object:
        """Returns a table; rich calls it."""
        return Records(self.records).__rich__()

    if TYPE_CHECKING:  # each collection defines them

        @abstractmethod
        def palette(self) -> Palette:
            """Makes the palette of the colours; positions in it are those of the records."""

        @abstractmethod
        def _index_names(self) -> dict[str, list[int]]:
            """Returns the positions of each name, as it is and folded."""

    @once
    def _palette(self) -> Palette:
        return self.palette()

    @once
    def _positions(self) -> dict[str, list[int]]:
        return self._index_names()


def spellings(name: str) -> tuple[str, ...]:
    """Returns a name as it is, and folded if it is not too long for a name."""
    name = str.__str__(name)  # of a subclass, its characters: an Enum's own text may differ
    return (name, fold(name)) if len(name) <= limits.inputs.NAME_CHARACTERS else (name,)


def whole_number(number: object, name: str) -> int:
    """Returns a whole number; raises TypeError for anything else."""
    if isinstance(number, bool) or not hasattr(number, "__index__"):
        raise TypeError(f"{name} is a whole number such as 3, not {number!r}")
    return index(number)
