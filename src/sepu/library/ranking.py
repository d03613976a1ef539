"""Ranks the languages in search, and the names in a language, as docs/searching.md states."""

from collections.abc import Iterator, Sequence
from enum import IntEnum


class Level(IntEnum):
    """Kinds of spellings; a match in an earlier level ranks before one in a later level."""

    ZH = 0
    PINYIN = 1
    READING = 2
    EN = 3
    SLUG = 4
    INITIALS = 5


def rank_by_length(lengths: Sequence[Sequence[int]]) -> Iterator[list[int]]:
    """Yields for each level the positions in order: the shorter name first, then library order."""
    for of_level in lengths:
        yield sorted(range(len(of_level)), key=of_level.__getitem__)
