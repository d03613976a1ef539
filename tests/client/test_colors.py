"""Colours as people write them, and many colours in several requests."""

import json
import re
from collections import namedtuple
from decimal import Decimal
from itertools import repeat
from math import inf, nan
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import numpy as np
import psycopg
import pytest
from coloraide.css.color_names import name2val_map
from hypothesis import given
from hypothesis import strategies as st
from tests.client.conftest import Opened
from tests.library.test_objects import FORMS
from tools.ambiguous_names import FILE, ambiguous_names

import sepu
from sepu.admin import accounts
from sepu.admin.plans import set_plan
from sepu.errors import InputError
from sepu.library.parsing import parse_color
from sepu.operations.match import parse_match
from sepu.operations.search import parse_search
from sepu_client import RGB, ApiError, calls
from sepu_client.ambiguous_names import AMBIGUOUS_NAMES
from sepu_client.colors import read_colors

FEI_HONG = RGB(200, 60, 35)
BGR = namedtuple("BGR", "b g r")
HSV = namedtuple("HSV", "h s v")


@pytest.mark.parametrize(
    "color",
    [*FORMS, [200, 60, Decimal(35)], BGR(35, 60, 200), FEI_HONG, "RGBA(200, 60, 35, 100%)"],
    ids=str,
)
def test_what_people_write_for_a_colour(color: Any) -> None:
    assert read_colors([color, "#1aF", "fff", "Tomato"]) == [FEI_HONG, (17, 170, 255), (255, 255, 255), (255, 99, 71)]
    content = calls.match(iter([color]), 2, None).content
    assert json.loads(content or b"") == {"colors": [{"r": 200.0, "g": 60.0, "b": 35.0}], "top": 2}


@pytest.mark.parametrize(
    ("colors", "kind", "reason"),
    [
        ("#C83C23", TypeError, "write ['#C83C23']"),
        ((200, 60, 35), TypeError, "write [(200, 60, 35)]"),
        ({"r": 1, "g": 2, "b": 3}, TypeError, "write [{'r': 1, 'g': 2, 'b': 3}]"),
        (["#C83C2"], ValueError, "'#C83C2' has 5 digits; write three as in '#fff', or six as in '#C83C23'"),
        (["color(display-p3 1 0 0)"], ValueError, "'color(display-p3 1 0 0)' lies outside sRGB"),
        (["color(display-p3 0 0.5 0)"], ValueError, "'color(display-p3 0 0.5 0)' lies outside sRGB"),
        (["C83C23FF"], ValueError, "is HEX with an alpha channel: write '#C83C23'"),
        (["#1234"], ValueError, "'#1234' has an alpha channel of 0.266667"),
        (["222.2 47.4% 11.2%"], ValueError, "is without a function: write 'hsl(222.2 47.4% 11.2%)', or what is meant"),
        ([HSV(10, 82, 78)], ValueError, "a colour with the labels 'h', 's', 'v' does not have exactly r, g and b"),
        (["300, 0, 0"], ValueError, "has the channel 300"),
        (["绯红"], ValueError, "'绯红' is not a colour"),
        ([(1, 2)], ValueError, "(1, 2) has 2 channels"),
        ([{"r": 1, "g": 2}], ValueError, "does not have exactly r, g and b"),
        ([{"r": 1, "g": 2, "B": 3}], ValueError, "does not have exactly r, g and b"),
        ([5], TypeError, "5 is not a colour"),
        ([("1", 2, 3)], TypeError, "'1' is not a number"),
        ([(True, 2, 3)], TypeError, "True is not a number"),
        (5, TypeError, "5 is not a list of colours"),
        ([(300, 0, 0)], ValueError, "(300, 0, 0) has the channel 300.0, and a channel is a number from 0 to 255"),
        ([(0, Decimal("sNaN"), 0)], ValueError, "has the channel nan"),
        ([(0, 10**400, 0)], ValueError, "and a channel is a number from 0 to 255"),
        (
            [(0.8, 0.2, 0.1)],
            ValueError,
            "no channel of (0.8, 0.2, 0.1) exceeds 1: pass scale=1 if channels run from 0 to 1",
        ),
        ([{"r": 1.0, "g": 0, "b": 0}], ValueError, "exceeds 1: pass scale=1"),
        ([np.array([0.8, 0.2, 1])], ValueError, "exceeds 1: pass scale=1"),
    ],
)
def test_what_is_no_colour_is_told_before_anything_is_sent(colors: Any, kind: type[Exception], reason: str) -> None:
    for call in (calls.match, calls.match_many):
        with pytest.raises(kind, match=re.escape(reason)):
            call(colors, 1, None)


def test_floats_that_may_be_meant_from_0_to_1_are_sent_with_their_scale() -> None:
    small = (0.8, 0.2, 0.1)
    assert read_colors([small, "#fff", (1, 1, 1)], 1) == [(204, 51, 25.5), (255, 255, 255), (255, 255, 255)]
    assert read_colors([small, "#fff", (1, 1, 1)], 255) == [small, (255, 255, 255), (1, 1, 1)]
    dark: list[Any] = [(1, 0, 1), (0.0, 0.0, 0.0), "#010000", RGB(*small)]  # the RGB of an answer is always 0 to 255
    assert len(read_colors(dark)) == 4
    with pytest.raises(ValueError, match=r"has the channel 1\.01, and a channel is a number from 0 to 1$"):
        read_colors([(1.01, 0, 0)], 1)
    with pytest.raises(ValueError, match="scale must be 1 or 255, not 100"):
        read_colors([small], 100)


