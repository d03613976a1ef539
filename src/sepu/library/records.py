"""Defines a colour's record, as the release has it, and the types of its values."""

import dataclasses
import re
from abc import abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, SupportsIndex, TypeVar, overload

import msgspec
from msgspec import Meta, Struct

from sepu._palette import srgb_to_lab
from sepu.library.css import lab_of_srgb
from sepu.library.display import Line, Lines, html

# \Z, because $ also matches before a final line break.
Hex = Annotated[str, Meta(pattern=r"\A#[0-9A-F]{6}\Z")]
Slug = Annotated[str, Meta(pattern=r"\A[a-z]+(-[a-z]+)*\Z")]
Text = Annotated[str, Meta(min_length=1)]
Reliability = Literal["verified", "attributed", "disputed"]
Version = Annotated[str, Meta(pattern=r"\A\d+\.\d+\.\d+\Z")]
Mode = Literal["commercial"]
R = TypeVar("R", bound="NamedColor", covariant=True)


def rgb_of(hex_value: str) -> tuple[int, int, int]:
    """Returns the red, green and blue of a valid `Hex`, each 0 to 255."""
    red, green, blue = bytes.fromhex(hex_value[1:])
    return red, green, blue


def hex_of(rgb: Sequence[float]) -> str:
    """Returns `#RRGGBB` of red, green and blue: rounded half up, and clipped to 0 to 255."""
    # To nine decimals first: in doubles, 30% is 76.49999999999999.
    return "#{:02X}{:02X}{:02X}".format(*(int(round(min(max(channel, 0), 255), 9) + 0.5) for channel in rgb))


def is_in_srgb(rgb: Sequence[float]) -> bool:
    """Returns whether each channel is from 0 to 255: otherwise the colour lies outside sRGB."""
    red, green, blue = rgb
    return 0 <= red <= 255 and 0 <= green <= 255 and 0 <= blue <= 255


