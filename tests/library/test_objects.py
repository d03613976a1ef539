"""The library as a collection, and ways to write a colour."""

import dataclasses
import inspect
from collections.abc import Callable
from decimal import Decimal
from io import StringIO
from typing import Any

import numpy as np
import pytest
from rich.console import Console

import sepu
from sepu.errors import SepuError

FEI_HONG = (200, 60, 35)


# The client reads the same ones: tests/client/test_colors.py.
FORMS: list[Any] = [
    "#C83C23", "c83c23", " #c83c23 ", FEI_HONG, [200.0, 60, 35], np.array(FEI_HONG), np.array(FEI_HONG, np.uint8),
    np.array(FEI_HONG, np.float32), {"b": 35, "g": 60, "r": 200}, "rgb(200, 60, 35)", "RGB( 200 60 35 )", "200,60,35",
    "200 60 35", "\uff03\uff23\uff18\uff13\uff43\uff12\uff13", "\uff52\uff47\uff42\uff08200\uff0c60\uff0c35\uff09",
    "200\u300160\u3001\uff13\uff15", "0xC83C23", (Decimal(200), Decimal("60.0"), 35),
]  # fmt: skip


@pytest.mark.parametrize("color", [*FORMS, "绯红", "緋紅", "fei-hong", "Fēi Hóng", "scarlet silk", sepu.load()[8]])
def test_what_people_write_for_a_colour(color: Any) -> None:
    if isinstance(color, sepu.Record):
        color = sepu.load()["fei-hong"]
    [match] = sepu.match(color)
    assert (match.slug, match.delta_e) == ("fei-hong", 0.0)


@pytest.mark.parametrize("color", [(0.0, 0.0, 0.0), (0, 1, 0), "rgb(0.2%, 0.1%, 0%)"], ids=str)
def test_a_small_channel_may_be_meant(color: Any) -> None:
    assert sepu.match(color)[0].slug == "hei-se"


