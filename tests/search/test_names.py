import random
import re
from collections.abc import Callable, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.search.queries import (
    ALL,
    INDEX,
    LETTERS,
    REFERENCE,
    SPELLINGS,
    misspelt,
    noise,
    several_words,
    short,
    syllables,
)
from tests.search.reference import words_of

from sepu._names import NameIndex, fold
from sepu.library.ranking import Level
from sepu.library.records import Record

SEED = 20260

RULES = Path(__file__).parents[2] / "docs" / "searching.md"
EXAMPLE = re.compile(r"^\| `(?P<q>[^`]+)` \| (?P<finds>[^|]+) \|", re.MULTILINE)

EXAMPLES = EXAMPLE.findall(Path(__file__).with_name("examples.md").read_text(encoding="utf-8"))


def assert_agrees(q: str, limit: int = ALL) -> None:
    assert INDEX.search(q, limit) == REFERENCE.search(q, limit), q


@pytest.mark.parametrize(("q", "finds"), EXAMPLES)
def test_examples_of_the_rules(records: Sequence[Record], q: str, finds: str) -> None:
    found = [records[position].name.zh for position in INDEX.search(q, ALL)]
    *expected, last = finds.split()
    if last == "…":
        assert found[: len(expected)] == expected
        assert len(found) > len(expected)
    else:
        assert found == ([] if last == "—" else [*expected, last])


def test_the_rules_name_the_levels_in_the_order_of_the_ranking() -> None:
    levels = re.findall(r"^\| (\d) \| (\w+) \|", RULES.read_text(encoding="utf-8"), re.MULTILINE)
    assert levels == [(str(level + 1), level.name.lower()) for level in Level]
    assert len(EXAMPLES) > 80


@pytest.mark.parametrize("length", [0, 1, pytest.param(2, marks=pytest.mark.slow)])
def test_every_short_query_equals_a_full_scan(length: int) -> None:
    for q in short(length):
        assert_agrees(q)


def test_every_spelling_equals_a_full_scan() -> None:
    for q in SPELLINGS:
        assert_agrees(q)


@pytest.mark.parametrize(("draw", "number"), [(misspelt, 500), (several_words, 500), (syllables, 1000), (noise, 100)])
def test_random_queries_equal_a_full_scan(draw: Callable[[random.Random], str], number: int) -> None:
    chance = random.Random(SEED)
    for _ in range(number):
        assert_agrees(draw(chance), chance.choice([1, 3, 10, ALL]))


@given(st.text(max_size=64), st.integers(min_value=1, max_value=200))
@settings(max_examples=300, deadline=None)
def test_any_text_equals_a_full_scan(q: str, limit: int) -> None:
    assert_agrees(q, limit)


@given(st.lists(st.sampled_from([*LETTERS, *SPELLINGS, "ü", "ǚ", "e\u0301", "Ｈ", "’", "\u200f"]), max_size=5))
@settings(max_examples=500, deadline=None)
def test_any_mixture_equals_a_full_scan(pieces: list[str]) -> None:
    assert_agrees("".join(pieces))


def test_every_code_point_is_folded_as_the_rules_say() -> None:
    for code in chain(
        range(0x3400), range(0x3400, 0xF900, 31), range(0xF900, 0x10000), range(0x10000, 0x40000, 31), (0x10FFFF,)
    ):
        text = f"a{chr(code)}b"
        folded = fold(text)
        assert folded == " ".join(words_of(text)), hex(code)


@pytest.mark.parametrize("form", ["{}an", "l{}", "hu{}ang", "hong{}hong", "{}红", "松{}绿", "lu{}4"])
def test_short_queries_are_folded_like_long_ones(form: str) -> None:
    wide = (range(0x2000, 0x2100), range(0x3000, 0x3100), range(0xFF00, 0x10010))
    for code in chain(range(0x400), range(0x4E00, 0xA000, 7), map(ord, LETTERS), *wide):
        q = form.format(chr(code))
        assert (found := INDEX.search(q, ALL)) == INDEX.search(q + " " * 64, ALL), hex(code)
        assert sorted(found) == sorted(INDEX.search(fold(q), ALL)), hex(code)  # without the order by tones


