"""Colours as people write them, and many colours in several requests."""

import json
import re
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import numpy as np
import pytest
from tests.client.conftest import Opened

from sepu.metering import accounts
from sepu.operations.match import MAX_COLORS
from sepu_client import RGB, ApiError, core
from sepu_client.colors import MOST_COLORS, read_colors

FEI_HONG = RGB(200, 60, 35)


@pytest.mark.parametrize(
    "color",
    [
        "#C83C23",
        "c83c23",
        " #c83c23 ",
        (200, 60, 35),
        [200.0, 60, Decimal(35)],
        np.array([200, 60, 35]),
        FEI_HONG,
        {"b": 35, "r": 200, "g": 60},
    ],
    ids=str,
)
def test_what_people_write_for_a_colour(color: Any) -> None:
    assert read_colors([color]) == [FEI_HONG]
    assert read_colors([color, color, color]) == [FEI_HONG] * 3
    content = core.match(iter([color]), 2, None).content
    assert json.loads(content or b"") == {"colors": [{"r": 200.0, "g": 60.0, "b": 35.0}], "top": 2}


def test_short_hex() -> None:
    assert read_colors(["#1aF", "fff"]) == [(17, 170, 255), (255, 255, 255)]


@pytest.mark.parametrize(
    ("colors", "kind", "reason"),
    [
        ("#C83C23", TypeError, "write ['#C83C23']"),
        ((200, 60, 35), TypeError, "write [(200, 60, 35)]"),
        ({"r": 1, "g": 2, "b": 3}, TypeError, "write [{'r': 1, 'g': 2, 'b': 3}]"),
        (["#C83C2"], ValueError, "'#C83C2' is no colour; a colour is '#C83C23'"),
        (["tomato"], ValueError, "'tomato' is no colour"),
        ([(1, 2)], ValueError, "(1, 2) has 2 channels"),
        ([(1, 2, 3, 4)], ValueError, "has 4 channels"),
        ([{"r": 1, "g": 2}], ValueError, "does not have exactly r, g and b"),
        ([{"r": 1, "g": 2, "B": 3}], ValueError, "does not have exactly r, g and b"),
        ([5], TypeError, "5 is no colour"),
        ([None], TypeError, "None is no colour"),
        ([("1", 2, 3)], TypeError, "'1' is no number"),
        ([(True, 2, 3)], TypeError, "True is no number"),
    ],
)
@pytest.mark.parametrize("call", [core.match, core.match_many])
def test_what_is_no_colour_is_told_before_anything_is_sent(
    call: Callable[..., Any], colors: Any, kind: type[Exception], reason: str
) -> None:
    with pytest.raises(kind, match=re.escape(reason)):
        call(colors, 1, None)


def test_a_request_takes_as_many_colours_as_the_service() -> None:
    assert MOST_COLORS == MAX_COLORS


def test_each_request_of_many_has_its_own_key() -> None:
    calls = core.match_many([(value, 0, 0) for value in range(12)], 3, "order-4711")
    assert [call.idempotency_key for call in calls] == ["order-4711.1", "order-4711.2", "order-4711.3"]
    sent = [json.loads(call.content or b"") for call in calls]
    assert [len(each["colors"]) for each in sent] == [5, 5, 2]
    assert [color["r"] for each in sent for color in each["colors"]] == list(range(12))
    assert core.match_many([], 1, None) == []
    with pytest.raises(ValueError, match="an idempotency key"):
        core.match_many(["#fff"], 1, "k" * 127)


def test_many_colours_are_charged_once(at_server: Opened, issued: accounts.IssuedKey) -> None:
    client = at_server(issued.api_key)
    colors = [f"#{value:02x}0000" for value in range(0, 240, 20)]
    found = client.match_many(colors, top=2, idempotency_key="order-4711")
    assert [result.input.r for result in found] == list(range(0, 240, 20))
    assert all(len(result.matches) == 2 for result in found)
    assert client.match_many(colors, top=2, idempotency_key="order-4711") == found
    assert client.usage().usage[0].committed == 12


def test_what_was_charged_before_an_error_is_not_charged_again(at_server: Opened, issued: accounts.IssuedKey) -> None:
    client = at_server(issued.api_key)
    colors: list[Any] = ["#fff"] * 7
    with pytest.raises(ApiError) as raised:
        client.match_many([*colors[:6], (256, 0, 0)], idempotency_key="order-4712")
    assert (raised.value.status, raised.value.idempotency_key) == (422, "order-4712.2")
    assert len(client.match_many(colors, idempotency_key="order-4712")) == 7
    assert client.usage().usage[0].committed == 7
