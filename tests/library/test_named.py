"""Named palettes: their answers, and the files that they are read from."""

import json
import os
import re
import struct
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sepu
from sepu import limits
from sepu.library.palette_css import _Values

BRAND: dict[str, sepu.ColorLike] = {"ink": "#1A1A1A", "paper": (250, 245.5, 235), "Rote Grütze": "#C83C23"}


def test_it_answers_with_its_names() -> None:
    own = sepu.NamedPalette(BRAND)
    assert (len(own), [*own][1].name) == (3, "paper")
    assert [name in own for name in ("ink", "ROTE GRUTZE", "tomato")] == [True, True, False]
    red, ink = own.match("#C83C23", top=2)
    assert f"{red!r} {ink!r}" == (
        f"<SwatchMatch 'Rote Grütze' #C83C23 ΔE 0.0000> <SwatchMatch 'ink' #1A1A1A ΔE {ink.delta_e:.4f}>"
    )
    assert own.match("ink")[0].to_dict() == {"name": "ink", "hex": "#1A1A1A", "delta_e": 0.0, "in_srgb": True}
    assert own.match(own["paper"])[0].delta_e == 0.0, "whose value HEX cannot express"
    image = np.full((2, 2, 3), 250, np.uint8)
    image[0, 0] = 20
    assert [(share.name, share.share) for share in own.name_image(image)] == [("paper", 0.75), ("ink", 0.25)]
    assert own.name_image(image)[1].to_dict() == {"name": "ink", "hex": "#1A1A1A", "share": 0.25}
    places, _ = own.palette().nearest_batch(["#000", "#fff"])
    assert [own[place].name for place in places[:, 0].tolist()] == ["ink", "paper"]
    assert own[:2]._repr_html_().count("background:#") == 2
    with pytest.raises(sepu.UnknownNameError, match="no colour is named 'papr'; perhaps you mean paper"):
        own["papr"]
    with pytest.raises(ValueError, match="top must be from 1 to 3, not 4"):
        own.match("ink", top=4)


def test_the_nearest_is_what_the_numbers_alone_say() -> None:
    rgb = np.random.default_rng(3).uniform(0, 255, (150, 3))
    palette = sepu.Palette(rgb, scale=255)
    for index in (None, True):
        own = sepu.NamedPalette(((str(place), row) for place, row in enumerate(rgb)), index=index)
        for row in np.random.default_rng(4).uniform(0, 255, (20, 3)).tolist():
            found = [(int(match.name), match.delta_e) for match in own.match(row, top=5)]
            assert found == palette.nearest(row[0], row[1], row[2], 5)


def test_what_lies_outside_srgb_stays_where_it_is(tmp_path: Path) -> None:
    """ASE and CSS have L*a*b* under D50; the reference is the search by L*a*b*."""
    (tmp_path / "a.ase").write_bytes(ase(("cyan", b"LAB ", (0.5, -80, -60)), ("clay", b"LAB ", (0.5, 20, 20))))
    p3 = {"colorSpace": "display-p3", "components": [0, 1, 0]}
    (tmp_path / "a.json").write_text(json.dumps({"green": {"$type": "color", "$value": p3}}))
    for own, css in (
        (sepu.read_palette(tmp_path / "a.ase"), "lab(50 -80 -60)"),
        (sepu.read_palette(tmp_path / "a.json"), "color(display-p3 0 1 0)"),
        (sepu.NamedPalette({"x": "lab(50 -80 -60)"}), "lab(50 -80 -60)"),
    ):
        [match] = own.match(css)
        assert (match.in_srgb, match.hex) == (False, own[0].hex)
        assert match.delta_e < 1e-6
    own = sepu.read_palette(tmp_path / "a.ase")
    palette = sepu.Palette(lab=[record.lab for record in own])
    assert own.palette().nearest(200, 60, 35, 2) == palette.nearest(200, 60, 35, 2)
    [(_, delta_e)] = palette.nearest(lab=(50, -80, -60), white="D50")
    assert delta_e < 1e-6


def test_names_and_colours_may_come_twice() -> None:
    own = sepu.NamedPalette([("a", "#000"), ("b", "#000"), ("a", "#fff"), ("É", "#ff0"), ("e", "#ff3")])
    assert [own.match(name)[0].name for name in ("É", "e")] == [own[name].name for name in ("É", "e")] == ["É", "e"]
    assert [record.name for record in own.named("E")] == ["É", "e"]
    assert [match.name for match in own.match("#000", top=3)] == ["a", "b", "a"]
    with pytest.raises(
        sepu.UnknownNameError, match="'a' is the name of several colours: #000000, #FFFFFF; take one by its position"
    ):
        own["a"]
    with pytest.raises(sepu.ColorError, match="'a' is ambiguous: #000000 of a, or #FFFFFF of a"):
        own.match("a")


def test_texts_and_a_series_are_palettes() -> None:
    found = [(own.name, own.hex) for own in sepu.NamedPalette(["#fff", "tomato"])]
    assert found == [("#fff", "#FFFFFF"), ("tomato", "#FF6347")]
    colors: Any
    for colors in (Items({"ink": "#000", "red": (200, 60, 35)}), [["ink", "#000"], ["red", [200, 60, 35]]]):
        assert [own.name for own in sepu.NamedPalette(colors)] == ["ink", "red"]


class Items:
    """Has the values of a mapping, but iterates over them, as pandas' Series does."""

    def __init__(self, colors: dict[str, Any]) -> None:
        self.items = colors.items

    def __iter__(self) -> Any:
        return iter(dict(self.items()).values())


class Frame(Items):
    columns = ("name", "hex")


