"""Colours on the command line: input, output, and files for other programs."""

import contextlib
import csv
import io
import json
import os
import pty
import re
import subprocess
import tempfile
import unicodedata
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO
from xml.etree import ElementTree

import pytest
import tinycss2
from hypothesis import example, given, settings, strategies
from PIL import GimpPaletteFile, Image
from rich.cells import cell_len
from tests.cli.running import Done, assert_failed, invoke, printed, process, rows, text
from tests.harness.processes import completed
from tests.harness.serving import SEPU
from tests.programs import node_program

import sepu
from sepu import limits
from sepu.cli.colors import FORMATS, LIBRARY_SIZE
from sepu.cli.palette_formats import WRITERS, Entry
from sepu.library.palette_files import READERS
from sepu.shell import PALETTES

RED, PINK = (200, 60, 35), (244, 121, 131)
ATTRIBUTION = sepu.load().attribution


@pytest.fixture
def photo(tmp_path: Path) -> str:
    image = Image.new("RGB", (40, 30), RED)
    image.paste(PINK, (30, 0, 40, 30))
    image.save(tmp_path / "photo.png")
    return str(tmp_path / "photo.png")


def inputs(done: Done) -> list[str]:
    return [color["input"] for color in printed(done)["colors"][::3]]


def on_a_terminal(
    *arguments: str, status: int = 0, stdin: BinaryIO | None = None, stdout: BinaryIO | None = None, **environment: str
) -> str:
    ours, theirs = pty.openpty()
    environment = {**os.environ, "TERM": "xterm-256color", "COLORTERM": "truecolor", "COLUMNS": "80", **environment}
    with subprocess.Popen(
        [SEPU, *arguments], env=environment, stdin=stdin, stdout=stdout or theirs, stderr=theirs
    ) as process:
        os.close(theirs)
        shown = b""
        with suppress(OSError):  # the other end closed
            while part := os.read(ours, 65536):
                shown += part
    os.close(ours)
    assert process.returncode == status
    return shown.decode()


def test_what_match_reads() -> None:
    colors = ("#C83C23", "c83c23", "#fff", *("200", "60", "35"), "rgb(1, 2, 3)", "1,2,3", *("1,", "2,", "3"))
    white, dark, tomato, red = "#FFFFFF", "#010203", "#FF6347", "#C83C23"
    found = inputs(invoke("match", *colors, "tomato", "绯红", "(200, 60, 35)", "--json"))
    assert found == [red, red, white, red, dark, dark, dark, tomato, red, red]
    outside = invoke("match", "color(srgb 1.25 -0.5 0)", "oklch(0.7 0.35 145)")
    assert text(outside).count("(outside sRGB)") == 2
    assert inputs(invoke("match", "color(srgb 1.25 -.5 0)", "--json")) == ["color(srgb 1.25 -.5 0)"]
    given = "\ufeff#C83C23 # red\n\n# of CSS\n  tomato \n1 2 3\t#\n"
    assert inputs(invoke("match", "[200, 60, 35]", "-", "#fff", "--json", given=given)) == [
        red,
        red,
        tomato,
        dark,
        white,
    ]


@pytest.mark.parametrize(
    ("colors", "reason"),
    [
        ((), "in a shell write '#C83C23' in quotes, because # begins a comment"),
        (("200",), "write '#200' for HEX, or three numbers such as '200 60 35'"),
        (("红",), "; perhaps you mean fen-hong (粉红), pin-hong (品红), tao-hong (桃红); sepu search 红 shows more"),
        (("cmyk(0%, 70%, 83%, 22%)",), "is not a colour without the profile of a press; convert it to RGB"),
        (("-",), "line 3: 'nonsense' is not a colour"),
        (("tomatto",), "; perhaps you mean tomato"),
        (("#GGGGGG",), "'#GGGGGG' has 'G', which is not a HEX digit"),
        (("200", "60"), "'200 60' has 2 channels; a colour has three"),
        (("-5", "0", "0"), "-5 is not a channel: channels are numbers from 0 to 255"),
        (("nofile.csv",), "there is no such file; check its name; for the colours in it: sepu match - --column COLUMN"),
        (("no.jpg",), "'no.jpg' is not a colour, and there is no such file; check its name; for an image: sepu"),
        (("fff", "--top", f"{LIBRARY_SIZE + 1}"), f"{LIBRARY_SIZE + 1} is more than the {LIBRARY_SIZE} colours"),
        (("fff", "--column", "color"), "--column reads CSV on standard input: sepu match - --column NAME < FILE"),
        (("-", "--column", "color", "--json"), "--column writes CSV, not json"),
        (("-", "--column", "color"), "'color' is not a column; there are fff"),
    ],
)
def test_what_match_refuses(colors: tuple[str, ...], reason: str) -> None:
    assert_failed(invoke("match", *colors, given="fff\n\nnonsense\n"), reason, status=2)