@pytest.mark.parametrize(
    ("color", "reason"),
    [
        ("green", "'green' is ambiguous: #00E500 of 绿色 (lv-se), or #008000 of CSS; write the value"),
        ("tan", "#B36D61 of 檀 (tan), or #D2B48C of CSS"),
        ("li", "li-sallow"),
        ("no colour", "is not a colour that is known here; write '#C83C23'"),
        ("#C83C23;", "ends with ';', which is not part of a colour"),
        ("200", "is one number: write '#200' for HEX, or three numbers"),
        ("#12345", "'#12345' has 5 digits; write three as in '#fff', or six as in '#C83C23'"),
        ("", "write '#C83C23'"),
        ("rgb(200, 60)", "write '#C83C23'"),
        ("transparent", "has an alpha channel of 0: blend it with its background first, and leave alpha out"),
        ("#1234", "has an alpha channel of 0.266667"),
        ("#11223344", "has an alpha channel"),
        ("rgba(1, 2, 3, 0.5)", "has an alpha channel"),
        ("lab(50% 0 0 / 99%)", "has an alpha channel of 0.99"),
        ("rgb(1 2 3 / none)", "has an alpha channel of 0:"),
        ("currentColor", "'currentColor' is the colour of a text that is not known here"),
        ("rgb(300 0 0)", "'rgb(300 0 0)' has the channel 300, and a channel is a number from 0 to 255"),
        ("rgb(-1% 0% 0%)", "has the channel -2.55"),
        ("rgb(0.2, 0.3, 1)", "multiply by 255"),
        ("C83C23FF", "'C83C23FF' is HEX with an alpha channel: write '#C83C23' if it is opaque, and blend it"),
        ("c83f", "write '#c83' if it is opaque"),
        ("0xFFC83C23", "whose first two digits are an alpha channel: write '#C83C23' if"),
        ("c83c2", "is not a colour that is known here; write '#C83C23'"),
        ("0xfff", "is not a colour that is known here; write '#C83C23'"),
        ("hsb(10, 82%, 78%)", "is not CSS: write hwb(hue whiteness blackness); whiteness is (100% - S) x B"),
        ("HSVA(10 82% 78% / 1)", "is not CSS: write hwb(hue"),
        ("lab(1, 2, 3)", "has commas, which CSS allows only in rgb() and hsl(): write 'lab(1 2 3)'"),
        ("hsl(none, 50%, 50%)", "has none, which CSS does not allow with commas: write spaces instead"),
        ("color(srgb 1,0 , 0\x1b)", r"write 'color(srgb 1 0 0\x1b)'"),
        ("\uff03C83C2", "'#C83C2' has 5 digits"),
        ((1, 2, 3, 4), "has 4 channels, and a colour three (blend an alpha channel"),
        ((1, 2), "has 2 channels"),
        ((0.2, 0.3, 1.0), "multiply by 255"),
        ("0.2 0.3 1", "multiply by 255"),
        ("222.2 47.4% 11.2%", "is without a function: write 'hsl(222.2 47.4% 11.2%)', or what is meant"),
        ("222,47%,11%", "is without a function: write 'hsl(222 47% 11%)'"),
        ("222deg 47% 11% / .5", "is without a function: write 'hsl(222deg 47% 11% / .5)'"),
        ("62.8% 0.2577 29.23", "is without a function: write 'oklch(62.8% 0.2577 29.23)'"),
        ("0.6 0.2 30", "is without a function: write 'oklch(0.6 0.2 30)'"),
        ("200 60 35 / 0.5", "is without a function: write 'rgb(200 60 35 / 0.5)'"),
        ("rgb(200, 60%, 35)", "write '#C83C23'"),
        *((text, f"{text!r} is not a colour") for text in ("rgb(200, 60 35)", "rgb(200., 60, 35)", "rgb(9%, 20% 30%)")),
        ("hsla(0.5, 1, 0.5, 1)", "with commas, saturation and lightness are percentages: hsl(10, 70%, 46%)"),
        ((256, 0, 0), "has the channel 256, and a channel is a number from 0 to 255"),
        ((-1, 0, 0), "has the channel -1"),
        ((float("nan"), 0, 0), "has the channel nan"),
        ("300 0 0", "has the channel 300"),
        ((10**5000, 0, 0), "has the channel a number of thousands of digits"),
        ("1" * 5000, "it has more than 200 characters"),
        ("hwb(0 -1e6 1e6)", "'hwb(0 -1e6 1e6)' lies too far outside sRGB to be a colour; write smaller numbers"),
        ("oklch(1 1e6 0)", "lies too far outside sRGB"),
        ({"r": 1, "g": 2}, "does not have exactly r, g and b"),
        (dict.fromkeys(map(str, range(100_000))), "does not have exactly r, g and b"),
        ({"red": 1, "g": 2, "b": 3}, "does not have exactly r, g and b"),
    ],
)
def test_what_is_no_colour_is_told(color: Any, reason: str) -> None:
    with pytest.raises(sepu.ColorError) as raised:
        sepu.match(color)
    assert reason in str(raised.value)
    assert len(str(raised.value)) < 1000, "an error repeats a line of its input at most"
    assert isinstance(raised.value, ValueError)
    assert isinstance(raised.value, SepuError)


@pytest.mark.parametrize(
    "color",
    [
        None,
        bytearray(b"red"),
        memoryview(b"red"),
        {1: 0, 2: 0}.keys(),
        (True, 0, 0),
    ],
    ids=lambda color: type(color).__name__,
)
def test_what_has_another_type_is_told(color: Any) -> None:
    with pytest.raises(TypeError, match="write '#C83C23'"):
        sepu.match(color)


@pytest.mark.parametrize("colors", [["#fff", "#000"], [(1, 2, 3), (4, 5, 6)], np.zeros((9, 3))])
def test_several_colours_get_a_hint(colors: Any) -> None:
    with pytest.raises(TypeError, match=r"for several colours: \[sepu.match\(color\) for color in colors\]"):
        sepu.match(colors)


def test_every_name_of_the_library_is_a_colour_or_refused_for_what_css_says() -> None:
    refused = set()
    for record in sepu.load():
        for name in (record.slug, record.name.zh, record.name.zh_hant, record.name.en):
            try:
                assert sepu.match(name)[0].hex == record.hex
            except sepu.ColorError as error:
                assert f"{record.hex} of {record.name.zh}" in str(error)
                refused.add(name)
    assert refused == {"Azure", "Blue", "Crimson", "Gold", "Green", "Indigo", "Ivory", "Orange", "Purple", "tan"}