@pytest.mark.parametrize(
    ("colors", "reason"),
    [
        ({"ink": "nonsense"}, "^'ink': 'nonsense' is not a colour"),
        ({}, "at least one"),
        ("#fff", "'#fff' is not a palette; write {'ink'"),
        (5, "5 is not a palette"),
        ([(200, 60, 35)], "(200, 60, 35) is not a pair of name and colour; write {'ink'"),
        (Frame({}), "write dict(zip(table['name'], table['hex']))"),
        (["#fff", "x"], "^'x': 'x' is not a colour"),
        ({5: "#fff"}, "a name is a text, not 5"),
    ],
)
def test_what_is_no_palette_is_told(colors: Any, reason: str) -> None:
    with pytest.raises((ValueError, TypeError), match=re.sub(r"([(){}\[\]])", r"\\\1", reason)):
        sepu.NamedPalette(colors)


def ase(*swatches: tuple[str, bytes, tuple[float, ...]]) -> bytes:
    """Adobe Swatch Exchange, written as Illustrator does: in a group."""

    def text(value: str) -> bytes:
        return struct.pack(">H", len(value) + 1) + f"{value}\0".encode("utf-16-be")

    def block(kind: int, content: bytes = b"") -> bytes:
        return struct.pack(">HI", kind, len(content)) + content

    colors = [
        block(1, text(name) + struct.pack(f">4s{len(channels)}fH", model, *channels, 0))
        for name, model, channels in swatches
    ]
    blocks = [block(0xC001, text("group")), *colors, block(0xC002)]
    return b"ASEF" + struct.pack(">HHI", 1, 0, len(blocks)) + b"".join(blocks)