def test_match_says_what_to_do_with_a_file(tmp_path: Path) -> None:
    for name, way in {
        "a b.csv": "sepu match - --column COLUMN < 'a b.csv'",
        "lines.txt": "sepu match - < lines.txt",
        "x.gpl": "sepu list --palette x.gpl",
        "photo.jpg": "sepu image photo.jpg",
    }.items():
        (tmp_path / name).touch()
        with contextlib.chdir(tmp_path):
            assert_failed(invoke("match", name), f"{name!r} is a file; for ", way, status=2)


@pytest.mark.parametrize("how", [(), ("--column", "tomato")])
def test_colors_from_a_pipe_are_counted_on_a_terminal(how: tuple[str, ...], tmp_path: Path) -> None:
    (tmp_path / "colors").write_text("tomato\n" + "#fff\n" * 20)
    with (tmp_path / "colors").open("rb") as entered, (tmp_path / "found").open("wb") as found:
        shown = on_a_terminal("match", "-", *how, stdin=entered, stdout=found)
    assert f"{20 if how else 21}/?" in shown
    assert shown.endswith("\x1b[1A\x1b[2K"), "it is erased"
    assert b"\x1b" not in (tmp_path / "found").read_bytes()


def test_a_csv_comes_back_with_the_matches() -> None:
    given = '\ufeffname,color,hex\n"A, b",tomato,1\nB,"(200, 60, 35)",2\nC\x1b,,3\n'
    found = rows(invoke("match", "-", "--column", "color", given=given))
    assert list(found[0]) == [
        *("name", "color", "hex", "match_hex", "deltaE", "zh", "zhHant", "pinyin", "en", "slug", "reliability"),
        *("r", "g", "b", "attribution"),
    ]
    assert [(row["name"], row["color"], row["hex"], row["slug"]) for row in found] == [
        ("A, b", "tomato", "1", "tong"),
        ("B", "(200, 60, 35)", "2", "fei-hong"),
        ("C\\u001b", "", "3", ""),
    ]
    assert [row["attribution"] for row in found] == [" ".join(ATTRIBUTION), "", ""]
    assert len(rows(invoke("match", "-", "--column", "color", "--top", "3", given=given))) == 7
    [credited] = rows(invoke("match", "-", "--column", "hex", given="hex,attribution\n#fff,\n"))
    assert (credited["attribution"], credited["match_attribution"]) == ("", " ".join(ATTRIBUTION))
    wrong = {"color\nred,1\n": "line 2: 2 cells", "color\nrot\n": "line 2: 'rot' is not", 'color\n"\n': "line 2: "}
    for table, reason in wrong.items():
        assert_failed(invoke("match", "-", "--column", "color", given=table), reason, status=2)
    way = "line 1: ", "for a CSV with a header: sepu match - --column COLUMN"
    assert_failed(invoke("match", "-", given=given), *way, status=2)


@pytest.mark.parametrize(
    ("arguments", "meant"),
    [
        (("tomato",), "sepu match tomato"),
        (("#C83C23",), "sepu match '#C83C23'"),
        (("fei-hong", "--json"), "sepu match fei-hong --json"),
        (("help", "match"), "sepu match --help"),
        (("version",), "sepu --version"),
    ],
)
def test_a_colour_in_place_of_a_command_shows_the_command(arguments: tuple[str, ...], meant: str) -> None:
    assert_failed(invoke(*arguments), f"No such command {arguments[0]!r}. Did you mean: {meant}", status=2)


