"""Spells the names of a colour in every way, and indexes the spellings for search (docs/searching.md)."""

from collections.abc import Iterator, Sequence
from functools import cache
from itertools import product
from unicodedata import normalize

from sepu._names import OTHER_READINGS, NameIndex, fold
from sepu.library.ranking import Level, rank_by_length
from sepu.library.records import Name, Record

TONES = {
    "\N{COMBINING MACRON}": "1",
    "\N{COMBINING ACUTE ACCENT}": "2",
    "\N{COMBINING CARON}": "3",
    "\N{COMBINING GRAVE ACCENT}": "4",
}

RETROFLEX = ("zh", "ch", "sh")

# A character, syllable or word: all its spellings, the plainest first.
Unit = tuple[str, ...]

# British, then American.
ENGLISH: dict[str, Unit] = {"grey": ("grey", "gray")}

RUN_TOGETHER = ("",)
GAP_OPTIONAL = ("", " ")


def build_name_index(records: Sequence[Record]) -> NameIndex:
    """Indexes the names of `records`; a search returns positions in `records`."""
    names: list[tuple[str, int, int]] = []
    parts: list[tuple[str, int, int]] = []
    loose: list[tuple[str, int, int]] = []
    lengths = [[0] * len(records) for _ in Level]
    for position, record in enumerate(records):
        for level, units in _readings(record).items():
            lengths[level][position] = sum(len(unit[0]) for unit in units)
            names += [(form, level, position) for form in _spellings(units, GAP_OPTIONAL)]
            parts += [(form, level, position) for form in _parts(units)]
        loose += [(form, Level.INITIALS, position) for form in _parts(_loose_units(record.name))]
        initials = _initials(record.name)
        lengths[Level.INITIALS][position] = min(map(len, initials))
        parts += [(form, Level.INITIALS, position) for form in initials]
    return NameIndex(names, parts, list(rank_by_length(lengths)), loose)


def _readings(record: Record) -> dict[int, list[Unit]]:
    return {
        Level.ZH: [(character,) for character in fold(record.name.zh)],
        Level.PINYIN: [_syllable(syllable) for syllable in record.name.pinyin.split()],
        Level.EN: [ENGLISH.get(word, (word,)) for word in fold(record.name.en).split()],
        Level.SLUG: [(word,) for word in fold(record.slug).split()],
    }


@cache
def _syllable(written: str) -> Unit:
    decomposed = normalize("NFD", written)
    tone = "".join(TONES.get(mark, "") for mark in decomposed)
    letters = dict.fromkeys(fold(decomposed.replace("u\N{COMBINING DIAERESIS}", u)) for u in ("u", "v", "yu"))
    return tuple(spelling + number for number in dict.fromkeys(("", tone)) for spelling in letters)


def _loose_units(name: Name) -> list[Unit]:
    """Returns each syllable's spellings, also by another reading of the character or by its initial."""
    units: list[Unit] = []
    for character, syllable in zip(name.zh, name.pinyin.split(), strict=True):
        plain = fold(syllable)
        forms = [form for read in (syllable, *OTHER_READINGS.get(character, ())) for form in _syllable(read)]
        units.append(tuple(dict.fromkeys([*forms, plain[0], plain[: _sound(plain)]])))
    return units


def _sound(syllable: str) -> int:
    return 2 if syllable.startswith(RETROFLEX) else 1


def _initials(name: Name) -> list[str]:
    syllables = [fold(syllable) for syllable in name.pinyin.split()]
    letters = "".join(syllable[0] for syllable in syllables)
    sounds = "".join(syllable[: _sound(syllable)] for syllable in syllables)
    return list(dict.fromkeys((letters, sounds)))


def _parts(units: Sequence[Unit]) -> Iterator[str]:
    for start in range(len(units)):
        for end in range(start + 1, len(units) + 1):
            yield from _spellings(units[start:end], RUN_TOGETHER)


def _spellings(units: Sequence[Unit], gaps: tuple[str, ...]) -> Iterator[str]:
    choices: list[tuple[str, ...]] = []
    for unit in units:
        choices += [gaps, unit]
    return map("".join, product(*choices[1:]))