RED, PINK = "#C83C23", "#F47983"
GREY = ase(("纸", b"RGB ", (200 / 255, 60 / 255, 35 / 255)), ("", b"Gray", (0.25,)))
TOKENS = {
    "color": {
        "$type": "color",
        "$description": "not a colour",
        "red": {"$value": RED},
        "pink": {"$value": {"colorSpace": "srgb", "components": [244 / 255, 121 / 255, 131 / 255], "alpha": 1}},
        "deep": {"again": {"$value": "{color.red}"}},
    },
    "gap": {"$type": "dimension", "$value": {"value": 4, "unit": "px"}},
}
GIMP = "GIMP Palette\r\nName: x\r\nColumns: 2\r\n# c\r\n200  60  35\tRed wine\r\n 244 121 131\r\n"
OURS = {"version": "1.0", "colors": [{"slug": "a", "name": {"zh": "绯红", "en": "Silk"}, "hex": RED}]}
LIST = [{"name": "Red", "hex": RED}, {"name": "x", "rgb": [0, 0, 0]}]
CSS = """/* --no: #fff; */ @import url(a.css); :root { --red: #C83C23; --pink : rgb(244 121 131); --gap: 4px;
--again: var(--pink); --font: abc, serif; --white: white } .dark { --red: #F47983 }"""
FILES: list[tuple[str, str | bytes, list[tuple[str, str]]]] = [
    ("a.gpl", GIMP, [("Red wine", RED), (PINK, PINK)]),
    ("a.ASE", GREY, [("纸", RED), ("#404040", "#404040")]),
    ("a.tokens.json", json.dumps(TOKENS), [("color.red", RED), ("color.pink", PINK), ("color.deep.again", RED)]),
    ("a.json", json.dumps({"red": RED, "rosé": [244, 121, 131]}), [("red", RED), ("rosé", PINK)]),
    ("b.json", json.dumps({"red": {"50": PINK, "900": RED}}), [("red.50", PINK), ("red.900", RED)]),
    ("c.json", json.dumps(LIST), [("Red", RED), ("x", "#000000")]),
    ("d.json", json.dumps([RED, "#fff"]), [(RED, RED), ("#fff", "#FFFFFF")]),
    ("e.json", json.dumps(OURS), [("绯红 Silk", RED)]),
    ("a.css", CSS, [("red", RED), ("pink", PINK), ("again", PINK), ("white", "#FFFFFF"), ("red", PINK)]),
    ("a.csv", f"\ufeffName,Hex,Good\nRed,{RED},x\n\n\"Pink, or so\",F47983,\n", [("Red", RED), ("Pink, or so", PINK)]),
    ("b.csv", "name;R;G;B\nRed;200;60;35\n", [("Red", RED)]),
    ("a.tsv", f"hex\n{RED}\n", [(RED, RED)]),
    ("commas.csv", "hex\nrgb(200, 60, 35)\n", [(RED, RED)]),
    ("aseprite.gpl", "GIMP Palette\nChannels: RGBA\nMade by: x\n200 60 35 255 Red\n0 0 0 255\n",
     [("Red", RED), ("#000000", "#000000")]),
    ("digits.gpl", "GIMP Palette\n200 60 35 40 thieves\n0 0 0 7", [("40 thieves", RED), ("7", "#000000")]),
    ("lines.gpl", "GIMP Palette\n200 60 35 a\u2028b\x0bc\r0 0 0 d", [("abc", RED), ("d", "#000000")]),
    ("title.json", json.dumps([{"title": "a", "HEX": RED}, {"Label": "b", "Hex Code": "f47983"}, {"name": "tomato"}]),
     [("a", RED), ("b", PINK)]),
    ("almond.json", json.dumps({"colors": [{"color": "Almond", "hex": RED, "rgb": "(1, 2, 3)"}]}), [("Almond", RED)]),
    ("channels.json", json.dumps([{"Name": "a", "R": 200, "G": 60, "B": 35}]), [("a", RED)]),
    ("mapping.json", json.dumps({"a": {"rgb": {"r": 200, "g": 60, "b": 35}}}), [("a", RED)]),
    ("gray.json", json.dumps({"gray": [RED, PINK]}), [("gray.1", RED), ("gray.2", PINK)]),
    ("themes.json", json.dumps({"a": {"color": RED, "background": PINK}}), [("a", RED), ("a.background", PINK)]),
    ("buttons.json", json.dumps([{"name": "a", "color": RED, "background": PINK}]),
     [("a", RED), ("1.background", PINK)]),
    ("shades.json", json.dumps([{"name": "a", "hex": RED, "on": "#fff", "shades": {"50": PINK}}]),
     [("a", RED), ("1.shades.50", PINK)]),
    ("sets.json", json.dumps({"core": {"red": {"value": RED, "type": "color"}}, "light": {"bg": {"value": "{red}"}},
                              "dark": {"bg": {"value": PINK, "type": "color"}, "card": {"value": "{bg}"}}}),
     [("core.red", RED), ("light.bg", RED), ("dark.bg", PINK), ("dark.card", PINK)]),
    ("forms.json", json.dumps({"a": {"hex": RED, "HSL": "hsl(0 0% 0%)", "type": "warm"}}), [("a", RED)]),
    ("groups.json", json.dumps({"version": "1", "palette": {"a": RED}, "other": {"b": PINK}}),
     [("a", RED), ("other.b", PINK)]),
    ("color.csv", f"Color,HEX\nAlmond,{RED}\n", [("Almond", RED)]),
    ("brackets.csv", "Name,Hex (24 bit),Red (8 bit)\nAlmond,#C83C23,200\n", [("Almond", RED)]),
    ("untitled.csv", "air_force,Air Force,#c83c23,200,60,35\nx,Silk,#F47983,1,2,3\n",
     [("Air Force", RED), ("Silk", PINK)]),
    ("first.csv", "#c83c23,Red\n", [("Red", RED)]),
    ("alone.csv", "#c83c23\n#F47983\n", [(RED, RED), (PINK, PINK)]),
    ("channels.csv", "Colour,Red,Green,Blue\nAlmond,200,60,35\n", [("Almond", RED)]),
    ("idents.css", f"a{{--\U0001f525: {RED};--\\31 a\\;b:{PINK}!important;--c/**/:/* d */ {RED} /* e */}}",
     [("\U0001f525", RED), ("1a;b", PINK), ("c", RED)]),
    ("fallback.css", f"a{{--a:var(--q, {RED});--b:var(--a,#000);--c:VAR( --q , var(--b) );--d:var(--e,#fff);--e:4px}}",
     [("a", RED), ("b", RED), ("c", RED)]),
    ("strings.css", f"a{{--a:url('x;--n:#fff');--x:'}}--m:#000';--b:{RED}}} b--c:hover{{}} @container style(--t:#fff)"
     f"{{--d:{PINK}}}",
     [("b", RED), ("d", PINK)]),
    ("together.gpl", "GIMP Palette\n200 60 35Red\n0 0 0Untitled", [("Red", RED), ("Untitled", "#000000")]),
    ("nested.json", json.dumps([{"name": "a", "rgb": {"r": 200, "g": 60, "b": 35, "a": 1}},
                                {"title": "b", "color": {"hex": PINK}}]), [("a", RED), ("b", PINK)]),
    ("figma.json", json.dumps({"a": {"r": 1, "g": 1, "b": 1, "a": 1}, "b": {"r": 0, "g": 0.4, "b": 0.8}}),
     [("a", "#FFFFFF"), ("b", "#0066CC")]),
    ("variables.json", json.dumps({"meta": {"variables": {
        "VariableID:1:2": {"name": "brand/red", "key": "abc", "resolvedType": "COLOR", "valuesByMode": {
            "1:0": {"r": 1, "g": 0, "b": 0.2, "a": 1}, "1:1": {"r": 0, "g": 0.4, "b": 0.8, "a": 1}}},
        "VariableID:1:3": {"name": "gap", "resolvedType": "FLOAT", "valuesByMode": {"1:0": 4}}}}}),
     [("brand/red", "#FF0033"), ("brand/red", "#0066CC")]),
    ("unit.csv", "name,r,g,b\na,1,1.0,1\nb,0.0,0.4,0.8\n", [("a", "#FFFFFF"), ("b", "#0066CC")]),
    ("dark.csv", "name,r,g,b\na,0,0,1\n", [("a", "#000001")]),
    ("coolors.csv", "c83c23,f47983,000000", [(RED, RED), (PINK, PINK), ("#000000", "#000000")]),
    ("short.csv", "c83c23, Red\nf47983", [("Red", RED), (PINK, PINK)]),
    ("facade.csv", "facade,#c83c23\n", [("facade", RED)]),
    ("titles.csv", f"HTML Color,Code,Group\nRed,{RED},x\n", [("Red", RED)]),
    ("columns.csv", f"role,Light,Dark\na,{RED},#000\nb,{PINK},\n",
     [("a Light", RED), ("a Dark", "#000000"), ("b Light", PINK)]),
    ("lab.csv", f"name,L,a,b,hex\nRed,46,59,5,{RED}\n", [("Red", RED)]),
    ("gtk.css", f"@define-color red {RED};@define-color pink_1 rgb(244,121,131);\n@define-color/**/ x @red;\n"
     "@define-color y @x;* { --red: var(--z); --z: #000; background: @red } @media (a) { @define-color z @pink_1; }",
     [("red", RED), ("pink_1", PINK), ("x", RED), ("y", RED), ("red", "#000000"), ("z", "#000000"), ("z", PINK)]),
    ("alpha.csv", "name,r,g,b,a\nRed,200,60,35,255\nPink,244,121,131,255.0\n", [("Red", RED), ("Pink", PINK)]),
    ("extensions.json", json.dumps({"a": {"value": RED, "type": "color", "$extensions": {"x": {
        "color": "#fff", "$value": "#000", "b": {"value": "#123456", "type": "color"}}}}}), [("a", RED)]),
    ("esc.csv", f"name,hex\n\x1b[31mRed\u202e,{RED}\n", [("[31mRed", RED)]),
]  # fmt: skip