def test_a_terminal_gets_what_it_can_show() -> None:
    assert "> colours.ase" in on_a_terminal("list", "--format", "ase", status=2)
    assert "This terminal is known for 256 colours" in on_a_terminal("match", "tomato", COLORTERM="")
    assert "This terminal" not in on_a_terminal("match", "tomato")


def test_match_reads_lines_and_colours_up_to_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    assert_failed(invoke("match", "-", given="#fff " * 100_000), "line 1 has more than 1,000 characters", status=2)
    monkeypatch.setattr(limits.palettes, "COLORS", 3)
    assert len(inputs(invoke("match", "-", "--json", given="fff\n" * 3))) == 3
    assert_failed(invoke("match", "-", given="fff\n" * 4), "there are more than 3 colours; give them in", status=2)


@pytest.mark.parametrize("arguments", [("list",), ("match", "--top"), ("search", "--limit"), ()])
def test_a_message_does_not_repeat_a_long_argument(arguments: tuple[str, ...]) -> None:
    done = invoke(*arguments, "x" * 100_000)
    assert_failed(done, "xxx", status=2)
    assert len(done.stderr) < 2000


@pytest.mark.parametrize(
    ("columns", "dropped"),
    [
        (30, "reliability, pinyin, en, ΔE or share"),
        pytest.param(40, "reliability, pinyin, en", marks=pytest.mark.slow),
        pytest.param(60, "reliability, pinyin", marks=pytest.mark.slow),
        (80, "reliability"),
        (120, ""),
    ],
)
def test_every_colour_fits(columns: int, dropped: str) -> None:
    shown = text(invoke("match", *(record.hex for record in sepu.load()), COLUMNS=str(columns)))
    assert max(map(cell_len, shown.splitlines())) <= columns
    assert "…" not in shown
    for record in sepu.load():
        measure = "" if "ΔE" in dropped else r" +ΔE 0\.0000"
        assert re.search(rf"^ {record.hex}{measure} +{record.name.zh} ", shown, re.MULTILINE)
        assert (f" {record.name.en} " in shown) is ("en" not in dropped)
    note = " ".join(shown.split()).partition("not shown in ")[2]
    assert note == (f"{columns} columns: {dropped}" if dropped else "")


@pytest.mark.parametrize("columns", ["60", pytest.param("80", marks=pytest.mark.slow)])
def test_a_terminal_has_swatches_and_still_fits(columns: str) -> None:
    shown = on_a_terminal("match", "#D9B611", "tomato", COLUMNS=columns)
    assert "\x1b[48;2;217;182;17m    \x1b[0m" in shown
    plain = re.sub(r"\x1b\[[0-9;]*m", "", shown)
    assert max(map(cell_len, plain.splitlines())) <= int(columns)
    assert "…" not in plain
    assert re.search(r"^ \S*hex ", on_a_terminal("match", "#D9B611", NO_COLOR="1"), re.MULTILINE)


def test_a_search_that_finds_nothing_gives_a_hint() -> None:
    done = invoke("search", "qqqqqq")
    assert (done.returncode, done.stdout) == (0, "")
    assert "Nothing found by 'qqqqqq'" in done.stderr
    assert "sepu list" in done.stderr


def test_a_list_of_all_colours() -> None:
    shown = text(invoke("list"))
    assert "\n hex " in shown, "a list without colour has no column of swatches"
    assert all(f"{record.hex}  {record.name.zh}" in shown for record in sepu.load())
    listed = printed(invoke("list", "fei-hong", "桃红", "--json"))
    assert [each["slug"] for each in listed["colors"]] == ["fei-hong", "tao-hong"]
    assert listed["attribution"] == list(ATTRIBUTION)
    assert len(printed(invoke("list", "--format", "json"))["colors"]) == 161
    assert_failed(invoke("list", "feihon"), "; perhaps you mean fei-hong (绯红); sepu list shows all", status=2)
    assert [each["slug"] for each in printed(invoke("list", "fēihóng", "--json"))["colors"]] == ["fei-hong"]
    named = printed(invoke("list", "e-huang", "fei-hong", "--group", "红", "--json"))["colors"]
    assert [each["slug"] for each in named] == ["fei-hong"]
    red = printed(invoke("list", "--group", "红", "--json"))["colors"]
    assert {each["group"] for each in red} == {"红"}
    assert len(red) == 28
    assert_failed(invoke("list", "--group", "rot"), "'rot' is not a group; the groups are 红, 黄,", status=2)