class Name(Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """The names of one colour. `zh` is simplified, `zh_hant` the traditional form of the same name."""

    zh: Text
    zh_hant: Text
    pinyin: Text
    en: Text


Columns = dict[str, "dataclasses.Field[Any]"]


def columns(*names: str) -> Columns:
    """Returns the fields that make a class look like a dataclass, so that pandas makes a table of its objects."""
    return {field.name: field for field in dataclasses.fields(dataclasses.make_dataclass("Columns", names))}


class NamedColor(Struct, frozen=True):
    """A colour with a name, in the library or in a palette of your own."""

    __dataclass_fields__: ClassVar[Columns] = {}

    @property
    def rgb(self) -> tuple[float, float, float]:
        """Returns red, green and blue, each 0 to 255, or beyond if the colour lies outside sRGB."""
        return rgb_of(self.hex)

    @property
    def hex(self) -> str:
        """Returns the value as `#RRGGBB`: rounded, and clipped if it lies outside sRGB."""
        return hex_of(self.rgb)

    @property
    def lab(self) -> tuple[float, float, float]:
        """Returns L*, a* and b* under D65 for the 2 degree observer."""
        if not is_in_srgb(self.rgb):
            return lab_of_srgb(self.rgb)
        lightness, a, b = srgb_to_lab([self.rgb], scale=255)[0].tolist()
        return lightness, a, b

    @property
    def measure(self) -> str:
        """Returns the colour's difference or share, for people; empty if it has none."""
        return ""

    if TYPE_CHECKING:  # each kind of colour has it

        @property
        @abstractmethod
        def label(self) -> str:
            """Returns its name, for people."""

    def to_dict(self) -> dict[str, object]:
        """Returns the values by name, in a flat dict; pandas and Polars make table columns of them."""
        return dataclasses.asdict(self)

    def _repr_html_(self) -> str:
        return html([line_of(self)])


class Record(NamedColor, frozen=True, rename="camel", forbid_unknown_fields=True):
    """One colour of the library. `reliability` is confidence in its sources, not an official standard.

    `name` has `zh` (simplified), `zh_hant` (traditional), `pinyin` and `en`; the record has them too.
    """

    __dataclass_fields__: ClassVar[Columns] = columns(
        "slug", "zh", "zh_hant", "pinyin", "en", "hex", "group", "reliability"
    )

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

    zh = property(lambda self: self.name.zh)
    zh_hant = property(lambda self: self.name.zh_hant)
    pinyin = property(lambda self: self.name.pinyin)
    en = property(lambda self: self.name.en)

    @property
    def label(self) -> str:
        """Returns its name and slug, for people."""
        return f"{self.name.zh} ({self.slug})"

    def __repr__(self) -> str:
        """Names the colour in one line: `<Record fei-hong 绯红 #C83C23>`."""
        return f"<{type(self).__name__} {' '.join(filter(None, (self.slug, self.name.zh, self.hex, self.measure)))}>"


class Swatch(NamedColor, frozen=True, rename="camel"):
    """A colour of a palette with names."""

    __dataclass_fields__: ClassVar[Columns] = columns("name", "hex")

    name: str
    rgb: tuple[float, float, float]

    @property
    def label(self) -> str:
        """Returns its name."""
        return self.name

    @property
    def slug(self) -> str:
        """Returns its name as letters, digits and hyphens, beginning with a letter, for style sheets."""
        slug = re.sub(r"[\W_]+", "-", self.name.casefold()).strip("-")
        return slug if slug[:1].isalpha() else f"c{slug}"

    def __repr__(self) -> str:
        """Names the colour in one line: `<Swatch 'ink' #1A1A1A>`."""
        return f"<{type(self).__name__} {' '.join(filter(None, (repr(self.name), self.hex, self.measure)))}>"


def _difference(entry: Any) -> str:  # noqa: ANN401  # whatever has one
    """Returns the difference, for people."""
    return f"ΔE {entry.delta_e:.4f}"


def _share(entry: Any) -> str:  # noqa: ANN401
    """Returns the share, for people."""
    return f"{entry.share:.1%}"


class Match(Record, frozen=True, rename="camel"):
    """A colour of the library, and its CIEDE2000 difference from the requested colour.

    `in_srgb` says whether the requested colour lies in sRGB. If not, it is matched at its true value, not clipped.
    """

    __dataclass_fields__: ClassVar[Columns] = columns(*Record.__dataclass_fields__, "delta_e", "in_srgb")
    measure = property(_difference)

    delta_e: float
    in_srgb: bool = True


class Share(Record, frozen=True, rename="camel"):
    """A colour of the library, and the share of an image's pixels that are nearest to it, from 0 to 1."""

    __dataclass_fields__: ClassVar[Columns] = columns(*Record.__dataclass_fields__, "share")
    measure = property(_share)

    share: float


class SwatchMatch(Swatch, frozen=True, rename="camel"):
    """A colour of a palette with names, with the values of `Match`."""

    __dataclass_fields__: ClassVar[Columns] = columns(*Swatch.__dataclass_fields__, "delta_e", "in_srgb")
    measure = property(_difference)

    delta_e: float
    in_srgb: bool = True


class SwatchShare(Swatch, frozen=True, rename="camel"):
    """A colour of a palette with names, and the share of an image's pixels that are nearest to it, from 0 to 1."""

    __dataclass_fields__: ClassVar[Columns] = columns(*Swatch.__dataclass_fields__, "share")
    measure = property(_share)

    share: float


class Records(tuple[R, ...]):
    """Colours in order: a tuple that notebooks and rich show with swatches."""

    __slots__ = ()

    @overload
    def __getitem__(self, key: SupportsIndex) -> R: ...

    @overload
    def __getitem__(self, key: slice) -> "Records[R]": ...

    def __getitem__(self, key: SupportsIndex | slice) -> "R | Records[R]":
        """Returns the record at a position, or the `Records` of a slice."""
        return Records(super().__getitem__(key)) if isinstance(key, slice) else super().__getitem__(key)

    def _repr_html_(self) -> str:
        return html(map(line_of, self))

    def __rich__(self) -> object:
        """Returns a table; rich calls it."""
        return Lines([*map(line_of, self)])


def line_of(record: NamedColor) -> Line:
    """Returns a colour as a line of a table."""
    if not isinstance(record, Record):
        return Line(record.hex, record.measure, en=record.label)
    name = record.name
    return Line(record.hex, record.measure, name.zh, name.pinyin, name.en, record.reliability)


def with_measure(kind: type[R], record: NamedColor, *values: float) -> R:
    """Returns the record as a `kind`, with its difference or share."""
    return kind(*msgspec.structs.astuple(record), *values)
