"""Numbers as text, byte for byte as Python writes them; and the nearest colours written into templates."""

from math import inf, nan, nextafter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.core.colours import Rgb, channels, colours, random_rgb
from tests.core.rounding import around, as_python_writes, ties

from sepu._palette import MatchWriter, Palette, format_decimal

TEMPLATES = {"match": b"<%: %, %>", "result": b"%/%/%[%]", "answer": b"{%}"}
MEMBERS = [*random_rgb(20).tolist(), [255, 255, 255], [0, 0, 0]]
TEXTS = [b"m" * place for place in range(len(MEMBERS))]
PALETTE = Palette(MEMBERS, scale=255)
WRITER = MatchWriter(PALETTE, TEXTS, **TEMPLATES)
numbers = st.one_of(channels, st.integers(0, 255), st.sampled_from([-0.0, 0.0, 5e-324, 1e-7, 0.0001, 12.5, 0.1 + 0.2]))


@given(st.floats(0, 1e5) | st.floats(0, 1) | st.integers(0, 10**9).map(lambda number: number / 10_000))
def test_a_decimal_is_what_python_writes(value: float) -> None:
    assert format_decimal(value) == as_python_writes(value)


@given(st.integers(0, 10**9 - 1), st.integers(-3, 3))
def test_a_decimal_next_to_a_tie(number: int, steps: int) -> None:
    value = (number + 0.5) / 10_000
    for _ in range(abs(steps)):
        value = nextafter(value, steps * inf)
    assert format_decimal(value) == as_python_writes(value)


def test_the_ties_of_delta_e_and_similarities() -> None:
    values = around(np.concatenate([ties(0, 10_001), ties(10_001, 1_200_000, 97)]))
    assert [format_decimal(value) for value in values] == [as_python_writes(value) for value in values]


def test_what_lies_exactly_in_the_middle_goes_to_the_even_digit() -> None:
    middles = np.arange(1, 120 * 32, 2) / 32  # the only such doubles: odd multiples of 1/32
    values = around(middles)
    assert [format_decimal(value) for value in values] == [as_python_writes(value) for value in values]
    assert [format_decimal(value) for value in (0.03125, 0.09375, 0.15625)] == [b"0.0312", b"0.0938", b"0.1562"]


@pytest.mark.parametrize("value", [-1e-9, 100_000.1, nan, inf])
def test_no_decimal_of_other_values(value: float) -> None:
    with pytest.raises(ValueError, match="from 0 to 100000"):
        format_decimal(value)


def written(asked: list[Rgb], k: int) -> bytes:
    """The expected output, written by Python."""
    results = []
    for r, g, b in asked:
        matches = [
            b"<%b: %a, %a>" % (TEXTS[index], round(delta_e, 4), round(max(0.0, 1 - delta_e / 100), 4))
            for index, delta_e in PALETTE.nearest(r, g, b, k)
        ]
        results.append(b"%a/%a/%a[%b]" % (r, g, b, b",".join(matches)))
    return b"{%b}" % b",".join(results)


@given(st.lists(st.tuples(numbers, numbers, numbers), max_size=5), st.integers(1, len(MEMBERS)))
def test_the_nearest_are_written_as_python_writes_them(asked: list[Rgb], k: int) -> None:
    assert WRITER.write(asked, k) == written(asked, k)


@given(colours)
def test_a_writer_keeps_its_texts(colour: Rgb) -> None:
    writer = MatchWriter(Palette(MEMBERS, scale=255), (bytes(bytearray(text)) for text in TEXTS), **TEMPLATES)
    assert writer.write(iter([colour]), 2) == written([colour], 2)


def test_delta_e_over_100_is_no_similarity() -> None:
    palette = Palette([(0, 0, 255)])
    (_, delta_e), *_ = palette.nearest(255, 255, 0, 1)
    assert delta_e > 100
    assert MatchWriter(palette, [b""], **TEMPLATES).write([(255, 255, 0)], 1).endswith(b", 0.0>]}")


@pytest.mark.parametrize("template", TEMPLATES)
@pytest.mark.parametrize("text", [b"", b"%" * 5])
def test_templates_with_other_placeholders(template: str, text: bytes) -> None:
    with pytest.raises(ValueError, match="texts, not"):
        MatchWriter(PALETTE, TEXTS, **{**TEMPLATES, template: text})


def test_other_numbers_of_texts() -> None:
    for texts in (TEXTS[1:], [*TEXTS, b""]):
        with pytest.raises(ValueError, match="there must be 22 texts, not"):
            MatchWriter(PALETTE, texts, **TEMPLATES)


@pytest.mark.parametrize("text", [None, "m", 1])
def test_what_is_no_text(text: object) -> None:
    with pytest.raises(TypeError):
        MatchWriter(Palette(MEMBERS[:1], scale=255), [text], **TEMPLATES)  # type: ignore[list-item]


@pytest.mark.parametrize("channel", [nan, inf, -1, -1e-9, 255.0000001, 256])
@pytest.mark.parametrize("place", range(3))
def test_wrong_channels(channel: float, place: int) -> None:
    r, g, b = (channel if at == place else at for at in range(3))
    with pytest.raises(ValueError, match="not a number from 0 to 255"):
        WRITER.write([(1, 2, 3), (r, g, b)], 1)


@pytest.mark.parametrize("k", [-1, 0, len(MEMBERS) + 1])
def test_k_out_of_range(k: int) -> None:
    with pytest.raises(ValueError, match="k must be from 1 to 22"):
        WRITER.write([(1, 2, 3)], k)
