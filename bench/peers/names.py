"""Ways to find a colour by a name, as their users would write them. None knows pinyin, so all get the spellings.

Each function takes the records, and returns a search of their indices by name.
"""

import sqlite3
from collections.abc import Callable, Iterable, Sequence
from importlib.metadata import version

from sepu._names import fold
from sepu.library.names import build_name_index
from sepu.library.records import Record

LIMIT = 10

Search = Callable[[str, int], Iterable[int]]


def spellings(record: Record) -> set[str]:
    name = record.name
    pinyin = fold(name.pinyin)
    return {name.zh, name.zh_hant, pinyin, pinyin.replace(" ", ""), name.en.lower(), record.slug}


def by_substrings(records: Sequence[Record]) -> Search:
    found: dict[str, dict[int, None]] = {}
    for place, record in enumerate(records):
        for text in spellings(record):
            for start in range(len(text)):
                for end in range(start + 1, len(text) + 1):
                    found.setdefault(text[start:end], {})[place] = None
    lists = {text: list(places) for text, places in found.items()}
    return lambda q, limit: lists.get(q.lower(), [])[:limit]


def by_marisa(records: Sequence[Record]) -> Search:
    from marisa_trie import RecordTrie

    def starts(text: str) -> list[int]:
        """Returns where words start; in a text without words each character is one."""
        return [at for at in range(len(text)) if at == 0 or text[at - 1] in " -" or not text.isascii()]

    pairs = [(text[at:], place) for place, r in enumerate(records) for text in spellings(r) for at in starts(text)]
    trie = RecordTrie("<B", [(text, (place,)) for text, place in pairs])
    return lambda q, limit: list(dict.fromkeys(place for _, (place,) in trie.items(q.lower())))[:limit]


def by_rapidfuzz(records: Sequence[Record]) -> Search:
    from rapidfuzz import fuzz, process

    pairs = [(text, place) for place, record in enumerate(records) for text in sorted(spellings(record))]
    texts, places = [text for text, _ in pairs], [place for _, place in pairs]
    extract, scorer = process.extract, fuzz.WRatio

    def search(q: str, limit: int) -> list[int]:
        best = extract(q.lower(), texts, scorer=scorer, limit=limit, score_cutoff=90)
        return list(dict.fromkeys(places[at] for _, _, at in best))

    return search


def by_sqlite(records: Sequence[Record]) -> Search:
    def spaced(text: str) -> str:
        """Separates Chinese characters, because the tokenizer takes several of them for one word."""
        return text if text.isascii() else "".join(f" {c} " if c >= "一" else c for c in text)

    database = sqlite3.connect(":memory:")
    database.execute("create virtual table names using fts5(text, tokenize='unicode61 remove_diacritics 2')")
    rows = [(place, " ".join(map(spaced, sorted(spellings(record))))) for place, record in enumerate(records)]
    database.executemany("insert into names(rowid, text) values (?, ?)", rows)

    def search(q: str, limit: int) -> list[int]:
        words = " ".join(f'"{word}"' for word in spaced(q.replace('"', " ")).split())
        if not words:
            return []
        sql = "select rowid from names where names match ? order by rank limit ?"
        return [place for (place,) in database.execute(sql, (f"{words}*", limit))]

    return search


PEERS: dict[str, Callable[[Sequence[Record]], Search]] = {
    "sepu": lambda records: build_name_index(records).search,
    "dict of all substrings": by_substrings,
    f"marisa-trie {version('marisa-trie')}": by_marisa,
    f"rapidfuzz {version('rapidfuzz')}": by_rapidfuzz,
    f"SQLite FTS5 {sqlite3.sqlite_version}": by_sqlite,
}
