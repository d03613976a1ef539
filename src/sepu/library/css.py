"""Reads and converts the colours of CSS Color 4 (https://www.w3.org/TR/css-color-4/), whose sections the comments name.

sepu-client links to this file, because it imports nothing of sepu.
"""

import re
from collections.abc import Callable, Sequence
from itertools import islice
from math import cbrt, copysign, cos, degrees, radians, sin
from typing import Any

Triple = tuple[float, float, float]
Matrix = tuple[Triple, Triple, Triple]

MAX_CHARACTERS = 200  # of a colour, and quoted in an error; a colour with 17 digits a channel takes 90
# Words and other characters of a colour; rgb() with signs, fractions, exponents and alpha has 32. tinycss2 takes 1.5 us
# for each.
_MAX_PARTS = 40
_PART = re.compile(r"\w+|\S")
_GREATEST = 1e6  # of a number, so that no power overflows
_FARTHEST = 1e5  # of a channel from 0 to 255: beyond that a difference means nothing, and may overflow
_NEARLY = 1e-3  # of a channel from 0 to 1, a quarter of an 8-bit step: people write few digits

_HEX = re.compile(r"(?:#|0x(?=.{6}\Z))?((?:[0-9a-f]{3}){1,2})", re.ASCII | re.IGNORECASE)
_OPAQUE_OR_NOT = "write '#{}' if it is opaque, and blend it with its background if it is not"
# Texts that mean something elsewhere, and what to write instead. `re` compiles these patterns at their first use.
_ELSEWHERE = (
    (r"([0-9a-f]{3}(?=.\Z)|[0-9a-f]{6}(?=..\Z))[0-9a-f]+\Z", f"is HEX with an alpha channel: {_OPAQUE_OR_NOT}"),
    (r"0x[0-9a-f]{2}([0-9a-f]{6})\Z", f"is HEX whose first two digits are an alpha channel: {_OPAQUE_OR_NOT}"),
    (r"hs[bv]a?\(", "is not CSS: write hwb(hue whiteness blackness); whiteness is (100% - S) x B, "
                    "and blackness 100% - B"),
    (r"(?:rgb|hsl)a?\((?=.*,).*\bnone\b", "has none, which CSS does not allow with commas: write spaces instead"),
    (r"hsla?\(.*,", "is not CSS: with commas, saturation and lightness are percentages: hsl(10, 70%, 46%)"),
    (r"(?:device-)?cmyk\(", "is not a colour without the profile of a press; convert it to RGB"),
    (r"((?:hwb|(?:ok)?l(?:ab|ch)|color)\(.*,.*)", "has commas, which CSS allows only in rgb() and hsl(): "
                                                   "write {!r}"),
)  # fmt: skip
# Components without their function, as style sheets keep them in one property and put them into hsl() in another.
_COMPONENT = r"([+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:%|deg|grad|rad|turn)?)"
_BARE = rf"{_COMPONENT}(?:\s*,\s*|\s+){_COMPONENT}(?:\s*,\s*|\s+){_COMPONENT}(\s*/\s*{_COMPONENT})?"
# Full-width forms of ASCII and the ideographic space and comma, as Chinese keyboards type them.
_HALF_WIDTH: dict[int, str | int] = {0x3000: " ", 0x3001: ",", **{0xFEE0 + code: code for code in range(0x21, 0x7F)}}

# 4, the syntax of the functions: what 100 % of each number means, None for a hue
_HUE = None
_FUNCTIONS: dict[str, tuple[float | None, ...]] = {
    "rgb": (255, 255, 255),
    "hsl": (_HUE, 100, 100),
    "hwb": (_HUE, 100, 100),
    "lab": (100, 125, 125),
    "lch": (100, 150, _HUE),
    "oklab": (1, 0.4, 0.4),
    "oklch": (1, 0.4, _HUE),
    "color": (1, 1, 1),
}
_WITH_COMMAS = ("rgb", "hsl")  # 4.1.2, the legacy syntax
_OTHER_NAMES = {"rgba": "rgb", "hsla": "hsl"}
_DEGREES = {"": 1.0, "deg": 1.0, "grad": 0.9, "rad": degrees(1), "turn": 360.0}