@pytest.mark.parametrize(("name", "content", "expected"), FILES, ids=[name for name, _, _ in FILES])
def test_what_files_hold(tmp_path: Path, name: str, content: str | bytes, expected: list[tuple[str, str]]) -> None:
    file = tmp_path / name
    file.write_bytes(content if isinstance(content, bytes) else content.encode())
    own = sepu.read_palette(file)
    assert [(record.name, record.hex) for record in own] == expected
    assert all(channel == round(channel) for record in own for channel in record.rgb if record.hex != "#404040")


def srgb(components: list[Any], **more: object) -> dict[str, Any]:
    return {"colorSpace": "srgb", "components": components, **more}


BLUE, RED_VALUE = srgb([0, 0.4, 0.8]), srgb([200 / 255, 60 / 255, 35 / 255])
BLUE_HEX = "#0066CC"
# From the specification's examples (Design Tokens Format Module 2025.10), with their group names.
DOCUMENTS: list[tuple[str, object, list[tuple[str, str]]]] = [
    (
        "aliases",
        {
            "colors": {"blue": {"$value": BLUE, "$type": "color"}},
            "semantic": {
                "primary": {"$value": "{colors.blue}", "$type": "color"},
                "whole": {"$ref": "#/colors/blue"},
                "link": {"$value": "{ semantic.primary }"},
                "value": {"$value": {"$ref": "#/colors/blue/$value"}},
                "primaryHue": {"$value": {"$ref": "#/colors/blue/$value/components/0"}, "$type": "number"},
            },
        },
        [(name, BLUE_HEX) for name in
         ("colors.blue", "semantic.primary", "semantic.whole", "semantic.link", "semantic.value")],
    ),
    (
        "components",
        {
            "base": {"a/b~1 c": {"$type": "color", "$value": BLUE}},
            "mixed": {"$type": "color", "$value": srgb(
                [1, {"$ref": "#/base/a~1b~01%20c/$value/components/1"}, {"$ref": "#/mixed/$value/alpha"}], alpha=1)},
        },
        [("base.a/b~1 c", BLUE_HEX), ("mixed", "#FF66FF")],
    ),
    (
        "root",
        {"color": {"accent": {
            "$type": "color", "$root": {"$value": RED_VALUE}, "light": {"$value": "{color.accent.$root}"}
        }}},
        [("color.accent.$root", RED), ("color.accent.light", RED)],
    ),
    (
        "types",
        {
            "palette": {
                "$type": "color",
                "a": {"$value": BLUE},
                "gap": {"$type": "dimension", "$value": "4px"},
                "b": {"$value": "{palette.gap}"},
                "c": {"d": {"$value": RED_VALUE}, "e": {"$type": "string", "$value": "amber"}},
            },
            "f": {"$type": "dimension", "g": {"$value": "{palette.a}"}},
            "untyped": {"$value": RED}, "named": {"$value": "tomato"},
            "text": {"$value": "4px"}, "word": {"$value": "solid"},
        },
        [("palette.a", BLUE_HEX), ("palette.c.d", RED), ("f.g", BLUE_HEX), ("untyped", RED), ("named", "#FF6347")],
    ),
    (
        "extends",
        {
            "button": {"$type": "color", "background": {"$value": BLUE}, "text": {"deep": {"$value": "#fff"}}},
            "button-primary": {"$extends": "{button}", "background": {"$value": RED_VALUE},
                               "text": {"also": {"$value": "{button.background}"}}},
            "third": {"$ref": "#/button-primary/text"},
            "sizes": {"$extends": "{button}", "$type": "dimension"},
            "fourth": {"$extends": "{button}", "text": {"$value": "#000"}, "background": {"new": {"$value": "#001"}}},
        },
        [("button.background", BLUE_HEX), ("button.text.deep", "#FFFFFF"), ("button-primary.background", RED),
         ("button-primary.text.deep", "#FFFFFF"), ("button-primary.text.also", BLUE_HEX), ("third.deep", "#FFFFFF"),
         ("third.also", BLUE_HEX), ("fourth.background.new", "#000011"), ("fourth.text", "#000000")],
    ),
    (
        "older",
        {
            "colors": {"red": {"value": RED, "type": "color"}, "pink": {"value": PINK, "comment": "x"}},
            "brand": {"a": {"value": "{colors.red.value}", "type": "color"}, "b": {"value": "{colors.pink}"}},
            "gap": {"value": "4px", "type": "dimension"},
            "size": {"value": {"a": 1}, "type": "typography"},
            "fill": {"value": PINK, "type": "fill"},
        },
        [("red", RED), ("pink", PINK), ("brand.a", RED), ("brand.b", PINK), ("fill", PINK)],
    ),
]  # fmt: skip


@pytest.mark.parametrize(
    ("document", "expected"), [each[1:] for each in DOCUMENTS], ids=[name for name, *_ in DOCUMENTS]
)
def test_design_tokens(tmp_path: Path, document: object, expected: list[tuple[str, str]]) -> None:
    (tmp_path / "a.tokens.json").write_text(json.dumps(document))
    assert [(token.name, token.hex) for token in sepu.read_palette(tmp_path / "a.tokens.json")] == expected


def tokens(**more: object) -> str:
    return json.dumps({"$type": "color", "ok": {"$value": RED}, **more})


FUNCTIONS = ["rgb", "rgba", "hsl", "hsla", "hsb", "hsva", "hwb", "lab", "oklab", "lch", "oklch", "color", "color-mix",
             "light-dark", "cmyk", "device-cmyk"]  # fmt: skip
