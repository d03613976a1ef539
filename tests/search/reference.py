"""The rules of docs/searching.md, implemented literally: a full scan, slow, sharing no code with the index.

Two cases are skipped for speed; neither can change an answer:
- Colours that lack a letter of the query. Rules 1 to 4 compare the query with the letters and spaces of the parts: to
  equal or begin one, each letter of the query must occur there.
- Names that one typing error cannot reach. It adds a letter, removes one or does both (a wrong letter), so the two
  sets of letters differ by two at most.
"""

import csv
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from sepu.library.records import Record

ZH, PINYIN, READING, EN, SLUG, INITIALS = range(6)
EQUAL, STARTS, INSIDE, BY_INITIALS, MISSPELT = range(5)

# Written out, not computed: the vowels of pinyin with their tones.
MARKED = {
    marked: (plain, tone)
    for plain, row in {"a": "āáǎà", "e": "ēéěè", "i": "īíǐì", "o": "ōóǒò", "u": "ūúǔù", "ü": "ǖǘǚǜ"}.items()
    for tone, marked in zip("1234", row, strict=True)
}


UMLAUTS = ("u", "v", "yu")
FACTS = Path(__file__).parents[2] / "data" / "facts"


def rows_of(name: str) -> list[dict[str, str]]:
    with (FACTS / name).open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


# The character in our names for each character with the same meaning.
MEANS = {row["written"]: row["zh"] for row in rows_of("spellings.csv")}
MEANS |= {
    hant: zh for row in rows_of("colors.csv") for zh, hant in zip(row["zh"], row["zh_hant"], strict=True) if zh != hant
}
OTHER: dict[str, list[str]] = {}
for _row in rows_of("pronunciations.csv"):
    OTHER.setdefault(_row["zh"], []).append(_row["pinyin"])
SCRIPT = {"ɡ": "g", "ɑ": "a"}


def words_of(text: str) -> list[str]:
    out = ""
    for c in unicodedata.normalize("NFKD", unicodedata.normalize("NFKC", text).casefold()):
        c = SCRIPT.get(c, MEANS.get(c, c))
        if unicodedata.category(c) in {"Mn", "Me", "Cf"}:
            continue
        if c == ":" and out[-2:] in {"lu", "nu"}:
            out = out[:-1] + "v"
            continue
        if not c.isalnum():
            out += " "
        elif out and is_chinese(out[-1]) != is_chinese(c):
            out += " " + c
        else:
            out += c
    return out.split()


@cache
def is_chinese(c: str) -> bool:
    return unicodedata.name(c, "").startswith("CJK UNIFIED IDEOGRAPH")


@dataclass
class Reading:
    """The spellings of one name: whole, with or without gaps, and of its consecutive units without gaps."""

    level: int
    length: int
    whole: set[str]
    parts: set[str]

    def __post_init__(self) -> None:
        self.plain = [(name, set(name)) for name in self.whole if not set(name) & set(" 1234")]
        self.whole_begins = beginnings(self.whole)
        self.part_begins = beginnings(self.parts)


def beginnings(texts: Iterable[str]) -> set[str]:
    return {text[:end] for text in texts for end in range(1, len(text) + 1)}


def reading(level: int, units: Sequence[set[str]]) -> Reading:
    parts = {
        spelt
        for start in range(len(units))
        for end in range(start + 1, len(units) + 1)
        for spelt in spellings(units[start:end], [""])
    }
    return Reading(level, sum(min(map(len, u)) for u in units), set(spellings(units, ["", " "])), parts)


def spellings(units: Sequence[set[str]], gaps: list[str]) -> list[str]:
    if len(units) == 1:
        return list(units[0])
    return [first + gap + rest for first in units[0] for gap in gaps for rest in spellings(units[1:], gaps)]


def without_tone(marked: str) -> str:
    return "".join(MARKED.get(c, (c, ""))[0] for c in marked)


def syllable(marked: str) -> set[str]:
    plain = without_tone(marked)
    tone = "".join(MARKED.get(c, (c, ""))[1] for c in marked)
    spelt = {plain.replace("ü", u) for u in UMLAUTS}
    return spelt | {s + tone for s in spelt}


def initials_of(plain: str) -> set[str]:
    return {plain[0], plain[:2] if plain[:2] in {"zh", "ch", "sh"} else plain[0]}


