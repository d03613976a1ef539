"""The rules of docs/searching.md, implemented literally: a full scan, slow, sharing no code with the index.

Two cases are skipped for speed; neither can change an answer:
- Colours that lack a letter of the query. Rules 1 to 5 compare the query with the letters and spaces of the parts: to
  equal or begin one, each letter of the query must occur there.
- Names that one typing error cannot reach. It adds a letter, removes one or does both (a wrong letter), so the two
  sets of letters differ by two at most.
"""

import csv
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import product
from pathlib import Path

from sepu.library.records import Record

ZH, PINYIN, READING, EN, SLUG, INITIALS = range(6)
EQUAL, STARTS, INSIDE, BY_INITIALS, MISSPELT = range(5)
Rank = tuple[int, int, int]
Ranked = list[tuple[Rank, int]]

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
VARIANTS: dict[str, list[str]] = {}
for _row in rows_of("variants.csv"):
    VARIANTS.setdefault(_row["zh"], []).append(_row["written"])
SCRIPT = {"ɡ": "g", "ɑ": "a"}
TONE_MARKS = {"\u0304": "1", "\u0301": "2", "\u030c": "3", "\u0300": "4"}
NEUTRAL = "05"
LONGEST_RESPELT = 64
SHORTEST_PIECE = 3


def words_of(text: str) -> list[str]:
    return "".join(letter for letter, _ in marked(text)).split()


def marked(text: str) -> list[tuple[str, str]]:
    """The letters of the words, with a space before each but the first, and the tone of each letter's mark or none."""
    out: list[tuple[str, str]] = []
    gap = False
    for c in unicodedata.normalize("NFKD", unicodedata.normalize("NFKC", text).casefold()):
        c = SCRIPT.get(c, MEANS.get(c, c))
        last = out[-1][0] if out and not gap else ""
        if c in TONE_MARKS and last and not is_chinese(last):
            out[-1] = (last, TONE_MARKS[c])
        if unicodedata.category(c) in {"Mn", "Me", "Cf"}:
            continue
        if c == ":" and last == "u" and len(out) > 1 and out[-2][0] in {"l", "n"}:
            out[-1] = ("v", out[-1][1])
        elif not c.isalnum():
            gap = True
        else:
            if out and (gap or is_chinese(out[-1][0]) != is_chinese(c)):
                out.append((" ", ""))
            out.append((c, ""))
            gap = False
    return out


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
            *(reading(ZH, [{c} for c in written]) for written in VARIANTS.get(name.zh, [])),
            reading(PINYIN, [syllable(s) for s in syllables]),
            others,
            reading(EN, [{word, word.replace("grey", "gray")} for word in name.en.lower().split()]),
            reading(SLUG, [{word} for word in record.slug.split("-")]),
        ]
        for variant in self.readings[1:-4]:
            variant.length = len(name.zh)
        self.toned = [[form for s in read for form in toned_syllables(s)] for read in several]
        bare = [without_tone(s) for s in syllables]
        initials = {
            "".join(s[0] for s in bare),
            "".join(s[:2] if s[:2] in {"zh", "ch", "sh"} else s[0] for s in bare),
        }
        self.readings.append(Reading(INITIALS, len(bare), set(), initials))
        self.mixed = reading(INITIALS, [{s.replace("ü", u) for u in UMLAUTS} | initials_of(s) for s in bare])
        self.letters = set("".join(p for r in self.readings for p in r.parts))

    def rank(self, words: list[str]) -> Rank | None:
        q = " ".join(words)
        ranks = []
        for r in self.readings:
            if q in r.whole:
                ranks.append((EQUAL, r.level, r.length))
            if q in r.whole_begins:
                ranks.append((STARTS, r.level, r.length))
        level = self.level_of_all(words)
        if level is not None:
            ranks.append((BY_INITIALS if level == INITIALS else INSIDE, level, self.length_at(level)))
        return min(ranks, default=None)

    def length_at(self, level: int) -> int:
        return next(r.length for r in self.readings if r.level == level)

    def level_of_all(self, words: list[str], *, begun: bool = False) -> int | None:
        worst = 0
        for number, word in enumerate(words, 1):
            cut = number == len(words) or (begun and len(word) >= shortest_piece(word))
            fitting = [r.level for r in self.readings if word in r.parts or (cut and word in r.part_begins)]
            if not fitting:
                return None
            worst = max(worst, min(fitting))
        return worst

    def inside_rank(self, ways: list[list[str]], *, begun: bool = False) -> Rank | None:
        levels = [level for words in ways if (level := self.level_of_all(words, begun=begun)) is not None]
        return (INSIDE, min(levels), self.length_at(min(levels))) if levels else None

    def tones(self, words: list[list[tuple[str, str]]]) -> bool | None:
        """Whether each word with tones is written with this name's; None if one is not in its pinyin."""
        fits = [fit for spelt in product(*self.toned) if (fit := fit_of(spelt, words)) is not None]
        return max(fits, default=None)

    def mixed_rank(self, words: list[str]) -> Rank | None:
        *before, last = words
        if last in self.mixed.part_begins and self.mixed.parts.issuperset(before):
            return BY_INITIALS, INITIALS, len(self.name)
        return None

    def misspelt_rank(self, q: str) -> Rank | None:
        letters = set(q)
        ranks = [
            (MISSPELT, r.level, r.length)
            for r in self.readings
            for name, its_letters in r.plain
            if len(its_letters ^ letters) <= 2 and edit_distance(name, q) <= 1
        ]
        return min(ranks, default=None)