ONE, GAP = [("ok", RED)], {"$type": "dimension", "$value": "4px"}
SKIPPED: list[tuple[str, str | bytes, str]] = [
    ("a.json", tokens(a={"$value": "#fff8"}, b={"$value": "#0008"}, c={"$value": "rgb(0 0 0 / .2)"}),
     "3 of 4 entries are not opaque colours and are skipped: 3 such as a: '#fff8' has an alpha"),
    ("a.json", tokens(a={"$value": srgb([1, 0, 0], alpha=0.5)}), "a: it has an alpha channel of 0.5: blend it"),
    ("a.json", tokens(a={"$value": srgb([2, 0, 0])}), "a: its channels are 2, 0, 0, and not from 0 to 1"),
    ("a.json", tokens(a={"$value": srgb([1, 0])}), "a: a colour has the members colorSpace"),
    ("a.json", tokens(a={"$value": "{b}"}, b={"$value": "{a}"}), "2 such as a: its references lead in a circle"),
    ("a.json", tokens(a={"$value": srgb([{"$ref": "#/a/$value/components/0"}, 0, 0])}), "a: its references lead in a"),
    ("a.json", tokens(a={"$value": "{c}"}, gap={"$type": "dimension", "b": {"$value": "{c}"}}), "1 of 2 entries"),
    ("a.json", tokens(a={"$value": "{c}"}), "a: {c} is not a token of this file"),
    ("a.json", tokens(a={"$value": {"$ref": "x"}}), "a: 'x' is neither '{a.b}' nor a JSON Pointer"),
    ("a.json", tokens(a={"$type": "number", "$value": 1}, b={"$type": "color", "$value": "{a}"}),
     "1 of 2 entries are not opaque colours and are skipped: b: it refers to a token of the type 'number'"),
    ("a.json", tokens(a={"$extends": "{b}"}, b={"$extends": "{c}"}, c={"$extends": "{a}"}),
     "3 such as a: '{b}' leads in a circle"),
    ("a.json", tokens(a={"$extends": "{ok}"}), "a: '{ok}' is a token, and $extends takes a group"),
    ("a.json", tokens(a={"$extends": "{b.c}"}), "a: '{b.c}' is not a group or token of this file"),
    ("a.json", tokens(a="#fff", b=["#000"], c={"$extends": "{d}", "e": "#fff"}, d={"e": GAP}),
     "3 such as a: it is not a token; write it as the $value of an object"),
    ("a.json", json.dumps({"$type": "color", "ok": {"$value": RED, "dark": {"$value": PINK}}}),
     "ok.dark: it lies in a token; call that token $root"),
    ("a.json", json.dumps({"ok": RED, "a": "transparent", "b": 4, "c": "x\x1b"}), "3 of 4 entries are not opaque"),
    ("a.json", json.dumps({"colors": {"ok": RED}, "name": "x", "more": {"b": "#0008"}}),
     "1 of 2 entries are not opaque colours and are skipped: more.b: '#0008' has"),
    ("a.json", json.dumps([{"name": "ok", "hex": RED, "opacity": 1}, {"name": "a", "hex": RED, "alpha": 0.5}]),
     "1 of 2 entries are not opaque colours and are skipped: 2: it has an alpha channel of 0.5: blend"),
    ("a.json", json.dumps([{"name": "ok", "hex": RED}, {"rgb": {"r": 1, "g": 2, "b": 3, "a": 0.2}}]),
     "2.rgb: it has an alpha channel of 0.2"),
    ("a.json", json.dumps({"ok": {"value": RED, "type": "color"}, "a": {"value": "{ok.x}", "type": "color"}}),
     "a: {ok.x} is not a token of this file"),
    ("a.ase", ase(("ok", b"RGB ", (200 / 255, 60 / 255, 35 / 255)), ("Warm", b"CMYK", (0, 0, 1, 0))),
     "1 of 2 entries are not opaque colours and are skipped: colour 2, 'Warm': CMYK is not a colour without"),
    ("a.ase", ase(("ok", b"RGB ", (200 / 255, 60 / 255, 35 / 255)), ("x", b"LAB ", (0.5, 900, 0))),
     "colour 2, 'x': lab"),
    ("a.csv", f"name,hex\nok,{RED}\nb,\nc,none\nd", "3 of 4 entries are not opaque colours and are skipped: 2 such as"),
    ("a.csv", f"name,hex,Opacity\nok,{RED},100%\nb,{RED},0.5", "line 3: it has an alpha channel of 0.5: blend"),
    ("a.gpl", "GIMP Palette\n200 60 35 ok\n1 2 x\n1 2 300", "line 3: '1 2 x' is not like '200 60 35 Scarlet'"),
    ("a.gpl", "GIMP Palette\nChannels: RGBA\n200 60 35 255 ok\n1 2 3 9", "line 4: it has an alpha channel of 9: blend"),
    ("a.css", f":root {{ --ok: {RED}; --a: #0008; --b: color-mix(in srgb, red, blue); --gap: 4px }}",
     "2 of 3 entries are not opaque colours and are skipped: --a: '#0008' has"),
    ("a.css", f"a {{ --ok: {RED}; {''.join(f'--{name}: {name}(1);' for name in FUNCTIONS)} --a: rgb(var(--b) 2 3) }}",
     f"{len(FUNCTIONS) + 1} of {len(FUNCTIONS) + 2} entries are not opaque colours and are skipped: "),
    ("a.css", f":root {{ --b: #0008; --ok: {RED}; --a: var(--b) }} .dark {{ --b: #0009 }}",
     "--a: it refers to '--b', which has several values: write the one that you mean"),
    ("a.css", f":root {{ --ok: {RED}; --a: var(--b); --b: var(--missing); --c: var(--x, var(--y)); --d: var(--z,) }}",
     "3 of 4 entries are not opaque colours and are skipped: 3 such as --a: it refers to '--missing', which this"),
    ("a.css", f":root {{ --ok: {RED}; --a: var(--b); --b: var(--a) }}", "2 such as --a: its references lead in a"),
    ("a.json", json.dumps({"ok": RED, "primary": "222.2 47.4% 11.2%"}),
     "primary: '222.2 47.4% 11.2%' is without a function: write 'hsl(222.2 47.4% 11.2%)', or what is meant"),
    ("a.json", tokens(a={"$value": "222.2 47.4% 11.2%"}), "a: '222.2 47.4% 11.2%' is without a function"),
    ("a.json", json.dumps({"ok": {"$value": RED}, "a": {"$value": "210 17% 98%"}}), "a: '210 17% 98%' is without a"),
    ("a.csv", f"name,color\nok,{RED}\na,222 47% 11%\nb,0.6 0.2 30\nc,62.8% 0.25 29", "meant (also line 4, line 5)"),
    ("a.css", f":root {{ --ok: {RED}; --gray-0-hsl: 210 17% 98%; --rgb: 13,110,253; --b: 1 2 3 }} /* hsl(var(--b)) */",
     "3 of 4 entries are not opaque colours and are skipped: 3 such as --gray-0-hsl: '210 17% 98%' is without "
     "a function: write 'hsl(210 17% 98%)', or what is meant (also --rgb, --b)"),
    ("a.css", f":root {{ --ok: {RED}; --a: 1 2 3 }} a {{ color: rgb(var(--a)); fill: lab(var(--a)) }}",
     "--a: '1 2 3' is without a function, and this file puts it into lab() and rgb(): write"),
    ("a.css", f"@define-color ok {RED}; @define-color a alpha(@ok, 0.5); @define-color b @c; @define-color d @d;",
     "@a: 'alpha(#C83C23, 0.5)' is not a colour that is known here; @b: it refers to '@c', which this file does not"),
    ("a.csv", "name,r,g,b,a\nok,200,60,35,255\nghost,0,0,0,1", "line 3: it has an alpha channel of 1: blend"),
    ("a.csv", "name,r,g,b,a\nok,200,60,35,100%\na,0,0,0,100",
     "line 3: its alpha of 100 may be of 100 or of 255: write 1"),
    ("a.json", json.dumps([{"name": "ok", "hex": RED, "alpha": 255}, {"name": "a", "hex": RED, "alpha": 1}]),
     "2: it has an alpha channel of 1: blend"),
    ("a.json", tokens(a={"$value": RED, "alpha": 0.5}), "a: it has an alpha channel of 0.5: blend"),
    ("a.json", tokens(a={"$value": {"$ref": "#/b/$extensions/x"}}, b={"$type": "number", "$extensions": {"x": RED}}),
     "is neither '{a.b}' nor a JSON Pointer"),
    ("a.json", json.dumps({"ok": RED, "a": {"value": PINK, "modify": [{"type": "brighten", "amount": 10}]}}),
     "a: 'modify' changes the value of 'a', and sepu does not compute that: export the final value"),
    ("a.json", json.dumps({"ok": RED, "scale": [1.0, 1.15, 1.0]}), "scale: [1.0, 1.15, 1.0] is not three whole"),
    ("a.json", json.dumps([{"name": "ok", "type": "COLOR", "valuesByMode": {
        "1:0": {"r": 200 / 255, "g": 60 / 255, "b": 35 / 255}, "1:1": {"type": "VARIABLE_ALIAS", "id": "1:2"}}}]),
     "1.valuesByMode.1:1: it is an alias; export the values"),
    ("a.csv", f"name,hex,h,s,l,a\nok,{RED},9,70%,46%,1\nx,{RED},9,70%,46%,0.5", "3: it has an alpha channel of 0.5"),
    ("a.csv", f"name,hex,alpha\nok,{RED},1\nx,{RED}", "line 3: there are 2 cells, and line 1 has 3"),
    ("a.csv", f"name,hex,alpha\nok,{RED},\nx,{RED},0.5", "1 of 2 entries are not opaque colours and are skipped: l"),
    ("a.csv", f"name,hex\nok,{RED}" + "\na,#12\nb,#0008\nc,none\nd" * 2, "; and 2 for other reasons"),
    ("a.css", f":root {{ --ok: {RED}; --x: 4px; --b: VAR(--x); --a: var(--b) }} .dark {{ --y: 5px; --b: VAR(--y) }}",
     "--a: it refers to '--b', which has several values"),
    ("a.css", f"@define-color ok {RED}; @define-color b @c; @define-color b @d; @define-color a @b;",
     "@a: it refers to '@b', which has several values"),
    ("a.json", tokens(core={"a": {"$value": "{bg}"}}, light={"bg": GAP}, dark={"bg": GAP}),
     "core.a: {bg} is not a token of this file"),
    ("a.json", tokens(a={"$value": PINK, "$extensions": {"modify": {"type": "darken"}}}), "'modify' changes the value"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "content", "reason"), SKIPPED, ids=[reason for _, _, reason in SKIPPED])
