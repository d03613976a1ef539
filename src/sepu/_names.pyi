from collections.abc import Iterable, Sequence
from typing import final

OTHER_READINGS: dict[str, tuple[str, ...]]
VARIANTS: dict[str, tuple[str, ...]]

def fold(text: str) -> str:
    """Returns `text` as words of plain letters with one space between: no case, width, accents or punctuation.

    A change between Chinese characters and other letters also separates words.
    """

@final
class NameIndex:
    """Finds values by the spellings of their names. Immutable: any number of threads may search.

    A spelling is (folded text, level, value). A level is a kind of spelling; lower levels are preferred. `names` are
    whole names, with or without spaces. `parts` have no spaces: each word of a query matches a whole part, the last
    word also the beginning of one. `orders[level]` holds every value, 0 to n - 1, in the order preferred on that level;
    n is at most 256, and there are at most 8 levels. `syllables` are (ASCII text, value): names with one space between
    syllables, for queries that mix syllables with initials; they belong to the last level. `readings` are (ASCII text,
    value) too, with a tone number in place of each tone mark (`ta2o ho2ng`), for queries with tones. `english` is the
    level of English names, whose plurals are found; 0 for none. Raises ValueError for anything else, and TypeError for
    other types.
    """

    def __init__(
        self,
        names: Iterable[tuple[str, int, int]],
        parts: Iterable[tuple[str, int, int]],
        orders: Sequence[Sequence[int]],
        syllables: Iterable[tuple[str, int]] = (),
        readings: Iterable[tuple[str, int]] = (),
        english: int = 0,
    ) -> None: ...
    def search(self, q: str, limit: int) -> list[int]:
        """Returns at most `limit` values whose names match `q`, best first.

        First come names that are `q`, then names that start with `q`, then values that have every word of `q` as a
        part. If nothing is found, the search tries in turn: `q` as syllables mixed with initials; the first three
        without a final 色 or se; each word as the beginning of a part; words joined or divided; English words in the
        singular; other tones; names with one typing error. If `q` has tone marks, names with these tones come first.
        Takes any str; raises ValueError for a `limit` below 1.
        """
