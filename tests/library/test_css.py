"""Colours of CSS Color 4: the specification's and Web Platform Tests' values, and coloraide's conversions."""

from math import inf
from typing import Any

import pytest
from coloraide import Color
from hypothesis import given, settings
from hypothesis import strategies as st

import sepu
from sepu.library.css import SPACES, lab_of_srgb, read_css, srgb_of_lab

# From Web Platform Tests, css/css-color (parsing/color-computed-hsl, parsing/color-valid-hwb, predefined-*, lab-001,
# display-p3-linear-005), and the specification's examples; some repeated with percentages or other units.
PUBLISHED = """
    #f0f -> 255 0 255; #008000ff -> 0 128 0; RebeccaPurple -> 102 51 153
    rgb(50% 128 25%) -> 127.5 128 63.75; rgb(none 128 none) -> 0 128 0; RGBA(1, 2, 3, 1) -> 1 2 3
    rgb(1 2 3 / 100%) -> 1 2 3; rgb(1,2,3,5) -> 1 2 3; rgb( 10% 20% /* dark */ 30% ) -> 25.5 51 76.5
    hsl(120 30% 50%) -> 89 166 89; hsl(none none none) -> 0 0 0; hsl(120 none 50%) -> 128 128 128
    hsl(none 100% 50%) -> 255 0 0; hsL(0, 100%, 50%) -> 255 0 0; hsl(780, 100%, 37.5%) -> 191 191 0
    hsl(-300, 100%, 37.5%) -> 191 191 0; hsl(300, 50%, 50%) -> 191 64 191; hsl(30deg, 100%, 100%) -> 255 255 255
    HSLA(-300, 100%, 37.5%, 1) -> 191 191 0; hsLA(-300, 100%, 37.5%, 12) -> 191 191 0; hsl(.5TURN 100 50) -> 0 255 255
    hwb(120 30% 50%) -> 77 128 77; hwb(0 0% 0%) -> 255 0 0; hwb(120 80% none) -> 204 255 204
    hwb(120 30% 50) -> 77 128 77; hwb(320deg 30% 40%) -> 153 77 128; hwb(0 20% 100%) -> 43 43 43
    hwb(0grad 100% 50%) -> 170 170 170; hsl(200grad 100% 50%) -> 0 255 255; hsl(3.14159rad 100% 50%) -> 0 255 255
    lab(46.277 -47.562 48.583) -> 0 128 0; lab(29.2345% 39.3825 20.0664) -> 125 35 41
    lch(52.2345% 72.2 56.2) -> 198 93 6; lch(0 0 0) -> 0 0 0
    oklab(40.101% 0.1147 0.0453) -> 125 35 41; oklch(40.101% 0.12332 21.555) -> 125 35 41
    oklch(51.975% 0.17686 142.495) -> 0 128 0
    lab(46.277 -38.0496% 38.8664%) -> 0 128 0; lch(52.2345% 48.1333% 56.2) -> 198 93 6
    oklab(40.101% 28.675% 11.325%) -> 125 35 41; oklch(40.101% 30.83% 21.555) -> 125 35 41
    color(srgb 0 0.5 0) -> 0 128 0; color(srgb 100% none 0.2) -> 255 0 51
    color(display-p3 0.21508071610847918 0.4922429411940395 0.13085464082643297) -> 0 128 0
    color(display-p3-linear 1 1 0.0895) -> 255 255 0; color(XYZ-d50 0.12266 0.22836 0.03093) -> 0 153 0
    color(a98-rgb 0.2802818995382024 0.4960985025758622 0.11629725327025686) -> 0 128 0
    color(prophoto-rgb 0.22939772862383642 0.393932695752466 0.12935794416938554) -> 0 128 0
    color(rec2020 1 1 1) -> 255 255 255; color(xyz 0.0772 0.1544 0.0257) -> 0 128 0
    color(srgb-linear 0 0.21586 0) -> 0 128 0
"""
TABLE = [
    (text.strip(), tuple(map(float, rgb.split())))
    for text, rgb in (line.split(" ->") for row in PUBLISHED.strip().splitlines() for line in row.split("; "))
    if rgb.strip()
]