# 17 and 18, the sample code: white points, and what goes from linear light to XYZ
_D50: Triple = (0.3457 / 0.3585, 1.0, (1.0 - 0.3457 - 0.3585) / 0.3585)
_D65: Triple = (0.3127 / 0.3290, 1.0, (1.0 - 0.3127 - 0.3290) / 0.3290)
_SRGB_OF_XYZ: Matrix = (
    (12831 / 3959, -329 / 214, -1974 / 3959),
    (-851781 / 878810, 1648619 / 878810, 36519 / 878810),
    (705 / 12673, -2585 / 12673, 705 / 667),
)
_D65_OF_D50: Matrix = (
    (0.955473421488075, -0.02309845494876471, 0.06325924320057072),
    (-0.0283697093338637, 1.0099953980813041, 0.021041441191917323),
    (0.012314014864481998, -0.020507649298898964, 1.330365926242124),
)
_SRGB: Matrix = (
    (506752 / 1228815, 87881 / 245763, 12673 / 70218),
    (87098 / 409605, 175762 / 245763, 12673 / 175545),
    (7918 / 409605, 87881 / 737289, 1001167 / 1053270),
)
_P3: Matrix = (
    (608311 / 1250200, 189793 / 714400, 198249 / 1000160),
    (35783 / 156275, 247089 / 357200, 198249 / 2500400),
    (0, 32229 / 714400, 5220557 / 5000800),
)
_A98: Matrix = (
    (573536 / 994567, 263643 / 1420810, 187206 / 994567),
    (591459 / 1989134, 6239551 / 9945670, 374412 / 4972835),
    (53769 / 1989134, 351524 / 4972835, 4929758 / 4972835),
)
_REC2020: Matrix = (
    (63426534 / 99577255, 20160776 / 139408157, 47086771 / 278816314),
    (26158966 / 99577255, 472592308 / 697040785, 8267143 / 139408157),
    (0, 19567812 / 697040785, 295819943 / 278816314),
)
_PROPHOTO: Matrix = (  # of D50
    (0.7977666449006423, 0.13518129740053308, 0.0313477341283922),
    (0.2880748288194013, 0.711835234241873, 0.00008993693872564),
    (0, 0, 0.8251046025104602),
)
_LMS_OF_OKLAB: Matrix = (
    (1, 0.3963377773761749, 0.2158037573099136),
    (1, -0.1055613458156586, -0.0638541728258133),
    (1, -0.0894841775298119, -1.2914855480194092),
)
_XYZ_OF_LMS: Matrix = (
    (1.2268798758459243, -0.5578149944602171, 0.2813910456659647),
    (-0.0405757452148008, 1.112286803280317, -0.0717110580655164),
    (-0.0763729366746601, -0.4214933324022432, 1.5869240198367816),
)


def quoted(given: object) -> str:
    """Returns the repr of anything, or its beginning: an error quotes no more."""
    try:
        text = repr(given)
    except ValueError:  # Python does not write an integer of 5,000 digits
        return "a number of thousands of digits"
    return text if len(text) <= MAX_CHARACTERS + 2 else f"{text[:MAX_CHARACTERS]}…"


def trim_color(text: str) -> str:
    """Returns a colour's text without surrounding blanks, and in ASCII instead of full-width forms.

    Raises ValueError if it is longer than any colour.
    """
    text = text.strip()
    if len(text) > MAX_CHARACTERS:
        raise ValueError(f"{quoted(text)} is not a colour: it has more than {MAX_CHARACTERS} characters")
    return text if text.isascii() else text.translate(_HALF_WIDTH)


def read_hex(text: str) -> tuple[int, int, int] | None:
    """Returns the channels of HEX with three or six digits, also without its number sign or with 0x; else None."""
    form = _HEX.fullmatch(text)
    if form is None:
        return None
    red, green, blue = bytes.fromhex(form[1] if len(form[1]) == 6 else "".join(digit * 2 for digit in form[1]))
    return red, green, blue


def bare_components(text: str) -> list[str]:
    """Returns the three components of a colour without its function, such as '222 47% 11%'; none for other texts."""
    form = re.fullmatch(_BARE, text, re.ASCII | re.IGNORECASE)
    return [*form.groups()[:3]] if form else []


def in_function(text: str) -> str:
    """Returns components without a function in the one that they probably belong to, as an example."""
    components = bare_components(text)
    percents = [component.endswith("%") for component in components]
    name = "oklch" if is_of_unknown_function(" ".join(components)) else "rgb"
    return f"{'hsl' if percents == [False, True, True] else name}({' '.join(text.replace(',', ' ').split())})"