def toned_syllables(marked: str) -> list[tuple[str, int, str]]:
    """The spellings of a syllable, each with the place of its tone mark and its tone."""
    place = next((at for at, c in enumerate(marked) if c in MARKED), 0)
    tone = next((MARKED[c][1] for c in marked if c in MARKED), "5")
    plain = without_tone(marked)
    return [
        (plain.replace("ü", u), place + (len(u) - 1 if "ü" in plain and plain.index("ü") <= place else 0), tone)
        for u in (UMLAUTS if "ü" in plain else ("",))
    ]


def fit_of(name: Sequence[tuple[str, int, str]], words: list[list[tuple[str, str]]]) -> bool | None:
    fits = [
        max(
            (
                fit
                for start in range(len(name))
                if (fit := fit_from(name[start:], word, last=word is words[-1])) is not None
            ),
            default=None,
        )
        for word in words
        if any(mark or letter in "0123456789" for letter, mark in word)
    ]
    return None if None in fits else all(fits)


def fit_from(name: Sequence[tuple[str, int, str]], word: list[tuple[str, str]], *, last: bool) -> bool | None:
    """Whether the word, syllable by syllable, has this name's tones; None if its letters are not the name's."""
    rest, same = list(word), True
    for spelt, place, tone in name:
        if not rest:
            break
        for at, letter in enumerate(spelt):
            if not rest and last:
                return same
            if not rest or rest[0][0] != letter:
                return None
            mark = rest.pop(0)[1]
            if mark and (mark, at) != (tone, place):
                same = False
            while rest and rest[0][0] in "0123456789":
                number = rest.pop(0)[0]
                same &= number in (tone, *NEUTRAL)
    return None if rest else same


def singular(word: str, parts: set[str], english: set[str]) -> str:
    if len(word) < 4 or not word.endswith("s") or word in parts:
        return word
    ways = [word[:-1]]
    if word.endswith("es"):
        ways.append(word[:-2])
    if word.endswith("ies"):
        ways.append(word[:-3] + "y")
    return next((way for way in ways if way in english), word if ways[0] in parts else ways[0])


def shortest_piece(word: str) -> int:
    return 1 if is_chinese(word[0]) else SHORTEST_PIECE