@pytest.mark.parametrize(("text", "expected"), TABLE)
def test_published_values(text: str, expected: tuple[float, ...]) -> None:
    """To half an 8-bit step, because they are published as 8 bits."""
    assert read_css(text) == pytest.approx(expected, abs=0.51)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("rgb(2.5 3.4 4.6)", "#030305"),
        ("hwb(120 30% 50%)", "#4D804D"),
        ("rgb(30% 30% 30%)", "#4D4D4D"),
        ("rgb(254.4999 254.5 0.5)", "#FEFF01"),
        ("color(display-p3 0 1 0)", "#00FF00"),
    ],
)
def test_hex_is_rounded_half_up_without_the_noise_of_doubles(text: str, expected: str) -> None:
    """The values of Web Platform Tests, css/css-color/parsing."""
    assert sepu.NamedPalette({"x": text})[0].hex == expected


NOTHING = [
    "color(srgb 0 0 0 0)", "color(srgb 0deg 0% 0)", "color(lab 50% 0 0)", "color(--mine 0 0 0)", "color()",
    "color(srgb)", "rgb(1 2 3 4)", "rgb(1 2)", "rgb(1deg 2 3)", "lab(50, 0, 0)", "hwb(0, 0%, 0%)",
    "hsl(none, 50%, 50%)", "rgb(none, none, none)", "rgb(1, 2, 3, none)", "hsl(20% 1% 1%)", "hsl(20s 1% 1%)",
    "lab(1e7 0 0)", "lab(1e999 0 0)", "rgb(calc(1) 2 3)", "rgb(from red r g b)", "color-mix(in srgb, red, blue)",
    "Canvas", "url(x)", "rgb(" * 9000, f"rgb(1 2 3{' /**/' * 20})", "\x00", "",
]  # fmt: skip


@pytest.mark.parametrize("text", NOTHING, ids=range(len(NOTHING)))
def test_what_is_no_colour(text: str) -> None:
    assert read_css(text) is None


def component(low: float, high: float) -> st.SearchStrategy[str]:
    """Also draws beyond the range, which CSS clamps for lightness, chroma and saturation."""
    edges = (low, low - 0.01, high, high + 0.01, -0.0, 5e-324)
    numbers = st.one_of(st.floats(low - (high - low) / 2, high + (high - low) / 2), st.sampled_from(edges))
    return st.one_of(numbers.map("{:.9f}".format), st.integers(-50, 150).map("{}%".format), st.just("none"))


ANGLE = st.sampled_from(["", "deg", "grad", "rad", "turn"])
HUE = st.one_of(st.builds("{:.9f}{}".format, st.floats(-400, 800), ANGLE), st.just("none"))
PERCENT = st.integers(0, 100).map("{}%".format)
FUNCTIONS = {
    "hsl(": (HUE, st.integers(-50, 100).map("{}%".format), PERCENT),
    "hwb(": (HUE, PERCENT, PERCENT),
    "lab(": (component(0, 100), component(-125, 125), component(-125, 125)),
    "lch(": (component(0, 100), component(0, 150), HUE),
    "oklab(": (component(0, 1), component(-0.4, 0.4), component(-0.4, 0.4)),
    "oklch(": (component(0, 1), component(0, 0.4), HUE),
    **{f"color({space} ": (component(0, 1),) * 3 for space in SPACES},
}
# What CSS clamps while it reads (7.1, 9.3, 9.4), and coloraide does not: coordinates, and their least and greatest.
LIGHT, CHROMA = {0: (0.0, 100.0)}, {1: (0.0, inf)}
CLAMPED: dict[str, dict[int, tuple[float, float]]] = {
    "hsl": CHROMA,
    "lab": LIGHT,
    "lch": LIGHT | CHROMA,
    "oklab": {0: (0, 1)},
    "oklch": {0: (0, 1)} | CHROMA,
}


@pytest.mark.parametrize("function", FUNCTIONS)
@settings(max_examples=25)
@given(st.data())
def test_conversions_equal_those_of_coloraide(function: str, data: st.DataObject) -> None:
    text = f"{function}{' '.join(data.draw(st.tuples(*FUNCTIONS[function])))})"
    rgb = read_css(text)
    assert rgb is not None
    other: Any = Color(text)
    for at, (least, greatest) in CLAMPED.get(other.space(), {}).items():
        other[at] = min(max(other[at], least), greatest)
    expected = [255 * channel for channel in other.convert("srgb").coords(nans=False)]
    # coloraide has fewer digits of ProPhoto's primaries, and near black sRGB's curve multiplies the difference by 3295.
    # Ours clips colours just outside sRGB.
    digits = 0.1 if "prophoto" in text else 1e-6
    outside = min(expected) < -0.256 - digits or max(expected) > 255.256 + digits
    assert rgb == pytest.approx(expected, abs=digits if outside else 0.256 + digits)
    lab = other.convert("lab-d65").coords(nans=False)
    assert lab_of_srgb(rgb) == pytest.approx(lab, abs=digits if outside else 0.2 + digits)