def is_of_unknown_function(text: str) -> bool:
    """Returns whether a text is the components of a colour, without the function that they belong to.

    Numbers alone, or percentages alone, are red, green and blue, unless they are like those of oklch().
    """
    components = bare_components(text)
    if not components:
        return False
    percents = sum(component.endswith("%") for component in components)
    if percents in {1, 2} or "/" in text or any(map(str.isalpha, text)):
        return True
    if "%" in components[0]:
        return False
    lightness, chroma, hue = map(float, components)
    return 0 < lightness < 1 and 0 < chroma < 1 < hue


def what_to_write(text: str) -> str | None:
    """Returns why a text that is like a colour is not one here, and what to write; None for other texts."""
    if is_of_unknown_function(text):
        return f"{text!r} is without a function: write {in_function(text)!r}, or what is meant"
    for pattern, reason in _ELSEWHERE:
        if form := re.match(pattern, text, re.IGNORECASE):
            spaced = [re.sub(r"\s*,\s*", " ", group) for group in form.groups()]
            return f"{text!r} {reason.format(*spaced)}"
    if text[-1:] in {";", ","}:
        return f"{text!r} ends with {text[-1]!r}, which is not part of a colour"
    if text[:1] == "#":
        if wrong := next((digit for digit in text[1:] if digit not in "0123456789abcdefABCDEF"), None):
            return f"{text!r} has {wrong!r}, which is not a HEX digit: 0 to 9 or A to F"
        return f"{text!r} has {len(text) - 1} digits; write three as in '#fff', or six as in '#C83C23'"
    numbers = re.split(r"\s*,\s*|\s+", text.strip("()[] "))
    if all(re.fullmatch(r"[+-]?(?:\d+(?:\.\d*)?|\.\d+)%?", number, re.ASCII) for number in numbers):
        if len(numbers) != 3:
            return f"{text!r} has {len(numbers)} channels; a colour has three, such as '200 60 35'"
        return f"{text!r} has a channel that is not a number from 0 to 255"
    return None


def refuse_one_number(text: str) -> None:
    """Raises ValueError for a number that may be a channel, or HEX."""
    if text.isdecimal() and len(text) <= 3:
        raise ValueError(f"{text!r} is one number: write '#{text:0>3}' for HEX, or three numbers such as '200 60 35'")


def read_css(text: str) -> Triple | None:
    """Returns red, green and blue of sRGB, from 0 to 255, or beyond outside sRGB; None if it is not a CSS colour.

    Raises ValueError for a colour with alpha, for `currentcolor`, for channels of rgb() that CSS would clip, and for a
    colour far outside sRGB.
    """
    from tinycss2 import parse_one_component_value

    text = text.strip()
    if len(text) > MAX_CHARACTERS or any(True for _ in islice(_PART.finditer(text), _MAX_PARTS, None)):
        return None
    return read_token(parse_one_component_value(text, skip_comments=True), text)


def read_token(token: Any, text: str) -> Triple | None:  # noqa: ANN401  # tinycss2 has no types
    """Works like `read_css`, for a component value of tinycss2; errors quote `text`."""
    from tinycss2 import color4

    if token.type == "function":
        return _read_function(token, text)
    color = color4.parse_color(token)
    if color is None:
        return None
    if color == "currentcolor":
        raise ValueError(f"{text!r} is the colour of a text that is not known here")
    red, green, blue, alpha = color
    _check_alpha(alpha, text)
    return round(red * 255), round(green * 255), round(blue * 255)


def lab_of_srgb(rgb: Triple) -> Triple:
    """Returns L*, a* and b* (D65) of any sRGB, from 0 to 255 or beyond."""
    red, green, blue = rgb
    xyz = _multiply(_SRGB, _each(_linear_srgb, (red / 255, green / 255, blue / 255)))
    f = [cbrt(t) if t > 216 / 24389 else (24389 / 27 * t + 16) / 116 for t in map(float.__truediv__, xyz, _D65)]
    return 116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])


def srgb_of_lab(lab: Sequence[float], white: str = "D65") -> Triple:
    """Returns red, green and blue of sRGB, from 0 to 255 or beyond, of any L*, a*, b* under D65 or D50."""
    return _from_0_to_255(_of_xyz(_xyz_of_lab(lab, _D65)) if white == "D65" else _of_xyz_d50(_xyz_of_lab(lab, _D50)))