class Colour:
    def __init__(self, position: int, record: Record) -> None:
        name = record.name
        syllables = name.pinyin.split()
        self.position = position
        self.name = name.zh
        several = [[s, *OTHER.get(c, [])] for c, s in zip(name.zh, syllables, strict=True)]
        # Without another reading it equals pinyin, which takes precedence.
        others = reading(READING, [{form for s in read for form in syllable(s)} for read in several])
        others.length = len("".join(map(without_tone, syllables)))
        self.readings = [
            reading(ZH, [{c} for c in name.zh]),
            reading(PINYIN, [syllable(s) for s in syllables]),
            others,
            reading(EN, [{word, word.replace("grey", "gray")} for word in name.en.lower().split()]),
            reading(SLUG, [{word} for word in record.slug.split("-")]),
        ]
        bare = [without_tone(s) for s in syllables]
        initials = {
            "".join(s[0] for s in bare),
            "".join(s[:2] if s[:2] in {"zh", "ch", "sh"} else s[0] for s in bare),
        }
        self.readings.append(Reading(INITIALS, len(bare), set(), initials))
        self.mixed = reading(INITIALS, [{s.replace("ü", u) for u in UMLAUTS} | initials_of(s) for s in bare])
        self.letters = set("".join(p for r in self.readings for p in r.parts))

    def rank(self, words: list[str]) -> tuple[int, int, int] | None:
        q = " ".join(words)
        ranks = []
        for r in self.readings:
            if q in r.whole:
                ranks.append((EQUAL, r.level, r.length))
            if q in r.whole_begins:
                ranks.append((STARTS, r.level, r.length))
        level = self.level_of_all(words)
        if level is not None:
            ranks.append((BY_INITIALS if level == INITIALS else INSIDE, level, self.readings[level].length))
        return min(ranks, default=None)

    def level_of_all(self, words: list[str]) -> int | None:
        worst = 0
        for number, word in enumerate(words, 1):
            fitting = [
                r.level for r in self.readings if word in r.parts or (number == len(words) and word in r.part_begins)
            ]
            if not fitting:
                return None
            worst = max(worst, min(fitting))
        return worst

    def mixed_rank(self, words: list[str]) -> tuple[int, int, int] | None:
        *before, last = words
        if last in self.mixed.part_begins and self.mixed.parts.issuperset(before):
            return BY_INITIALS, INITIALS, len(self.name)
        return None

    def misspelt_rank(self, q: str) -> tuple[int, int, int] | None:
        letters = set(q)
        ranks = [
            (MISSPELT, r.level, r.length)
            for r in self.readings
            for name, its_letters in r.plain
            if len(its_letters ^ letters) <= 2 and edit_distance(name, q) <= 1
        ]
        return min(ranks, default=None)


def edit_distance(a: str, b: str) -> int:
    """The Damerau-Levenshtein distance, by the textbook's matrix."""
    d = {(i, 0): i for i in range(len(a) + 1)} | {(0, j): j for j in range(len(b) + 1)}
    for i in range(1, len(a) + 1):
        for j in range(1, len(b) + 1):
            d[i, j] = min(
                d[i - 1, j] + 1,
                d[i, j - 1] + 1,
                d[i - 1, j - 1] + (a[i - 1] != b[j - 1]),
                d[i - 2, j - 2] + 1 if i > 1 and j > 1 and a[i - 2 : i] == b[j - 2 : j][::-1] else i + j,
            )
    return d[len(a), len(b)]


def without_colour(words: list[str]) -> list[str]:
    """Removes a final 色 or se; returns nothing if there is none."""
    for ending in ("色", "se"):
        if words[-1].endswith(ending):
            rest = words[-1].removesuffix(ending)
            return [*words[:-1], rest] if rest else words[:-1]
    return []


class Reference:
    def __init__(self, records: Iterable[Record]) -> None:
        self.colours = [Colour(position, record) for position, record in enumerate(records)]
        self.parts = {part for colour in self.colours for r in colour.readings for part in r.parts}
        self.having: dict[str, set[int]] = {}
        for colour in self.colours:
            for letter in colour.letters:
                self.having.setdefault(letter, set()).add(colour.position)

    def rank(self, words: list[str]) -> list[tuple[tuple[int, int, int], int]]:
        having_all = set.intersection(*(self.having.get(letter, set()) for letter in "".join(words)))
        return [(rank, at) for at in having_all if (rank := self.colours[at].rank(words)) is not None]

    def search(self, q: str, limit: int) -> list[int]:
        words = words_of(q)
        if not words:
            return []
        joined = "".join(words)
        ranked = self.rank(words)
        if not ranked:
            ranked = [(rank, c.position) for c in self.colours if (rank := c.mixed_rank(words)) is not None]
        if not ranked:
            rest = without_colour(words)
            if rest and rest[-1] in self.parts:
                ranked = self.rank(rest)
        if not ranked and len(joined) >= 4 and not any(c in "0123456789" for c in joined):
            ranked = [(rank, c.position) for c in self.colours if (rank := c.misspelt_rank(joined)) is not None]
        return [position for _, position in sorted(ranked)][:limit]
