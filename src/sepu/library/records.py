"""The record of a colour, as the release has it, and the types of its values."""

from typing import Annotated, Literal, SupportsIndex, TypeVar, overload

import msgspec
from msgspec import Meta, Struct

from sepu._palette import srgb_to_lab

# \Z, because $ also matches before a final line break.
Hex = Annotated[str, Meta(pattern=r"\A#[0-9A-F]{6}\Z")]
Slug = Annotated[str, Meta(pattern=r"\A[a-z]+(-[a-z]+)*\Z")]
Text = Annotated[str, Meta(min_length=1)]
Reliability = Literal["verified", "attributed", "disputed"]
Version = Annotated[str, Meta(pattern=r"\A\d+\.\d+\.\d+\Z")]
Mode = Literal["commercial"]
R = TypeVar("R", bound="Record", covariant=True)


def rgb_of(hex_value: str) -> tuple[int, int, int]:
    """Returns the red, green and blue of a valid `Hex`, each 0 to 255."""
    red, green, blue = bytes.fromhex(hex_value[1:])
    return red, green, blue


class Name(Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """The names of one colour. `zh` is simplified, `zh_hant` the traditional form of the same name."""

    zh: Text
    zh_hant: Text
    pinyin: Text
    en: Text


class Record(Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """One colour of the library. `reliability` is confidence in its sources, not an official standard."""

    ordinal: int
    group: Text
    slug: Slug
    name: Name
    hex: Hex
    reliability: Reliability

    @property
    def rgb(self) -> tuple[int, int, int]:
        """Returns red, green and blue, each 0 to 255."""
        return rgb_of(self.hex)

    @property
    def lab(self) -> tuple[float, float, float]:
        """Returns L*, a* and b* under D65 for the 2 degree observer."""
        lightness, a, b = srgb_to_lab([self.rgb])[0].tolist()
        return lightness, a, b

    @property
    def measure(self) -> str:
        """Returns what was measured of this colour, for people; nothing for a record of the library."""
        return ""

    def __repr__(self) -> str:
        """Names the colour in one line: `<Record fei-hong 绯红 #C83C23>`."""
        return f"<{type(self).__name__} {' '.join(filter(None, (self.slug, self.name.zh, self.hex, self.measure)))}>"

    def _repr_html_(self) -> str:
        from sepu.library.display import html

        return html([self])


class Match(Record, frozen=True, rename="camel"):
    """A colour of the library, and its CIEDE2000 difference from the colour that was asked for."""

    delta_e: float

    @property
    def measure(self) -> str:
        """Returns the difference, for people."""
        return f"ΔE {self.delta_e:.4f}"


class Share(Record, frozen=True, rename="camel"):
    """A colour of the library, and the share of an image's pixels to which it is the nearest, from 0 to 1."""

    share: float

    @property
    def measure(self) -> str:
        """Returns the share, for people."""
        return f"{self.share:.1%}"


class Records(tuple[R, ...]):
    """Colours in order: a tuple that notebooks and rich show with swatches."""

    __slots__ = ()

    @overload
    def __getitem__(self, key: SupportsIndex) -> R: ...

    @overload
    def __getitem__(self, key: slice) -> "Records[R]": ...

    def __getitem__(self, key: SupportsIndex | slice) -> "R | Records[R]":
        """Returns the record at a place, or those of a slice, which are shown alike."""
        return Records(super().__getitem__(key)) if isinstance(key, slice) else super().__getitem__(key)

    def _repr_html_(self) -> str:
        from sepu.library.display import html

        return html(self)

    def __rich__(self) -> object:
        """Returns a table; rich calls it."""
        from sepu.library.display import Lines, line_of

        return Lines([*map(line_of, self)])


def with_measure(kind: type[R], record: Record, value: float) -> R:
    """Returns the record as a `Match` or a `Share`."""
    return kind(*msgspec.structs.astuple(record), value)  # type: ignore[call-arg]  # which Record has not
