from unicodedata import category
from urllib.parse import quote_plus

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sepu import NameIndex
from sepu.errors import InputError
from sepu.operations.search import Searcher, SearchInput, parse_search

# Text without surrogates, which UTF-8 cannot encode.
texts = st.text(st.characters(exclude_categories=["Cs"]), min_size=2, max_size=64)
# ECMA-262's, as in the interface's description.
WHITE_SPACE = "".join(c for c in map(chr, range(0x10000)) if c in "\t\n\v\f\r\u2028\u2029\ufeff" or category(c) == "Zs")


@given(texts | st.text(" \xa0\u3000\ufeff\x1c\x85a", min_size=2, max_size=5), st.integers(1, 10))
def test_what_is_sent_is_what_is_parsed(text: str, limit: int) -> None:
    trimmed = text.strip(WHITE_SPACE)
    query = f"limit={limit}&q={quote_plus('  ' + text)}"
    if 2 <= len(trimmed) <= 64:
        assert parse_search(query) == SearchInput(trimmed, limit)
    else:
        with pytest.raises(InputError, match="invalid_q"):
            parse_search(query)


def test_white_space_is_trimmed() -> None:
    for space in WHITE_SPACE:
        assert parse_search(f"q={quote_plus(f'{space}ab{space}')}").q == "ab", hex(ord(space))


@given(st.text(st.characters(codec="ascii"), max_size=200))
def test_any_query_is_parsed_or_refused_by_the_contract(query: str) -> None:
    try:
        parsed = parse_search(query)
    except InputError as refusal:
        assert refusal.code in {"unknown_parameter", "invalid_q", "invalid_limit"}
        assert refusal.pointer in {"", refusal.code.replace("invalid_", "/")}
    else:
        assert 2 <= len(parsed.q) <= 64
        assert 1 <= parsed.limit <= 10


@given(texts, texts, st.integers(1, 10), st.integers(1, 10))
def test_fingerprints_tell_input_apart(one: str, other: str, limit: int, other_limit: int) -> None:
    same = one == other and limit == other_limit
    assert (SearchInput(one, limit).fingerprint() == SearchInput(other, other_limit).fingerprint()) == same


def test_the_fingerprint_does_not_change_between_releases() -> None:
    # Stored for 90 days: a change here would turn retries of earlier requests into conflicts.
    expected = "7da9b09225ca1d37d6b425779b5abc3901b8fbe217f9b3ea70e669a7a83a0fa6"
    assert SearchInput("桃红", 10).fingerprint().hex() == expected


def test_the_answer_counts_and_keeps_the_order() -> None:
    index = NameIndex([("all", 0, value) for value in range(3)], [], [[2, 0, 1]])
    searcher = Searcher(index, [b'{"slug":"a"}', b'{"slug":"b"}', b'{"slug":"c"}'], "1.2.3")
    for q, results in (("all", [{"slug": "c"}, {"slug": "a"}]), ("none", [])):
        found = msgspec.json.decode(searcher.answer(SearchInput(q, 2)))
        assert found == {"datasetVersion": "1.2.3", "count": len(results), "results": results}