def test_the_library_is_a_collection() -> None:
    colours = sepu.load()
    assert len(colours) == len(list(colours)) == 161
    assert list(colours) == list(colours.records)
    assert [colours[at] for at in (0, -1, -161)] == [colours.records[at] for at in (0, 160, 0)]
    assert all(colours[record.slug] is record for record in colours)
    assert all(colours[record.name.zh] is record and colours[record.name.en] is record for record in colours)
    assert colours["緋紅"] is colours["Fēi hóng"] is colours["SCARLET SILK"] is colours["fei-hong"]
    assert "绯红" in colours
    assert colours[0] in colours
    assert "no such colour" not in colours
    assert 5 not in colours
    assert colours["tan"].name.zh == "檀"


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("feihon", "no colour is named 'feihon'; perhaps you mean fei-hong (绯红)"),
        *((name, f"no colour is named '{name}' or anything similar") for name in ("q" * 64, "q" * 200)),
        *(("q" * length, f"no colour is named '{'q' * 199}… or anything similar") for length in (201, 100_000)),
        ("qqqqqq", "no colour is named 'qqqqqq' or anything similar"),
        ("yan hong", "'yan hong' is the name of several colours: yan-hong-charming (嫣红), yan-hong-dark (殷红)"),
    ],
)
def test_an_unknown_name_gets_a_hint(name: str, reason: str) -> None:
    with pytest.raises(KeyError) as raised:
        sepu.load()[name]
    assert isinstance(raised.value, sepu.UnknownNameError)
    assert str(raised.value).startswith(reason)


@pytest.mark.parametrize("length", [65, 400_000])
def test_a_search_takes_64_characters(length: int) -> None:
    assert sepu.search(" " * 400_000 + "桃红")[0].slug == "tao-hong"
    assert sepu.search("a" * 64) == ()
    with pytest.raises(ValueError, match="takes at most 64 characters, not 'aaaa") as raised:
        sepu.search("a" * length)
    assert len(str(raised.value)) < 1000
    with pytest.raises(TypeError, match="a search takes text, not 5"):
        sepu.search(5)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("ask", "name"),
    [
        (lambda number: sepu.match("#fff", top=number), "top"),
        (lambda number: sepu.name_image(np.zeros((1, 1, 3), np.uint8), top=number), "top"),
        (lambda number: sepu.search("hong", limit=number), "limit"),
        (lambda number: sepu.load()[number], "a position"),
    ],
)
@pytest.mark.parametrize("number", [True, 1.0, b"3"])
def test_a_number_that_is_not_whole_is_named(ask: Callable[[Any], object], name: str, number: object) -> None:
    with pytest.raises(TypeError, match=f"^{name} is a whole number such as 3, not {number!r}"):
        ask(number)


def test_a_position_without_a_colour_is_named() -> None:
    size = len(sepu.load())
    for position in (size, -size - 1):
        with pytest.raises(IndexError, match=f"has the position {position}; the positions are 0 to {size - 1}"):
            sepu.load()[position]


def test_a_slice_is_shown_as_the_whole_is() -> None:
    colours = sepu.load()
    assert colours[2:5] == colours.records[2:5]
    for part in (colours[2:5], sepu.search("hong")[:3]):
        assert len(part) == 3
        assert all(record.hex in part._repr_html_() for record in part)


def test_records_have_their_values() -> None:
    record = sepu.load()["fei-hong"]
    assert (record.rgb, record.hex) == (FEI_HONG, "#C83C23")
    assert record.lab == tuple(sepu.srgb_to_lab([FEI_HONG])[0])
    assert repr(record) == "<Record fei-hong 绯红 #C83C23>"
    near = sepu.match("#C83C23", top=2)
    assert repr(near[1]) == "<Match tuo-hong 酡红 #DC3023 ΔE 3.8077>"
    assert sepu.search("tao hong") == (sepu.load()["tao-hong"],)
    assert sepu.search("no such colour") == ()
    size = len(sepu.load())
    for top in (0, size + 1):
        with pytest.raises(ValueError, match=f"top must be from 1 to {size}, not {top}"):
            sepu.match("#fff", top=top)


def test_a_table_has_a_column_for_each_value() -> None:
    """pandas calls `dataclasses.asdict`."""
    [match] = sepu.match("#C83C22")
    flat = {"slug": "fei-hong", "zh": "绯红", "zh_hant": "緋紅", "pinyin": "fēi hóng", "en": "Scarlet Silk"}
    flat |= {"hex": "#C83C23", "group": match.group, "reliability": "verified"}
    assert sepu.load()["fei-hong"].to_dict() == flat
    assert match.to_dict() == dataclasses.asdict(match) == flat | {"delta_e": match.delta_e, "in_srgb": True}
    [share] = sepu.name_image(np.full((1, 1, 3), 255, np.uint8))
    assert share.to_dict()["share"] == 1.0
    assert list(dataclasses.asdict(share)) == [*flat, "share"]


