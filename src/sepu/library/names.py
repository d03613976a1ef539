"""Spells the names of a colour in every way, and indexes the spellings for search (docs/searching.md)."""

from collections.abc import Iterator, Sequence
from functools import cache
from itertools import chain, product
from unicodedata import normalize

from sepu._names import OTHER_READINGS, VARIANTS, NameIndex, fold
from sepu.library.ranking import Level, rank_by_length
from sepu.library.records import Record

TONES = {
    "\N{COMBINING MACRON}": "1",
    "\N{COMBINING ACUTE ACCENT}": "2",
    "\N{COMBINING CARON}": "3",
    "\N{COMBINING GRAVE ACCENT}": "4",
}

UMLAUT = "u\N{COMBINING DIAERESIS}"
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
    syllables: list[tuple[str, int]] = []
    readings: list[tuple[str, int]] = []
    lengths = [[0] * len(records) for _ in Level]
    for position, record in enumerate(records):
        # The preferred level of each spelling; other levels would not change an answer.
        whole: dict[str, int] = {}
        inside: dict[str, int] = {}
        for level, units in _readings(record):
            lengths[level][position] = lengths[level][position] or sum(len(unit[0]) for unit in units)
            for form in _spellings(units, GAP_OPTIONAL):
                whole.setdefault(form, level)
            for start in range(len(units)):
                for end in range(start + 1, len(units) + 1):
                    for form in _spellings(units[start:end], RUN_TOGETHER):
                        inside.setdefault(form, level)
        toneless = [_toneless(syllable) for syllable in record.name.pinyin.split()]
        initials = _initials([spellings[0] for spellings in toneless])
        lengths[Level.INITIALS][position] = min(map(len, initials))
        for form in initials:
            inside.setdefault(form, Level.INITIALS)
        names += [(form, level, position) for form, level in whole.items()]
        parts += [(form, level, position) for form, level in inside.items()]
        syllables += [(" ".join(spelt), position) for spelt in product(*toneless)]
        readings += [(" ".join(spelt), position) for spelt in product(*_toned(record))]
    return NameIndex(names, parts, list(rank_by_length(lengths)), syllables, readings, Level.EN)


def _readings(record: Record) -> Iterator[tuple[Level, list[Unit]]]:
    """Yields the units of each of a colour's names, by level; of the names of one level ours first."""
    syllables = [_syllable(syllable) for syllable in record.name.pinyin.split()]
    others = [OTHER_READINGS.get(character, ()) for character in record.name.zh]
    for name in (record.name.zh, *VARIANTS.get(record.name.zh, ())):
        yield Level.ZH, [(character,) for character in fold(name)]
    yield Level.PINYIN, syllables
    if any(others):
        yield (
            Level.READING,
            [(*own, *chain.from_iterable(map(_syllable, other))) for own, other in zip(syllables, others, strict=True)],
        )
    yield Level.EN, [ENGLISH.get(word, (word,)) for word in fold(record.name.en).split()]
    yield Level.SLUG, [(word,) for word in fold(record.slug).split()]


def _toned(record: Record) -> Iterator[Unit]:
    """Yields the spellings of each syllable with a number for its tone mark, in all its readings."""
    for character, own in zip(record.name.zh, record.name.pinyin.split(), strict=True):
        readings = (own, *OTHER_READINGS.get(character, ()))
        yield tuple(form for reading in readings for form in _spell_umlaut(_number_tone(reading)))


@cache
def _syllable(written: str) -> Unit:
    tone = "".join(TONES.get(mark, "") for mark in normalize("NFD", written))
    return tuple(spelling + number for number in dict.fromkeys(("", tone)) for spelling in _toneless(written))


@cache
def _toneless(written: str) -> Unit:
    return tuple(map(fold, _spell_umlaut(normalize("NFD", written))))


def _spell_umlaut(decomposed: str) -> Unit:
    """Returns a syllable with each way to write ü."""
    ways = ("u", "v", "yu") if UMLAUT in decomposed else ("",)
    return tuple(decomposed.replace(UMLAUT, u) for u in ways)


def _number_tone(written: str) -> str:
    """Returns a syllable with a number in place of its tone mark; 5, the neutral tone, follows one without."""
    numbered = "".join(TONES.get(mark, mark) for mark in normalize("NFD", written))
    return numbered if any(map(str.isdigit, numbered)) else f"{numbered}5"


def _initials(syllables: Sequence[str]) -> list[str]:
    letters = "".join(syllable[0] for syllable in syllables)
    sounds = "".join(syllable[: 2 if syllable.startswith(RETROFLEX) else 1] for syllable in syllables)
    return list(dict.fromkeys((letters, sounds)))


def _spellings(units: Sequence[Unit], gaps: tuple[str, ...]) -> Iterator[str]:
    choices: list[tuple[str, ...]] = []
    for unit in units:
        choices += [gaps, unit]
    return map("".join, product(*choices[1:]))
