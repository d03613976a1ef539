"""Queries to compare the index with the reference; `prove.py` takes all of them, the tests a sample."""

from collections.abc import Iterator
from itertools import product
from random import Random

from tests.search.reference import Reference, initials_of, without_tone

from sepu.library.names import build_name_index
from sepu.library.release import load_release

ALL = 161
REFERENCE = Reference(load_release().records)
INDEX = build_name_index(load_release().records)

LETTERS = sorted(set().union(*(colour.letters for colour in REFERENCE.colours)) | {" "})
SPELLINGS = sorted({s for c in REFERENCE.colours for r in c.readings for s in r.whole | r.parts})
_WORDS = [[s for r in c.readings for s in sorted(r.parts)] for c in REFERENCE.colours]
_PINYIN = [[*map(without_tone, record.name.pinyin.split())] for record in load_release().records]


def short(length: int, start: str = "") -> Iterator[str]:
    """Every query of `start` and `length` more letters."""
    for letters in product(LETTERS, repeat=length):
        yield start + "".join(letters)


def noise(chance: Random) -> str:
    return "".join(chance.choices(LETTERS, k=chance.randint(3, 12)))


def misspelt(chance: Random) -> str:
    """A spelling with one typing error or cut short; sometimes with two. Some end in the word for "colour"."""
    text = chance.choice(SPELLINGS) + chance.choice(["", "", "", "色", "se", " se"])
    for _ in range(chance.choice([1, 1, 1, 2])):
        at = chance.randrange(len(text) + 1)
        letter = chance.choice(LETTERS)
        text = chance.choice(
            [
                text[:at] + letter + text[at:],
                text[:at] + text[at + 1 :],
                text[:at] + letter + text[at + 1 :],
                text[:at] + text[at : at + 2][::-1] + text[at + 2 :],
                text[:at],
            ]
        )
    return text


def syllables(chance: Random) -> str:
    """Syllables of a colour that touch, some as initials or with any tone; the last is sometimes cut short."""
    name = chance.choice(_PINYIN)
    start = chance.randrange(len(name))
    text = "".join(
        chance.choice([syllable, *sorted(initials_of(syllable))]) + chance.choice([*4 * [""], "\u0301", "1", "5"])
        for syllable in name[start:]
    )
    return text[: chance.choice([len(text), chance.randint(1, len(text))])]


def several_words(chance: Random) -> str:
    """Parts of one colour's names, sometimes with one of another's; the last is cut short."""
    chosen = chance.sample(chance.choice(_WORDS), k=chance.choice([2, 2, 2, 3]))
    if chance.random() < 0.2:
        chosen[0] = chance.choice(SPELLINGS)
    chosen[-1] = chosen[-1][: chance.randint(1, len(chosen[-1]))]
    return chance.choice([" ", "-", "'", " · "]).join(chosen)