def exported(file_format: str, *arguments: str) -> bytes:
    arguments = ("list", *arguments, "--format", file_format)
    return subprocess.run([SEPU, *arguments], capture_output=True, check=True).stdout


def test_the_help_names_all_formats() -> None:
    assert ([*FORMATS], [*PALETTES]) == ([*WRITERS], [*READERS])
    shown = text(invoke("match", "--help"))
    assert all(f" {suffix}" in shown for suffix in (".tokens.json", *READERS))


@pytest.mark.parametrize("file_format", WRITERS)
def test_every_format_has_the_attribution(file_format: str) -> None:
    content = WRITERS[file_format](sepu.load(), [Entry(sepu.load()["fei-hong"])])
    encoding = "utf-16-be" if file_format == "ase" else "utf-8"
    assert [line for line in ATTRIBUTION if line.encode(encoding) not in content] == []


def test_rows_for_programs() -> None:
    arguments = ("match", "c83c23", "fff", "--top", "2", "--format")
    document = printed(invoke(*arguments, "json"))
    assert document["attribution"] == list(ATTRIBUTION)
    first = document["colors"][0]
    assert (first["input"], first["rgb"], first["name"]["zhHant"], first["deltaE"]) == ("#C83C23", [*RED], "緋紅", 0)
    lines = [json.loads(line) for line in text(invoke(*arguments, "jsonl")).splitlines()]
    about = {name: document[name] for name in ("datasetVersion", "attribution")}
    assert lines == [{**document["colors"][0], **about}, *document["colors"][1:]]
    for file_format, delimiter in (("csv", ","), ("tsv", "\t")):
        rows = list(csv.DictReader(text(invoke(*arguments, file_format)).splitlines(), delimiter=delimiter))
        assert [(row["input"], row["hex"], row["zhHant"]) for row in rows] == [
            (color["input"], color["hex"], color["name"]["zhHant"]) for color in document["colors"]
        ]
        assert [row["attribution"] for row in rows] == [" ".join(ATTRIBUTION)] + [""] * (len(rows) - 1)
    piped = [line.split("\t") for line in text(invoke(*arguments[:-1], COLUMNS=None)).splitlines()]
    assert piped == [list(row.values())[:-1] for row in rows]
    for command in ("list", "search"):
        assert printed(invoke(command, "fei-hong", "--json"))["colors"][0]["name"] == first["name"]


def test_the_colours_of_an_image(photo: str, tmp_path: Path) -> None:
    picture = str(tmp_path / "named.png")
    found = printed(invoke("image", photo, "--json", "--picture", picture))["colors"]
    assert [(each["slug"], each["share"]) for each in found] == [("fei-hong", 0.75), ("tao-hong", 0.25)]
    with Image.open(picture) as named:
        assert sorted(named.getcolors() or []) == [(300, PINK), (900, RED)]
    shown = invoke("image", photo, "--top", "1")
    assert "#C83C23  75.0%  绯红" in shown.stdout
    assert "桃红" not in shown.stdout
    with Path(photo).open("rb") as content:
        piped = subprocess.run([SEPU, "image", "-", "--json"], stdin=content, capture_output=True, check=True).stdout
    assert json.loads(piped)["colors"] == found
    assert "▀" not in shown.stdout
    assert invoke("image", photo, "--format", "css").stdout.count(": #") == 2
    half = "\x1b[38;2;200;60;35;48;2;200;60;35m▀"
    assert half in on_a_terminal("image", photo)


def test_a_picture_has_the_values_that_hex_has(photo: str, tmp_path: Path) -> None:
    (tmp_path / "own.json").write_text('{"x": "rgb(200.5 60.5 30.1%)"}')
    picture = str(tmp_path / "named.png")
    own = ("--palette", str(tmp_path / "own.json"), "--picture", picture)
    [first] = printed(invoke("image", photo, *own, "--json"))["colors"]
    assert (first["hex"], first["rgb"]) == ("#C93D4D", [200.5, 60.5, 76.755])
    with Image.open(picture) as named:
        assert named.getcolors() == [(1200, (0xC9, 0x3D, 0x4D))]


