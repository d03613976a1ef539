from collections.abc import Iterable, Sequence
from typing import final

def fold(text: str) -> str:
    """Return `text` as words of plain letters with one space between: no case, width, accents or punctuation.

    A change between Chinese characters and other letters separates words too.
    """

@final
class NameIndex:
    """Finds values by the spellings of their names. Immutable: any number of threads may search.

    A spelling is (folded text, level, value). A level is a kind of spelling; the lower is preferred. `names`
    are whole names, with or without spaces. `parts` are what a word of a query may be, so without spaces: the
    whole of one as any word, the beginning of one as the last word. `orders[level]` holds every value, 0 to
    n - 1, in the order preferred on that level; n is at most 256, and there are at most 8 levels.
    """

    def __init__(
        self,
        names: Iterable[tuple[str, int, int]],
        parts: Iterable[tuple[str, int, int]],
        orders: Sequence[Sequence[int]],
    ) -> None: ...
    def search(self, q: str, limit: int) -> list[int]:
        """Return at most `limit` values whose names match `q`, best first.

        First names that are `q`, then names that start with `q`, then values that have every word of `q` as a
        part; if there are none of these, names within one typing error. No str makes it raise; a `limit`
        below 1 is a ValueError.
        """