def test_what_is_no_opaque_colour_is_skipped_and_said_once(
    tmp_path: Path, name: str, content: str | bytes, reason: str
) -> None:
    (tmp_path / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.warns(sepu.PaletteWarning) as warned:
        own = sepu.read_palette(tmp_path / name)
    assert [(record.name, record.hex) for record in own] == ONE
    [warning] = warned
    assert str(warning.message).startswith(repr(str(tmp_path / name)))
    assert reason in str(warning.message)
    assert str(warning.message).isprintable()
    assert warning.filename == __file__


def test_a_colour_that_tokens_studio_changes_is_left_out_and_named(tmp_path: Path) -> None:
    """What its transforms for Style Dictionary (sd-transforms 2.0.3 on Style Dictionary 5.5.5) make of these tokens."""
    expected = {"red": "#c83c23", "alias": "#c83c23", "dark": "lch(33.058 50.84 40.465)", "light": "#e2705b",
                "mix": "#865980", "of": "lch(33.058 50.84 40.465)", "plain": "#f47983"}  # fmt: skip
    changes: dict[str, Any] = {
        "dark": {"type": "darken", "value": "0.3", "space": "lch"},
        "light": {"type": "lighten", "value": "0.3", "space": "hsl"},
        "mix": {"type": "mix", "value": "0.5", "space": "srgb", "color": "#4477DD"},
    }
    values = dict.fromkeys(expected, "{color.red}") | {"red": RED, "plain": PINK, "of": "{color.dark}"}
    for kind, value in (("type", "value"), ("$type", "$value")):
        document = {name: {value: given, kind: "color"} for name, given in values.items()}
        for name, change in changes.items():
            document[name]["$extensions"] = {"studio.tokens": {"modify": change}}  # type: ignore[assignment]
        document["plain"]["$extensions"] = {"studio.tokens": {"id": "1", "color": "#000000"}}  # type: ignore[assignment]
        (tmp_path / "a.tokens.json").write_text(json.dumps({"color": document}))
        with pytest.warns(sepu.PaletteWarning, match="'modify' changes the value of 'color.dark'") as warned:
            own = sepu.read_palette(tmp_path / "a.tokens.json")
        left = {record.name.removeprefix("color."): record.hex.lower() for record in own}
        assert left == {name: expected[name] for name in ("red", "alias", "plain")}
        assert isinstance(warning := warned[0].message, sepu.PaletteWarning)
        assert {place.removeprefix("color.") for place, _ in warning.skipped} == {*changes, "of"}


THEME = """@layer base { :root { --primary: 222.2 47.4% 11.2%; --rgb: 200, 60, 35; --c: 62.8% 0.2577 29.23; --h: 210;
--s: 17% 98%; --gray: hsl(var(--h) var(--s)); --of: var(--primary); --bg: white; --card: var(--bg) }
.dark { --primary: 210 40% 98%; --bg: black } }
a { color: hsl(var(--primary)); background: HSLA( var(--c2)/.5); border-color: rgba(var(--rgb), .2) }
b { fill: oklch(var(--c)) }"""


def test_components_are_of_the_function_into_which_the_file_puts_them(tmp_path: Path) -> None:
    """The values are those of coloraide 8.13.1."""
    (tmp_path / "a.css").write_text(THEME)
    with pytest.warns(sepu.PaletteWarning, match=r"--of: it refers to '--primary', which has several.*also --card"):
        own = sepu.read_palette(tmp_path / "a.css")
    assert [(record.name, record.hex) for record in own] == [
        ("primary", "#0F172A"), ("rgb", RED), ("c", "#FF0000"), ("gray", "#F9FAFB"), ("bg", "#FFFFFF"),
        ("primary", "#F8FAFC"), ("bg", "#000000")
    ]  # fmt: skip
    assert own[0].rgb == pytest.approx([15.02256, 23.0547744, 42.09744])


def test_each_reference_is_resolved_once(tmp_path: Path) -> None:
    """A long chain of references, whose end is a colour or missing: bounds the Python calls for each link."""
    (tmp_path / "a.css").write_text("a { --ok: #fff }")
    sepu.read_palette(tmp_path / "a.css")  # imports what it needs
    for end, found, bound in ((RED, 1002, 100), ("var(--missing)", 1, 50)):
        chain = "".join(f"--a{place}: var(--a{place + 1});" for place in range(1000))
        (tmp_path / "a.css").write_text(f"a {{ --ok: {RED}; {chain} --a1000: {end} }}")
        calls = 0

        def count(_frame: object, event: str, _argument: object) -> None:
            nonlocal calls
            calls += event == "call"

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            sys.setprofile(count)
            try:
                own = sepu.read_palette(tmp_path / "a.css")
            finally:
                sys.setprofile(None)
        assert len({record.name for record in own}) == found
        assert calls < 1000 * bound


def test_a_value_that_grows_too_long_is_no_colour() -> None:
    found = [("--0", RED), *((f"--{place + 1}", f"var(--{place}) " * 20) for place in range(2))]  # each 20 of the last
    assert (str(_Values(found).fill("var(--1)"))[:7], _Values(found).fill("var(--2)")) == (RED, "")


CMYK = ase(("Warm Red", b"CMYK", (0, 0.5, 1, 0)))


WRONG: list[tuple[str, str | bytes, str]] = [
    ("a.aco", "", "does not end in .gpl, .ase, .json, .css, .csv, .tsv; save it as one of these"),
    ("a.gpl", "JASC-PAL", "line 1: this is not 'GIMP Palette'; export it"),
    ("a.gpl", "GIMP Palette\n#\n1 2 x", "line 3: '1 2 x' is not like '200 60 35 Scarlet'"),
    ("a.gpl", "GIMP Palette\n1 2 256 x", "line 2: [1, 2, 256] has the channel 256"),
    ("a.gpl", "GIMP Palette\nName: x", "has no colour"),
    ("a.gpl", b"GIMP Palette\n1 2 3 \xff", "line 2: this is not UTF-8"),
    ("a.ase", b"", "byte 0: this is not 'ASEF'"),
    ("a.ase", b"\xec\x01\0\0\xe0\xa5", "byte 4: this is a sprite of Aseprite; export its palette as .gpl"),
    ("a.ase", CMYK, "colour 1, 'Warm Red': CMYK is not a colour without the profile of a press; convert"),
    ("a.ase", GREY[:-8], "byte 62: the file is cut off; export it again"),
    ("a.ase", ase(("x", b"RGB ", (2, 0, 0))), "colour 1, 'x': its channels are 2.0, 0.0, 0.0, and not from 0 to 1"),
    ("a.ase", ase(("x", b"RGB ", (float("nan"), 0, 0))), "its channels are nan, 0.0, 0.0, and not from 0 to 1"),
    ("a.ase", ase(("x", b"HSB ", (0, 0, 0))), "colour 1, 'x': its model is 'HSB'; convert the swatch to RGB"),
    ("a.ase", b"ASEF" + struct.pack(">HHIHIH", 1, 0, 1, 1, 2, 9), "byte 12: this is not a block of swatches"),
    ("a.ase", b"ASEF" + struct.pack(">HHIHIHH", 1, 0, 1, 1, 4, 1, 0xD800), "byte 12: this is not a block of swatches"),
    ("a.json", '{"red":\n "#12"}', "red: '#12' has 2 digits"),
    ("a.json", '{"red":\n x}', "line 2: Expecting value"),
    ("a.json", '{"a": {"red": true}}', "a.red: True is not a colour; write '#C83C23'"),
    ("a.json", '{"red": "#000", "red": "#fff"}', "'red' comes twice in one object"),
    ("a.json", "[" * 100_000, "objects lie more than 32 deep"),
    ("a.json", "[" * 50 + "]" * 50, "objects lie more than 32 deep"),
    ("a.json", '{"a":' * 50 + '"#fff"' + "}" * 50, "objects lie more than 32 deep"),
    ("a.json", f"{'[' * 30}{'1,' * 2000}1{']' * 30}", "there are more than 1,000 colours; save fewer"),
    ("a.css", "--a:0;" * 1001, "there are more than 1,000 custom properties; save fewer"),
    ("a.json", "1" * 5000, "a number is too long"),
    ("a.json", '{"$value": "#fff"}', "has no colour"),
    ("a.css", ":root { --gap: 4px }", "has no colour"),
    ("a.csv", "a,b\n1,2", "line 1: it does not name the columns; write name,hex or name,r,g,b"),
    ("a.csv", "My colours,\n#fff,#000,#111", "line 1: it does not name the columns"),
    ("a.csv", "name,hex\nb", "line 2: there are 1 cells, and line 1 has 2"),
    ("a.csv", 'name,hex\n"a,#fff', "line 2: unexpected end of data"),
    ("a.csv", "name,hex\na,nonsense", "line 2: 'nonsense' is not a colour"),
    ("a.csv", "name,hex\n" + "a,#fff\n" * 1001, "has more than 1,000 colours; save fewer"),
    ("a.csv", "name,hex\n" + "a" * 100_000, "has more than 100,000 bytes; save its colours alone"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "content", "reason"), WRONG, ids=[reason for _, _, reason in WRONG])
def test_what_is_no_palette_in_a_file_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, content: str | bytes, reason: str
) -> None:
    monkeypatch.setattr(limits.palettes, "COLORS", 1000)
    monkeypatch.setattr(limits.palettes, "BYTES", 100_000)
    file = tmp_path / name
    file.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(sepu.PaletteError) as caught:
        sepu.read_palette(file)
    assert str(caught.value).startswith(repr(str(file)))
    assert reason in str(caught.value)