def test_files_that_are_no_image(photo: str, tmp_path: Path) -> None:
    (tmp_path / "text.png").write_text("text")
    assert_failed(invoke("image", str(tmp_path / "text.png")), "is not an image that can be read")
    assert_failed(invoke("image", str(tmp_path / "nothing.png")), "does not exist", status=2)
    named = str(tmp_path / "named.nothing")
    assert_failed(invoke("image", photo, "--picture", named), "use an ending such as .png", status=2)
    nowhere = str(tmp_path / "nowhere" / "named.png")
    assert_failed(process("image", photo, "--picture", nowhere), "No such file or directory")
    assert f"sepu image {photo}" in invoke("match", photo).stderr, "a hint"


def test_libtiff_prints_nothing(tmp_path: Path) -> None:
    file = tmp_path / "image.tif"
    Image.radial_gradient("L").save(file, compression="tiff_lzw")
    content = file.read_bytes()
    file.write_bytes(content[:500] + b"\xff" * 500 + content[1000:])
    assert_failed(process("image", str(file)), "cannot be decoded")  # libtiff would write to stderr itself


def test_pictures_of_any_shape(tmp_path: Path) -> None:
    high, wide = tmp_path / "high.png", tmp_path / "wide.png"
    Image.new("RGB", (1, 70_000), RED).save(high)
    Image.new("RGB", (70_000, 1), RED).save(wide)
    assert on_a_terminal("image", str(high)).count("▀") == 100
    assert on_a_terminal("image", str(wide), "--width", "70").count("▀") == 70
    named = str(tmp_path / "named.gif")
    assert_failed(invoke("image", str(wide), "--picture", named), "use an ending such as .png", status=2)


def test_an_encoding_without_chinese_is_named() -> None:
    assert process("account", "show", b"\xff").returncode == 1, "and an argument that is not UTF-8 is refused"
    done = process("list", PYTHONIOENCODING="ascii")
    assert_failed(done, "the output's encoding, ascii, has no Chinese", "set PYTHONIOENCODING=utf-8")


def test_a_palette_in_a_file_answers_with_its_names(photo: str, tmp_path: Path) -> None:
    own = tmp_path / "own.csv"
    own.write_text("name,hex\nbrick [/],#C83C23\nrose */,#F47983\nrose */,#000\n")
    palette = ("--palette", str(own))
    found = printed(invoke("match", "c83c22", "--top", "9", *palette, "--json"))
    assert list(found) == ["colors"], "the library's version and attribution are not theirs"
    assert (found["colors"][0]["name"], found["colors"][0]["hex"]) == ("brick [/]", "#C83C23")
    assert len(found["colors"]) == 3
    shares = printed(invoke("image", photo, *palette, "--json"))["colors"]
    assert [(each["name"], each["share"]) for each in shares] == [("brick [/]", 0.75), ("rose */", 0.25)]
    assert "#C83C23  brick [/]  \n" in invoke("match", "fff", *palette, COLUMNS="24").stdout, "no column is empty"
    assert "brick…" in invoke("match", "fff", *palette, COLUMNS="16").stdout
    sheet = invoke("list", *palette, "--format", "css").stdout
    assert re.findall(r"--([\w-]+): (#\w+); /\* (.+) \*/\n", sheet) == [
        ("brick", "#C83C23", "brick [/]"),
        ("rose", "#F47983", "rose * /"),
        ("rose-2", "#000000", "rose * /"),
    ]
    assert_failed(invoke("list", "rse", *palette), "no colour is named 'rse'", status=2)
    own.write_text("name,hex\nink,#000\nshade,#0008\n")
    done = invoke("list", *palette)
    assert done.returncode == 0
    assert re.search(r"#000000 +ink", done.stdout)
    assert done.stderr.count("\n") == 1
    assert "1 of 2 entries are not opaque colours and are skipped: line 3: '#0008' has an alpha channel" in done.stderr
    (tmp_path / "own.gpl").write_text("nonsense")
    assert_failed(
        invoke("list", "--palette", str(tmp_path / "own.gpl")), "line 1: this is not 'GIMP Palette'", status=2
    )