def test_lab_of_both_whites() -> None:
    lab = [round(value, 3) for value in sepu.load()["fei-hong"].lab]
    [match] = sepu.match(lab=lab)
    assert (match.slug, match.in_srgb) == ("fei-hong", True)
    assert match.delta_e == pytest.approx(0, abs=1e-3)
    [match] = sepu.match(lab=Color("srgb", [200 / 255, 60 / 255, 35 / 255]).convert("lab").coords(), white="D50")
    assert (match.slug, round(match.delta_e, 9)) == ("fei-hong", 0)
    assert [sepu.match(lab=(50, 100, -100), white=white)[0].in_srgb for white in ("D65", "D50")] == [False, False]
    yellow = Color("srgb", [250 / 255, 250 / 255, 30 / 255]).convert("lab").coords()
    assert [sepu.match(lab=yellow, white=white)[0].in_srgb for white in ("D65", "D50")] == [False, True]
    assert srgb_of_lab((100, 0, 0), "D50") == pytest.approx((255, 255, 255))
    with pytest.raises(TypeError, match="match takes a colour or lab=.*, not both"):
        sepu.match("#fff", lab=lab)
    with pytest.raises(ValueError, match=r"lab\[0\] is nan"):
        sepu.match(lab=(float("nan"), 0, 0))


@pytest.mark.parametrize(
    ("text", "rgb"),
    [
        ("rgb(255 0 0)", (255, 0, 0)),
        ("rgb(200.5 60 35)", (200.5, 60, 35)),
        ("rgb(1.5 0 0)", (1.5, 0, 0)),
        ("rgb(0 1 1)", (0, 1, 1)),
        ("rgb(0 1 1 / 1.0)", (0, 1, 1)),
        ("rgb(none 1 0)", (0, 1, 0)),
        ("rgb(0.0 0 0 / 1)", (0, 0, 0)),
        ("rgb(0.2% 0.1% 0%)", (0.51, 0.255, 0)),
        ("color(srgb 0 0.5 0 / 1)", (0, 127.5, 0)),
        ("color(srgb -0.001 0.5 1.001)", (0, 127.5, 255)),
        ("color(srgb -0.002 0.5 1)", (-0.51, 127.5, 255)),
        (f"color(srgb {1e5 / 255} 0 0)", (1e5, 0, 0)),
        (f"hsl(0 100%{' ' * 186}50%)", (255, 0, 0)),  # 200 characters
    ],
)
def test_values_are_exact(text: str, rgb: tuple[float, ...]) -> None:
    assert read_css(text) == rgb


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("rgb(256 0 0)", "^'rgb.256 0 0.' has the channel 256, and"),
        ("rgb(0.2 0.3 1.0)", "^no channel of 'rgb.0.2 0.3 1.0.' exceeds 1"),
    ],
)
def test_rgb_is_from_0_to_255(text: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        read_css(text)


@pytest.mark.parametrize(("white", "space"), [("D65", "lab-d65"), ("D50", "lab")])
def test_lab_has_the_white_that_is_given(white: str, space: str) -> None:
    expected = [255 * channel for channel in Color(space, [50, 20, 20]).convert("srgb").coords()]
    assert srgb_of_lab((50, 20, 20), white) == pytest.approx(expected, abs=1e-9)
    assert (srgb_of_lab((50, 20, 20)) == srgb_of_lab((50, 20, 20), white)) == (white == "D65")


@pytest.mark.parametrize(("space", "channel"), [("display-p3", 0.04045), ("srgb-linear", 0.0031308)])
def test_curves_change_where_the_specification_says(space: str, channel: float) -> None:
    text = f"color({space} {channel} {channel} {channel})"
    expected = [255 * channel for channel in Color(text).convert("srgb").coords()]
    assert read_css(text) == pytest.approx(expected, abs=1e-9)


def test_lightness_is_a_root_from_216_of_24389_on() -> None:
    gray = Color("srgb-linear", [216.9 / 24389] * 3)
    red, green, blue = (255 * channel for channel in gray.convert("srgb").coords())
    assert lab_of_srgb((red, green, blue)) == pytest.approx(gray.convert("lab-d65").coords(), abs=1e-9)