def test_what_is_no_file_is_told(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "a.gpl")
    for name, reason in (("a.gpl", "is not a file"), ("b.gpl", "No such file"), ("c\0.gpl", "null")):
        with pytest.raises(sepu.PaletteError, match=reason):
            sepu.read_palette(tmp_path / name)


def test_a_name_is_text_in_a_notebook() -> None:
    shown = sepu.NamedPalette({"<b>&": "#fff"})[:1]._repr_html_()
    assert "&lt;b&gt;&amp;" in shown
    assert "<b>" not in shown


@pytest.mark.parametrize("name", ["1235", "dad", "facade"])
def test_a_name_that_could_be_hex_is_a_colour(name: str) -> None:
    assert sepu.NamedPalette({name: "#FFB549", "other": "#EEBBDD"}).match(name)[0].name == name


@pytest.mark.parametrize(
    ("space", "components", "css"),
    [("oklch", [0.6, 0.2, 30], "oklch(0.6 0.2 30)"), ("lab", [1e6, "none", 30], "lab(100 none 30)")],
)
def test_a_token_may_be_of_a_function_of_css(tmp_path: Path, space: str, components: list[Any], css: str) -> None:
    (tmp_path / "a.json").write_text(tokens(a={"$value": {"colorSpace": space, "components": components}}))
    assert sepu.read_palette(tmp_path / "a.json")[1].rgb == sepu.NamedPalette({"a": css})[0].rgb


@pytest.mark.parametrize(
    ("first", "reason"),
    [
        (2e6, "a: display-p3 [2000000.0, 0, 0] has a channel beyond 1,000,000; write smaller numbers"),
        (5e5, "a: 'display-p3 [500000.0, 0, 0]' lies too far outside sRGB to be a colour"),
    ],
)
def test_a_token_far_outside_srgb_is_quoted(tmp_path: Path, first: float, reason: str) -> None:
    value = {"colorSpace": "display-p3", "components": [first, 0, 0]}
    (tmp_path / "a.json").write_text(tokens(a={"$value": value}))
    with pytest.warns(sepu.PaletteWarning) as warned:
        sepu.read_palette(tmp_path / "a.json")
    assert reason in str(warned[0].message)