@pytest.mark.parametrize("file_format", ["gpl", "ase", "tokens", "css", "csv", "tsv", "json"])
def test_what_is_exported_can_be_read_again(file_format: str, tmp_path: Path) -> None:
    file = tmp_path / f"library.{'tokens.json' if file_format == 'tokens' else file_format}"
    file.write_bytes(exported(file_format))
    own = sepu.read_palette(file)
    assert [record.hex for record in own] == [record.hex for record in sepu.load()]
    if file_format in {"gpl", "ase"}:
        for record, ours in zip(own, sepu.load(), strict=True):
            assert record.name.startswith(f"{ours.name.zh} ")
            assert record.name.endswith(f" {ours.name.en}")
    again = invoke("list", "--palette", str(file), "--format", "jsonl").stdout
    assert again.count("\n") == 161


NAMES = strategies.text("aAÉ红 2-_./*#{}$@!<&\"';:=+\\\\", min_size=1, max_size=12) | strategies.text(max_size=12)
COLORS = strategies.lists(strategies.tuples(NAMES, strategies.integers(0, 2**24 - 1)), min_size=1, max_size=12)
HOSTILE = [("ink", 1), ("Ink", 2), ("ink 2", 3), ("ink", 4), ("!", 5), ("?", 5), ("#{1+1}", 6), ("*/ #{2}", 7)]
HOSTILE += [("a_b", 8), ("a-b", 9)]


def in_style_sheet(content: str, wrapper: str | None = None) -> list[tuple[str, str]]:
    """The declarations as another CSS parser finds them: each name and value."""
    (rule,) = tinycss2.parse_stylesheet(content, skip_comments=True, skip_whitespace=True)
    assert rule.type == ("qualified-rule" if wrapper is None else "at-rule")
    found = tinycss2.parse_blocks_contents(rule.content, skip_comments=True, skip_whitespace=True)
    assert {each.type for each in found} <= {"declaration"}
    return [(each.name, tinycss2.serialize(each.value).strip()) for each in found]


def in_gimp_palette(content: bytes) -> list[str]:
    palette, _ = GimpPaletteFile.GimpPaletteFile(io.BytesIO(content)).getpalette()
    lines = re.findall(rb"(?m)^ *\d+ +\d+ +\d+\t", content)
    return [f"#{bytes(palette[3 * place : 3 * place + 3]).hex().upper()}" for place in range(len(lines))]


@settings(max_examples=30, deadline=None)
@given(COLORS)
@example(HOSTILE)
def test_other_readers_find_each_colour_that_was_written(given: list[tuple[str, int]]) -> None:
    with tempfile.TemporaryDirectory() as directory:
        file = Path(directory, "own.json")
        rows = [{"name": name, "hex": f"#{value:06X}"} for name, value in given]
        file.write_text(json.dumps(rows))
        source = sepu.read_palette(file)
        every = [record.hex for record in source]
        once = [hex_value for _, hex_value in dict.fromkeys((record.name, record.hex) for record in source)]
        written = {
            name: invoke("list", "--palette", str(file), "--format", name).stdout for name in WRITERS if name != "ase"
        }
    assert [each["hex"] for each in json.loads(written["json"])["colors"]] == every
    assert [json.loads(line)["hex"] for line in written["jsonl"].splitlines()] == every
    for name, delimiter in (("csv", ","), ("tsv", "\t")):
        assert [row["hex"] for row in csv.DictReader(io.StringIO(written[name]), delimiter=delimiter)] == every
    for name, wrapper, prefix in (("css", None, "--"), ("tailwind", "theme", "--color-")):
        declared = in_style_sheet(written[name], wrapper)
        assert [value for _, value in declared] == once
        assert len({variable.replace("_", "-") for variable, _ in declared}) == len(once), "Sass takes _ for -"
        assert all(variable.startswith(prefix) for variable, _ in declared)
    tokens = [pair for pair in json.loads(written["tokens"]).items() if not pair[0].startswith("$")]
    assert [token["$value"]["hex"].upper() for _, token in tokens] == once
    drawing = ElementTree.fromstring(written["svg"])
    swatches = drawing.findall(".//{*}rect")
    assert [each.get("fill") for each in swatches] == once
    bottom = sum(int(swatches[-1].attrib[name]) for name in ("y", "height"))
    assert drawing.attrib["viewBox"].endswith(f" {bottom}"), "it shows all of them"
    assert in_gimp_palette(written["gpl"].encode()) == once


