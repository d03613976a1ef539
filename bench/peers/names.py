"""Ways to find a colour by a name, as their users would write them. None knows pinyin, so all get the spellings."""

import sqlite3
from collections.abc import Iterable
from importlib.metadata import version
from typing import Protocol

from sepu._names import fold
from sepu.library.names import build_name_index
from sepu.library.records import Record

LIMIT = 10


class Names(Protocol):
    """Takes the records; finds their indices by name."""

    name: str

    def __init__(self, records: tuple[Record, ...]) -> None: ...
    def search(self, q: str, limit: int) -> Iterable[int]: ...


def spellings(record: Record) -> set[str]:
    name = record.name
    pinyin = fold(name.pinyin)
    return {name.zh, name.zh_hant, pinyin, pinyin.replace(" ", ""), name.en.lower(), record.slug}


class Sepu:
    name = "sepu"

    def __init__(self, records: tuple[Record, ...]) -> None:
        self.search = build_name_index(records).search


class Substrings:
    name = "dict of all substrings"

    def __init__(self, records: tuple[Record, ...]) -> None:
        found: dict[str, dict[int, None]] = {}
        for place, record in enumerate(records):
            for text in spellings(record):
                for start in range(len(text)):
                    for end in range(start + 1, len(text) + 1):
                        found.setdefault(text[start:end], {})[place] = None
        self.found = {text: list(places) for text, places in found.items()}

    def search(self, q: str, limit: int) -> list[int]:
        return self.found.get(q.lower(), [])[:limit]


class Marisa:
    name = f"marisa-trie {version('marisa-trie')}"

    def __init__(self, records: tuple[Record, ...]) -> None:
        from marisa_trie import RecordTrie

        pairs = [(text[at:], place) for place, r in enumerate(records) for text in spellings(r) for at in starts(text)]
        self.trie = RecordTrie("<B", [(text, (place,)) for text, place in pairs])

    def search(self, q: str, limit: int) -> list[int]:
        return list(dict.fromkeys(place for _, (place,) in self.trie.items(q.lower())))[:limit]


def starts(text: str) -> list[int]:
    """Returns where words start; in a text without words each character is one."""
    return [at for at in range(len(text)) if at == 0 or text[at - 1] in " -" or not text.isascii()]


class RapidFuzz:
    name = f"rapidfuzz {version('rapidfuzz')}"

    def __init__(self, records: tuple[Record, ...]) -> None:
        from rapidfuzz import fuzz, process

        self.extract, self.scorer = process.extract, fuzz.WRatio
        pairs = [(text, place) for place, record in enumerate(records) for text in sorted(spellings(record))]
        self.texts, self.places = [text for text, _ in pairs], [place for _, place in pairs]

    def search(self, q: str, limit: int) -> list[int]:
        best = self.extract(q.lower(), self.texts, scorer=self.scorer, limit=limit, score_cutoff=90)
        return list(dict.fromkeys(self.places[at] for _, _, at in best))


class Sqlite:
    name = f"SQLite FTS5 {sqlite3.sqlite_version}"

    def __init__(self, records: tuple[Record, ...]) -> None:
        self.database = sqlite3.connect(":memory:")
        self.database.execute("create virtual table names using fts5(text, tokenize='unicode61 remove_diacritics 2')")
        # Spaces separate Chinese characters, because the tokenizer takes several of them for one word.
        rows = [(place, " ".join(map(spaced, sorted(spellings(record))))) for place, record in enumerate(records)]
        self.database.executemany("insert into names(rowid, text) values (?, ?)", rows)

    def search(self, q: str, limit: int) -> list[int]:
        words = " ".join(f'"{word}"' for word in spaced(q.replace('"', " ")).split())
        if not words:
            return []
        sql = "select rowid from names where names match ? order by rank limit ?"
        return [place for (place,) in self.database.execute(sql, (f"{words}*", limit))]


def spaced(text: str) -> str:
    return text if text.isascii() else "".join(f" {c} " if c >= "一" else c for c in text)


PEERS: list[type[Names]] = [Sepu, Substrings, Marisa, RapidFuzz, Sqlite]