def _from_0_to_255(rgb: Triple) -> Triple:
    """Scales the channels, and clips those barely outside sRGB."""
    near = [min(max(channel, 0.0), 1.0) for channel in rgb]
    inside = all(abs(channel - nearest) <= _NEARLY for channel, nearest in zip(rgb, near, strict=True))
    red, green, blue = near if inside else rgb
    return 255 * red, 255 * green, 255 * blue


def _read_function(function: Any, text: str) -> Triple | None:  # noqa: ANN401  # tinycss2 has no types
    tokens = [token for token in function.arguments if token.type not in ("whitespace", "comment")]
    name = _OTHER_NAMES.get(function.lower_name, function.lower_name)
    convert = _OF_FUNCTION.get(name)
    if name == "color" and tokens and tokens[0].type == "ident":
        convert = SPACES.get(tokens.pop(0).lower_value)
    if name in _WITH_COMMAS and len(tokens) in (5, 7) and all(between == "," for between in tokens[1::2]):
        tokens = tokens[::2]
        kinds = [token.type for token in tokens]
        if "ident" in kinds or (kinds[1:3] != ["percentage"] * 2 if name == "hsl" else len({*kinds[:3]}) > 1):
            return None
    elif len(tokens) == 5 and tokens[3] == "/":
        del tokens[3]
    elif len(tokens) != 3:
        return None
    if convert is None:
        return None
    read = [_number(token, whole) for token, whole in zip(tokens, (*_FUNCTIONS[name], 1), strict=False)]
    numbers = [number for number in read if number is not None]
    if len(numbers) != len(read):
        return None
    for alpha in numbers[3:]:
        _check_alpha(min(max(alpha, 0.0), 1.0), text)
    if name == "rgb":
        _check_channels(numbers[:3], text, whole=all(getattr(token, "is_integer", True) for token in tokens[:3]))
        return numbers[0], numbers[1], numbers[2]
    return _checked(convert(numbers[:3]), text)


def read_channels(space: str, channels: Sequence[float]) -> Triple | None:
    """Works like `read_css`, for the three numbers of `color()` with a space, or of a function such as lab().

    Returns None if CSS does not know the space. Raises ValueError for a colour far outside sRGB.
    """
    convert = SPACES.get(space) or _OF_FUNCTION.get(space)
    if convert is None:
        return None
    text = f"{space} {quoted(channels)}"
    if not all(abs(channel) <= _GREATEST for channel in channels):  # refuses NaN too
        raise ValueError(f"{text} has a channel beyond {_GREATEST:,.0f}; write smaller numbers")
    return _checked(convert(channels), text)


def _checked(rgb: Triple, text: str) -> Triple:
    scaled = _from_0_to_255(rgb)
    if max(map(abs, scaled)) > _FARTHEST:
        raise ValueError(f"{text!r} lies too far outside sRGB to be a colour; write smaller numbers")
    return scaled


def _number(token: Any, whole: float | None) -> float | None:  # noqa: ANN401
    """Returns a number, a part of `whole`, or an angle in degrees; None for anything else."""
    if token.type == "ident" and token.lower_value == "none":
        return 0.0
    unit = {"number": "", "percentage": "%", "dimension": getattr(token, "lower_unit", None)}.get(token.type)
    if whole is not None and unit == "%":
        number = token.value * whole / 100
    elif unit == "" or (whole is _HUE and unit in _DEGREES):
        number = token.value * _DEGREES[unit]
    else:
        return None
    return number if abs(number) <= _GREATEST else None


def _check_alpha(alpha: float, text: str) -> None:
    if alpha != 1:
        raise ValueError(
            f"{text!r} has an alpha channel of {alpha:g}: blend it with its background first, and leave alpha out"
        )


def _check_channels(channels: Sequence[float], text: str, *, whole: bool) -> None:
    for channel in channels:
        if not 0 <= channel <= 255:
            raise ValueError(f"{text!r} has the channel {channel:g}, and a channel is a number from 0 to 255")
    if 0 < max(channels) <= 1 and not whole and "%" not in text:
        raise ValueError(f"no channel of {text!r} exceeds 1: multiply by 255, because channels go from 0 to 255")


def _multiply(matrix: Matrix, column: Triple) -> Triple:
    x, y, z = (sum(share * value for share, value in zip(row, column, strict=True)) for row in matrix)
    return x, y, z