def test_sass_finds_each_colour_and_runs_no_name(tmp_path: Path) -> None:
    names = (*HOSTILE, ("#{error('run')}", 10), ("##{3}", 11))
    (tmp_path / "own.json").write_text(json.dumps([{"name": name, "hex": f"#{value:06X}"} for name, value in names]))
    sheet = invoke("list", "--palette", str(tmp_path / "own.json"), "--format", "scss").stdout
    (tmp_path / "own.scss").write_text(sheet)
    (tmp_path / "all.scss").write_text(
        "@use 'sass:meta';\n@use 'own';\n"
        "@each $name, $value in meta.module-variables('own') { x { found: $name $value } }\n"
    )
    done = completed([node_program("sass"), "--no-source-map", str(tmp_path / "all.scss")])
    assert (done.returncode, done.stderr) == (0, "")
    assert [int(value, 16) for value in re.findall(r'found: "\S+" #(\w+);', done.stdout)] == [
        value for _, value in names
    ]
    assert re.findall(r"/\* (.*) \*/", done.stdout) == re.findall(r"/\* (.*) \*/", sheet)


CONTROL = "\x1b]0;owned\x07\x9b2J"
HOSTILE_FILES = {
    "names.json": json.dumps({f"a{CONTROL}": {f"b{CONTROL}": {"$value": "#010203"}}}),
    "path.json": json.dumps({f"a{CONTROL}": {"$value": "nonsense"}}),
    "value.json": json.dumps({"a": {"$value": f"rgb(1 2 3 /*{CONTROL}*/"}}),
    "alias.json": json.dumps({"a": {"$value": f"{{nowhere{CONTROL}}}"}}),
    "space.json": json.dumps({"a": {"$value": {"colorSpace": CONTROL, "components": [1, 2, 3]}}}),
    "twice.json": f'{{"a{CONTROL}":1,"a{CONTROL}":2}}',
    "comment.css": f"/*{CONTROL}*/ :root {{ --a: rgb(1 2 3/*{CONTROL}*/); --b{CONTROL}: #fff }}",
    "line.gpl": f"GIMP Palette\n1 2 3 a{CONTROL}\n{CONTROL}",
    "name.gpl": f"GIMP Palette\n1 2 3 a{CONTROL}\n",
    "cell.csv": f"name,hex\na{CONTROL},{CONTROL}\n",
    "name.tsv": f"name\thex\na{CONTROL}\t#010203\n",
}


@pytest.mark.parametrize("name", HOSTILE_FILES)
def test_no_text_of_a_palette_reaches_a_terminal_raw(name: str, photo: str, tmp_path: Path) -> None:
    file = tmp_path / f"{CONTROL.replace('/', '')}{name}"
    file.write_text(HOSTILE_FILES[name])
    matching = ["match", f"rgb(1.5 2 3/*{CONTROL}*/)"]
    for words in (["list"], ["list", f"a{CONTROL}"], [*matching, f"x{CONTROL}"], matching, ["image", photo]):
        for form in ([], *(["--format", each] for each in WRITERS if each != "ase")):
            done = invoke(*words, "--palette", str(file), *form, COLUMNS="80")
            shown = done.stdout + done.stderr
            assert shown
            assert not {char for char in shown if unicodedata.category(char) == "Cc"} - {"\n", "\t"}, (words, form)


def test_no_name_of_a_file_becomes_a_formula(tmp_path: Path) -> None:
    (tmp_path / "own.gpl").write_text("GIMP Palette\n1 2 3\t=1+1\n")
    own = ("--palette", str(tmp_path / "own.gpl"))
    for file_format, delimiter in (("csv", ","), ("tsv", "\t")):
        written = text(invoke("list", *own, "--format", file_format))
        assert [row["name"] for row in csv.DictReader(written.splitlines(), delimiter=delimiter)] == ["'=1+1"]
    added = rows(invoke("match", "-", "--column", "hex", *own, given='hex\n""\n#010203\n'))
    assert [row["name"] for row in added] == ["", "'=1+1"]