@pytest.mark.parametrize("colors", [[], ["#fff"] * 6, repeat("#fff")])
def test_a_match_takes_one_to_five_colours(colors: Any) -> None:
    with pytest.raises(ValueError, match="a match takes one to 5 colours; match_many takes more"):
        calls.match(colors, 1, None)


CHANNEL = st.one_of(st.integers(-2, 257), st.floats(-1, 256), st.sampled_from([nan, inf, 255.0000001, -0.0, 10**30]))


@given(st.lists(st.tuples(CHANNEL, CHANNEL, CHANNEL), max_size=7), st.integers(-1, 5))
def test_a_match_is_refused_as_the_service_would(colors: list[tuple[float, ...]], top: int) -> None:
    sent = {"colors": [dict(zip("rgb", color, strict=True)) for color in colors], "top": top}
    try:
        expected = parse_match(json.dumps(sent).encode())
    except InputError:
        with pytest.raises(ValueError, match=r"channel|colours|top"):
            calls.match(colors, top, None, 255)
    else:
        assert parse_match(calls.match(colors, top, None, 255).content) == expected


def test_each_name_of_css_is_the_colour_that_the_library_takes_it_for() -> None:
    names = name2val_map.keys() - {"transparent"}
    assert len(names) == 148
    for name in names | {name.upper() for name in names}:
        try:
            expected = parse_color(name, sepu.load().named(name))
        except sepu.ColorError as error:
            values = re.findall("#[0-9A-F]{6}", str(error))
            with pytest.raises(
                ValueError, match=f"^{name!r} is ambiguous: .*{'.*'.join(values)} of CSS; write the value"
            ):
                read_colors([name])
        else:
            assert read_colors([name]) == [expected]


def test_the_ambiguous_names_are_those_of_the_release() -> None:
    assert FILE.read_text("utf-8") == ambiguous_names(), "`make release` writes the file again"
    page = (Path(__file__).parents[2] / "docs" / "library.md").read_text("utf-8")
    [listed] = re.findall(r"sepu refuses (.*?): write HEX", page, re.DOTALL)
    assert re.findall("`(.*?)`", listed) == sorted(AMBIGUOUS_NAMES)


WHITE = st.text("\t\v\x1c\x85\xa0\u180e\u2003\u200b\u3000\ufeff ", max_size=3)


@given(
    WHITE,
    st.one_of(st.text("a红\x00🙂", max_size=4), st.text("é", min_size=60, max_size=70)),
    WHITE,
    st.integers(-1, 12),
)
def test_a_search_is_refused_as_the_service_would(before: str, text: str, after: str, limit: int) -> None:
    q = before + text + after
    try:
        expected = parse_search(urlencode({"q": q, "limit": limit}))
    except InputError:
        with pytest.raises(ValueError, match="2 to 64 characters|limit"):
            calls.search(q, limit, None)
    else:
        assert parse_search(calls.search(q, limit, None).target.partition("?")[2]) == expected


@pytest.mark.parametrize("number", [True, 1.0, "1", None])
def test_a_number_that_is_not_whole_is_refused(number: Any) -> None:
    with pytest.raises(TypeError, match="top is a whole number from 1 to 3"):
        calls.match(["#fff"], number, None)
    with pytest.raises(TypeError, match="limit is a whole number from 1 to 10"):
        calls.search("hong", number, None)


@pytest.mark.parametrize(("q", "key"), [(5, "order-8812"), ("hong", 5)])
def test_what_is_not_a_string_is_refused(q: Any, key: Any) -> None:
    with pytest.raises(TypeError, match="is a string, and not 5"):
        calls.search(q, 1, key)


def test_each_request_of_many_has_its_own_key() -> None:
    colors, made = calls.match_many([(value, 0, 0) for value in range(12)], 3, "order-4711")
    assert [color.r for color in colors] == list(range(12))
    assert [call.idempotency_key for call in made] == ["order-4711.1", "order-4711.2", "order-4711.3"]
    sent = [json.loads(call.content) for call in made]
    assert [len(each["colors"]) for each in sent] == [5, 5, 2]
    assert [color["r"] for each in sent for color in each["colors"]] == list(range(12))
    assert calls.match_many([], 1, None) == ([], [])
    with pytest.raises(ValueError, match="an idempotency key"):
        calls.match_many(["#fff"], 1, "k" * 127)


def test_what_was_charged_before_an_error_is_not_charged_again(
    at_server: Opened, connection: psycopg.Connection
) -> None:
    set_plan(connection, "growing", {"color_match": 6, "color_search": 0}, requests_per_minute=100)
    client = at_server(accounts.create_account(connection, "growing").api_key)
    colors: list[Any] = [f"#{value:02x}0000" for value in range(0, 140, 20)]
    with pytest.raises(ApiError) as raised:
        client.match_many(colors, idempotency_key="order-4712")
    assert (raised.value.code, raised.value.idempotency_key) == ("quota_exceeded", "order-4712")
    read = read_colors(colors)
    assert [result.input for result in raised.value.answered] == read[:5]
    assert (list(raised.value.unanswered), raised.value.may_be_charged) == (read[5:], True)
    assert str(raised.value).endswith("; 5 of 7 colours were answered")
    usage = raised.value.usage
    assert usage is not None
    assert (usage.limit, usage.committed, usage.remaining, raised.value.retry_after) == (6, 5, 1, 86400)
    set_plan(connection, "growing", {"color_match": 7, "color_search": 0}, requests_per_minute=100)
    found = client.match_many(colors, idempotency_key=raised.value.idempotency_key)
    assert [result.input for result in found] == read
    assert client.usage().usage[0].committed == 7