def test_limit() -> None:
    everything = INDEX.search("se", ALL)
    assert len(everything) > 20
    for limit in range(1, len(everything) + 2):
        assert INDEX.search("se", limit) == everything[:limit]
    assert INDEX.search("se", 10**30) == everything
    assert INDEX.search("red silk", 1) == INDEX.search("red silk", 10**30)[:1]
    for limit in (0, -1, -(10**30)):
        with pytest.raises(ValueError, match="limit"):
            INDEX.search("se", limit)


HOSTILE = [
    "", "\0", "\0" * 64, "fen\0hong", "\ud800", "粉红\udfff", "\udc80" * 64, "\U0010ffff" * 64, "😀👩‍👩‍👧‍👦🇨🇳",
    "אדום \u202eder", "أحمر", "ﷺ" * 64, "e" + "\u0301" * 63, "ß" * 64, "粉 " * 32,
    "粉a" * 32,  # twice as long when folded
    "Ⅳ粉" * 32,  # longer still
    "brow " * 12 + "reds",  # 64 letters, the most that are tried in other ways
    "a b " * 16, "'" * 64, "%_\\\"'; DROP TABLE colours; --", "hong" * 100_000, "hong " * 100_000, "粉" * 100_000,
    "ü" * 65,
]  # fmt: skip


@pytest.mark.parametrize("q", HOSTILE, ids=range(len(HOSTILE)))
def test_hostile_text_is_only_text(q: str) -> None:
    found = INDEX.search(q, 10)
    assert len(found) == len(set(found)) <= 10
    if len(q) <= 64:
        assert_agrees(q)


def test_an_answer_is_the_callers_own() -> None:
    INDEX.search("hong", 10).clear()
    assert len(INDEX.search("hong", 10)) == 10


def test_only_text_is_searched_for() -> None:
    with pytest.raises(TypeError):
        INDEX.search(b"red", 10)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("names", "parts", "orders", "error"),
    [
        ([], [], [], ValueError),
        ([], [], [[0]] * 9, ValueError),
        ([], [], [range(257)], ValueError),
        ([], [], [[0, 0]], ValueError),
        ([], [], [[0, 1], [0]], ValueError),
        ([("", 0, 0)], [], [[0]], ValueError),
        ([], [("", 0, 0)], [[0]], ValueError),
        ([("red", 1, 0)], [], [[0]], ValueError),
        ([], [("red", -1, 0)], [[0]], ValueError),
        ([(b"red", 0, 0)], [], [[0]], TypeError),
    ],
)
def test_an_index_refuses_what_it_cannot_hold(
    names: list[tuple[str, int, int]],
    parts: list[tuple[str, int, int]],
    orders: list[list[int]],
    error: type[Exception],
) -> None:
    with pytest.raises(error):
        NameIndex(names, parts, orders)


@pytest.mark.parametrize("value", [-1, 2])
@pytest.mark.parametrize("kind", ["names", "parts", "syllables", "readings"])
def test_each_spelling_has_a_value_of_the_index(kind: str, value: int) -> None:
    spelling = ("hong2", 0, value) if kind in {"names", "parts"} else ("hong2", value)
    arguments: dict[str, Any] = {"names": [], "parts": [], kind: [spelling]}
    with pytest.raises(ValueError, match=str(value)):
        NameIndex(**arguments, orders=[[0, 1]])


@pytest.mark.parametrize("english", [-1, 2])
def test_the_level_of_english_names_is_one_of_the_index(english: int) -> None:
    with pytest.raises(ValueError, match=f"level {english}"):
        NameIndex([], [], [[0]] * 2, english=english)


def test_an_index_without_english_names_finds_no_plural() -> None:
    parts = [("red", 0, 0), ("dye", 0, 0)]
    assert NameIndex([("red", 0, 0), ("greens", 0, 1)], parts, [[0, 1]]).search("dye reds", 2) == []
    english = [(part, 1, 0) for part, _, _ in parts]
    assert NameIndex([], english, [[0, 1]] * 2, english=1).search("dye reds", 2) == [0]


def test_an_index_holds_256_values() -> None:
    forms = [(f"n{value}", 0, value) for value in range(256)]
    full = NameIndex(forms, forms, [list(reversed(range(256)))] * 8)
    assert full.search("n", 300) == list(reversed(range(256)))
    assert NameIndex([], [], [[]]).search("red", 1) == []


@pytest.mark.parametrize("reading", ["hong", "ho2ng hong", ""])
def test_readings_have_a_tone_in_each_syllable(reading: str) -> None:
    with pytest.raises(ValueError, match="tone"):
        NameIndex([], [], [[0]], readings=[(reading, 0)])
