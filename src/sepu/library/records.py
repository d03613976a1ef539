"""The record of a colour, as the release has it, and the types of its values."""

from typing import Annotated, Literal

from msgspec import Meta, Struct

# \Z, because $ also matches before a final line break.
Hex = Annotated[str, Meta(pattern=r"\A#[0-9A-F]{6}\Z")]
Slug = Annotated[str, Meta(pattern=r"\A[a-z]+(-[a-z]+)*\Z")]
Text = Annotated[str, Meta(min_length=1)]
Reliability = Literal["verified", "attributed", "disputed"]
Version = Annotated[str, Meta(pattern=r"\A\d+\.\d+\.\d+\Z")]
Mode = Literal["commercial"]


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