def respaced(words: list[str], parts: set[str]) -> Iterator[list[str]]:
    """The words with two neighbours joined, or with one divided into two parts."""
    for at, word in enumerate(words):
        if at:
            yield [*words[: at - 1], words[at - 1] + word, *words[at + 1 :]]
        least = shortest_piece(word)
        for cut in range(least, len(word) - least + 1):
            if word[:cut] in parts and word[cut:] in parts:
                yield [*words[:at], word[:cut], word[cut:], *words[at + 1 :]]


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
        self.begins = beginnings(self.parts)
        by_level = [(r.level, part) for colour in self.colours for r in colour.readings for part in r.parts]
        self.english = {part for level, part in by_level if level == EN} - {p for level, p in by_level if level < EN}
        self.having: dict[str, set[int]] = {}
        for colour in self.colours:
            for letter in colour.letters:
                self.having.setdefault(letter, set()).add(colour.position)

    def having_all(self, letters: str) -> set[int]:
        return set.intersection(*(self.having.get(letter, set()) for letter in letters)) if letters else set()

    def rank(self, words: list[str]) -> Ranked:
        return [
            (rank, at) for at in self.having_all("".join(words)) if (rank := self.colours[at].rank(words)) is not None
        ]

    def matches(self, words: list[str]) -> Ranked:
        return self.rank(words) if words else []

    def inside(self, ways: list[list[str]], *, begun: bool = False) -> Ranked:
        known = [words for words in ways if all(word in self.begins for word in words)]
        having_all = self.having_all("".join(map("".join, known[:1])))  # all ways have the same letters
        ranks = [(self.colours[at].inside_rank(known, begun=begun), at) for at in having_all]
        return [(rank, at) for rank, at in ranks if rank is not None]

    def without_tones(self, letters: list[tuple[str, str]]) -> list[int]:
        """Those found without the tone numbers; a word with one must be pinyin."""
        letters = [(letter, "") for letter, _ in letters]  # this rank is by the numbers alone
        plain: list[tuple[str, str]] = []
        numbers = 0
        for at, (letter, mark) in enumerate(letters):
            if letter in "012345" and at and letters[at - 1][0] in "abcdefghijklmnopqrstuvwxyz":
                numbers += 1
                continue
            plain.append((letter, mark))
        if not numbers:
            return []
        words = "".join(letter for letter, _ in plain).split()
        ranked, typed = self.matches(words), split(letters)
        if not ranked:
            rest = without_colour(words)
            if rest and rest[-1] in self.parts:
                ranked = self.matches(rest)
                typed = split(without_last_letters(letters, len("".join(words)) - len("".join(rest))))
        fits = {at: self.colours[at].tones(typed) for _, at in ranked}
        return [at for _, at in sorted(ranked, key=lambda each: (not fits[each[1]], each)) if fits[at] is not None]

    def search(self, q: str, limit: int) -> list[int]:
        letters = marked(q)
        words = "".join(letter for letter, _ in letters).split()
        if not words:
            return []
        joined = "".join(words)
        ranked, typed = self.rank(words), split(letters)
        if not ranked:
            having_all = self.having_all(joined)
            ranked = [(rank, at) for at in having_all if (rank := self.colours[at].mixed_rank(words)) is not None]
        if not ranked:
            rest = without_colour(words)
            if rest and rest[-1] in self.parts:
                ranked = self.rank(rest)
                if ranked:
                    typed = split(without_last_letters(letters, len(joined) - len("".join(rest))))
        if not ranked and len(" ".join(words)) <= LONGEST_RESPELT:
            single = [singular(word, self.parts, self.english) for word in words]
            for way in [words] if single == words else [words, single]:
                ranked = (
                    ranked
                    or (self.matches(way) if way is single else [])
                    or self.inside([way], begun=True)
                    or self.inside(list(respaced(way, self.parts)))
                )
            if not ranked and (found := self.without_tones(letters)):
                return self.in_tone(found, typed)[:limit]
        if ranked:
            found = [position for _, position in sorted(ranked)]
            return self.in_tone(found, typed)[:limit]
        if len(joined) >= 4 and not any(c in "0123456789" for c in joined):
            ranked = [(rank, c.position) for c in self.colours if (rank := c.misspelt_rank(joined)) is not None]
        return [position for _, position in sorted(ranked)][:limit]

    def in_tone(self, found: list[int], typed: list[list[tuple[str, str]]]) -> list[int]:
        """If there are tone marks, those with exactly the tones first."""
        if not any(mark for word in typed for _, mark in word):
            return found
        return sorted(found, key=lambda at: self.colours[at].tones(typed) is not True)


def split(letters: list[tuple[str, str]]) -> list[list[tuple[str, str]]]:
    words: list[list[tuple[str, str]]] = [[]]
    for letter, mark in letters:
        if letter == " ":
            words.append([])
        else:
            words[-1].append((letter, mark))
    return words


def without_last_letters(letters: list[tuple[str, str]], count: int) -> list[tuple[str, str]]:
    """Removes that many last letters; of the tone numbers among and after them, all but those of the letter before."""
    left = list(letters)
    while count:
        if left.pop()[0] not in " 012345":
            count -= 1
    while left[-1][0] == " ":
        left.pop()
    return left