def test_notebooks_and_terminals_show_swatches() -> None:
    for shown in (sepu.match("#C83C23", top=3), sepu.search("hong"), sepu.load(), sepu.load()["fei-hong"]):
        html = shown._repr_html_()
        records = [shown] if isinstance(shown, sepu.Record) else list(shown)
        assert html.count("<tr>") == html.count("background:#") == len(records)
        assert all(f"background:{record.hex}" in html and record.name.zh in html for record in records)
        assert all(f">{record.measure}</td>" in html for record in records)
    console = Console(width=80, record=True, force_terminal=True, color_system="truecolor", file=StringIO())
    console.print(sepu.match("#C83C23", top=3))
    assert "background-color: #c83c23" in console.export_html(inline_styles=True)


def test_signatures_name_their_arguments() -> None:
    assert str(inspect.signature(sepu.match)) == (
        "(color: 'ColorLike | None' = None, *, lab: 'Sequence[float] | None' = None, "
        "white: Literal['D65', 'D50'] = 'D65', top: int = 1) -> 'Records[Match]'"
    )
    for name, function in inspect.getmembers(sepu, inspect.isfunction):
        if name in sepu.__all__:
            method = getattr(sepu.Release, name, None)
            if method is not None:  # the release's method
                ours, its = (inspect.signature(each).parameters.values() for each in (function, method))
                assert [(each.name, each.default) for each in ours] == [(each.name, each.default) for each in its][1:]


@pytest.mark.parametrize(
    ("color", "rgb"),
    [
        ("(200, 60, 35)", FEI_HONG),
        ("[200 60 35]", FEI_HONG),
        ("rgb(200 60 35", FEI_HONG),  # CSS closes it at the end
        (f"rgb(200 60{' ' * 187}35)", FEI_HONG),  # 200 characters
        ((255, 255, 255), (255, 255, 255)),
        ((1.5, 0, 0), (1.5, 0, 0)),
        ("+1 0 0", (1, 0, 0)),
        ("0.2% 0.1% 0%", (0.51, 0.255, 0)),
        ("0 0.2 30", (0, 0.2, 30)),
        ("1 0.2 30", (1, 0.2, 30)),
        ("0.6 0 30", (0.6, 0, 30)),
        ("0.6 1 30", (0.6, 1, 30)),
    ],
    ids=str,
)
def test_channels_are_read_as_they_are_written(color: Any, rgb: tuple[float, ...]) -> None:
    assert sepu.NamedPalette({"x": color})[0].rgb == rgb


@pytest.mark.parametrize(
    ("color", "reason"),
    [
        (b"red", "b'red' is not a text; write"),
        ({1}, "{1} has no order; write"),
        (5, "5 is not a colour; write"),
        (["#fff"], "'#fff' is not a number; for several colours"),
        ((1, "2", 3), "'2' is not a number; write"),
        ((1,), "(1,) has 1 channels, and a colour three; write"),
        ((Decimal("sNaN"), 0, 0), "(Decimal('sNaN'), 0, 0) has the channel nan"),
        ((0.2, 0.3, 1.0), "no channel of (0.2, 0.3, 1.0) exceeds 1"),
        ("x" * 201, f"'{'x' * 199}… is not a colour"),
        ("222DEG 47% 11%", "'222DEG 47% 11%' is without a function: write 'hsl(222DEG 47% 11%)'"),
        ("200,60,35,", "'200,60,35,' ends with ','"),
        ("#g00", "'#g00' has 'g'"),
        ("#ffX", "'#ffX' has 'X'"),
        ("#abcde", "'#abcde' has 5 digits"),
        ("(1, 2, 3, 4)", "'(1, 2, 3, 4)' has 4 channels; a colour has three"),
        ("1 2 X", "'1 2 X' is not a colour that is known here"),
        ("٢٠٠ ٦٠", "'٢٠٠ ٦٠' is not a colour that is known here"),
        ("1234", "'1234' is HEX with an alpha channel"),
    ],
)
def test_an_error_begins_with_what_is_wrong(color: Any, reason: str) -> None:
    with pytest.raises((TypeError, sepu.ColorError)) as raised:
        sepu.match(color)
    assert str(raised.value).startswith(reason)
