"""The record of a colour, as the release carries it."""

import msgspec


class Name(msgspec.Struct, frozen=True, rename="camel"):
    """The names of one colour. `zh` is simplified, `zh_hant` the traditional form of the same name."""

    zh: str
    zh_hant: str
    pinyin: str
    en: str


class Record(msgspec.Struct, frozen=True):
    """One colour of the library; `reliability` is `verified`, `attributed` or `disputed`."""

    ordinal: int
    group: str
    slug: str
    name: Name
    hex: str
    reliability: str
