"""Parsing and fingerprints, except for what the HTTP contract's table already tests end to end."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.operations.reference import MATCHER, answer

from sepu.errors import InputError
from sepu.operations.match import MatchInput, parse_match

channels = st.one_of(st.integers(0, 255), st.floats(0, 255))
colors = st.lists(st.tuples(channels, channels, channels), min_size=1, max_size=5)


def body(values: object, **rest: object) -> bytes:
    return json.dumps({"colors": values, **rest}).encode()


@given(colors, st.integers(1, 3))
def test_what_is_sent_is_what_is_parsed(values: list[tuple[float, float, float]], top: int) -> None:
    document = body([{"b": b, "r": r, "g": g} for r, g, b in values], top=top)
    parsed = parse_match(document)
    assert parsed == MatchInput(tuple(values), top)
    assert [[type(c) for c in color] for color in parsed.colors] == [[type(c) for c in color] for color in values]
    assert parsed.units == len(values)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: (
        st.lists(inner) | st.dictionaries(st.sampled_from(["colors", "top", "r", "g", "b"]) | st.text(), inner)
    ),
    max_leaves=12,
)


@given(st.one_of(json_values.map(lambda value: json.dumps(value).encode()), st.binary()))
def test_any_bytes_are_parsed_or_refused_by_the_contract(document: bytes) -> None:
    try:
        parsed = parse_match(document)
    except InputError as refusal:
        known = "body_required invalid_json invalid_body unknown_parameter invalid_colors invalid_rgb invalid_top"
        assert refusal.code in known.split()
    else:
        assert 1 <= parsed.units <= 5
        assert all(0 <= channel <= 255 for color in parsed.colors for channel in color)


@given(colors, st.data())
def test_a_refusal_points_at_the_only_fault(values: list[tuple[float, float, float]], data: st.DataObject) -> None:
    index = data.draw(st.integers(0, len(values) - 1))
    name = data.draw(st.sampled_from("rgb"))
    unknown = data.draw(st.text().filter(lambda text: text not in {"r", "g", "b"}))
    color = dict(zip("rgb", values[index], strict=True))
    for fault, pointer in (
        ({**color, name: data.draw(st.sampled_from([-1, 255.1, 1e300, "1", None, True, [1]]))}, f"/{name}"),
        ({other: color[other] for other in color if other != name}, f"/{name}"),
        ({**color, unknown: 1}, ""),
        ([*color.values()], ""),
    ):
        sent = [fault if at == index else dict(zip("rgb", value, strict=True)) for at, value in enumerate(values)]
        with pytest.raises(InputError) as refusal:
            parse_match(body(sent))
        assert (refusal.value.code, refusal.value.pointer) == ("invalid_rgb", f"/colors/{index}{pointer}")


@given(colors, colors, st.integers(1, 3), st.integers(1, 3))
def test_fingerprints_tell_input_apart(
    one: list[tuple[float, float, float]], other: list[tuple[float, float, float]], top: int, other_top: int
) -> None:
    same = one == other and top == other_top
    found = MatchInput(tuple(one), top).fingerprint()
    assert (found == MatchInput(tuple(other), other_top).fingerprint()) == same
    assert found == MatchInput(tuple((float(r), float(g), float(b)) for r, g, b in one), top).fingerprint()


def test_the_fingerprint_does_not_change_between_releases() -> None:
    # Stored for 90 days: a change here would turn retries of earlier requests into conflicts.
    expected = "2c7e75dbe8d3c6d0a7aa5887ce810e1f08bf7c79b63d473d6a8904e15a55903d"
    assert MatchInput(((200, 60, 35.5),), 3).fingerprint().hex() == expected
    assert MatchInput(((-0.0, 0, 0),), 1).fingerprint() == MatchInput(((0, 0, 0),), 1).fingerprint()


@given(colors, st.integers(1, 3))
def test_the_answer_equals_the_reference(values: list[tuple[float, float, float]], top: int) -> None:
    request = MatchInput(tuple(values), top)
    assert MATCHER.answer(request) == answer(request)


@pytest.mark.parametrize("number", ["1e400", "-1e400", "1.8e308", "1.7976931348623159e308", "9" * 400, "9" * 5000])
def test_a_huge_number_changes_nothing_else(number: str) -> None:
    def parse(text: str, number: str = number) -> MatchInput:
        return parse_match(text.replace("NUMBER", number).encode())

    overwritten = '{"top":NUMBER,"colors":[{"r":1,"g":2.5,"b":3}],"top":1}'
    assert repr(parse(overwritten)) == repr(parse(overwritten, "9"))
    for text, code in {
        '{"colors":[{"r":1,"g":2,"b":3}],"top":NUMBER}': "invalid_top",
        '{"x":"\\ud800","x":1,"top":NUMBER}': "invalid_json",
        '{"1e400 \\" 1e400":NUMBER}': "unknown_parameter",
    }.items():
        with pytest.raises(InputError, match=code):
            parse(text)


@pytest.mark.parametrize("depth", [500, 5_000, 16_000])
def test_deep_nesting_is_malformed_not_fatal(depth: int) -> None:
    with pytest.raises(InputError, match="invalid_json|invalid_body"):
        parse_match(b"[" * depth)