def _each(curve: Callable[[float], float], values: Sequence[float]) -> Triple:
    """Applies a curve, mirrored for negative values (10.2)."""
    x, y, z = (copysign(curve(abs(value)), value) for value in values)
    return x, y, z


def _linear_srgb(value: float) -> float:  # 10.2
    return value / 12.92 if value <= 0.04045 else ((value + 0.055) / 1.055) ** 2.4


def _encoded_srgb(value: float) -> float:
    return value * 12.92 if value <= 0.0031308 else 1.055 * value ** (1 / 2.4) - 0.055


def _of_xyz(xyz: Triple) -> Triple:
    return _each(_encoded_srgb, _multiply(_SRGB_OF_XYZ, xyz))


def _of_xyz_d50(xyz: Triple) -> Triple:  # 12, chromatic adaptation by Bradford's method
    return _of_xyz(_multiply(_D65_OF_D50, xyz))


def _of_hsl(hsl: Sequence[float]) -> Triple:  # 7.1
    hue, saturation, lightness = hsl[0] / 30, max(hsl[1], 0.0) / 100, hsl[2] / 100
    chroma = saturation * min(lightness, 1 - lightness)
    red, green, blue = (
        lightness - chroma * max(-1, min((each + hue) % 12 - 3, 9 - (each + hue) % 12, 1)) for each in (0, 8, 4)
    )
    return red, green, blue


def _of_hwb(hwb: Sequence[float]) -> Triple:  # 8.1
    white, black = hwb[1] / 100, hwb[2] / 100
    if white + black >= 1:
        return (white / (white + black),) * 3
    red, green, blue = (white + channel * (1 - white - black) for channel in _of_hsl((hwb[0], 100, 50)))
    return red, green, blue


def _rectangular(polar: Sequence[float]) -> Triple:  # 9.3, 9.4
    lightness, chroma, hue = polar[0], max(polar[1], 0.0), radians(polar[2])
    return lightness, chroma * cos(hue), chroma * sin(hue)


def _xyz_of_lab(lab: Sequence[float], white: Triple) -> Triple:  # 18
    f = (lab[0] + 16) / 116
    x, y, z = (
        share * (each**3 if each > 6 / 29 else (116 * each - 16) * 27 / 24389)
        for share, each in zip(white, (f + lab[1] / 500, f, f - lab[2] / 200), strict=True)
    )
    return x, y, z


def _of_lab(lab: Sequence[float]) -> Triple:  # 9.3, where lightness is clamped
    return _of_xyz_d50(_xyz_of_lab((min(max(lab[0], 0.0), 100.0), lab[1], lab[2]), _D50))


def _of_oklab(oklab: Sequence[float]) -> Triple:  # 9.4
    lms = _multiply(_LMS_OF_OKLAB, (min(max(oklab[0], 0.0), 1.0), oklab[1], oklab[2]))
    return _of_xyz(_multiply(_XYZ_OF_LMS, _each(lambda value: value**3, lms)))


def _space(
    matrix: Matrix, curve: Callable[[float], float] = float, of_xyz: Callable[[Triple], Triple] = _of_xyz
) -> Callable[[Sequence[float]], Triple]:
    """Returns the conversion from an RGB space of section 10."""
    return lambda channels: of_xyz(_multiply(matrix, _each(curve, channels)))


_OF_FUNCTION: dict[str, Callable[[Sequence[float]], Triple]] = {
    "rgb": lambda rgb: (rgb[0] / 255, rgb[1] / 255, rgb[2] / 255),
    "hsl": _of_hsl,
    "hwb": _of_hwb,
    "lab": _of_lab,
    "lch": lambda lch: _of_lab(_rectangular(lch)),
    "oklab": _of_oklab,
    "oklch": lambda oklch: _of_oklab(_rectangular(oklch)),
}
SPACES: dict[str, Callable[[Any], Triple]] = {  # 10
    "srgb": tuple,
    "srgb-linear": lambda channels: _each(_encoded_srgb, channels),
    "display-p3": _space(_P3, _linear_srgb),
    "display-p3-linear": _space(_P3),
    "a98-rgb": _space(_A98, lambda value: value ** (563 / 256)),
    "prophoto-rgb": _space(_PROPHOTO, lambda value: value / 16 if value <= 16 / 512 else value**1.8, _of_xyz_d50),
    "rec2020": _space(_REC2020, lambda value: value**2.4),
    "xyz": _of_xyz,
    "xyz-d65": _of_xyz,
    "xyz-d50": _of_xyz_d50,
}
