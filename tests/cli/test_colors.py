"""Colours on the command line: what is read, what is shown, and files for other programs."""

import io
import os
import pty
import re
import struct
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from PIL import GimpPaletteFile, Image
from rich.cells import cell_len
from tests.cli.running import Done, failed, invoke, printed, process, text
from tests.serving import SEPU

import sepu

RED, PINK = (200, 60, 35), (244, 121, 131)
ATTRIBUTION = sepu.load().attribution


@pytest.fixture
def photo(tmp_path: Path) -> str:
    image = Image.new("RGB", (40, 30), RED)
    image.paste(PINK, (30, 0, 40, 30))
    image.save(tmp_path / "photo.png")
    return str(tmp_path / "photo.png")


def inputs(done: Done) -> list[str]:
    return [result["input"] for result in printed(done)["results"]]


def on_a_terminal(*arguments: str, status: int = 0, **environment: str) -> str:
    """What the command prints on a terminal with colours."""
    ours, theirs = pty.openpty()
    environment = {**os.environ, "TERM": "xterm-256color", "COLORTERM": "truecolor", "COLUMNS": "80", **environment}
    with subprocess.Popen([SEPU, *arguments], env=environment, stdout=theirs, stderr=theirs) as process:
        os.close(theirs)
        shown = b"".join(iter(lambda: read(ours), b""))
    os.close(ours)
    assert process.returncode == status
    return shown.decode()


def read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 65536)
    except OSError:  # the other end is closed
        return b""


def test_what_match_reads() -> None:
    colors = ("#C83C23", "c83c23", "#fff", *("200", "60", "35"), "rgb(1, 2, 3)", "1,2,3", *("1,", "2,", "3"))
    white, dark, tomato, red = "#FFFFFF", "#010203", "#FF6347", "#C83C23"
    found = inputs(invoke("match", *colors, "tomato", "绯红", "--json"))
    assert found == [red, red, white, red, dark, dark, dark, tomato, red]
    assert inputs(invoke("match", "12.5 0 255", "--json")) == ["rgb(12.5, 0, 255)"]
    outside = invoke("match", "color(srgb 1.25 -0.5 0)", "oklch(0.7 0.35 145)")
    assert text(outside).count("(outside sRGB)") == 2
    assert inputs(invoke("match", "color(srgb 1.25 -.5 0)", "--json")) == ["color(srgb 1.25 -0.5 0)"]
    given = "#C83C23\n\n  tomato \n1 2 3\n"
    assert inputs(invoke("match", "fff", "-", "--json", given=given)) == [white, red, tomato, dark]


@pytest.mark.parametrize(
    ("colors", "reason"),
    [
        ((), "in a shell write '#C83C23' in quotes, because # begins a comment"),
        (("200",), "write '#200' for HEX, or three numbers such as '200 60 35'"),
        (("1", "2"), "'1 2' is no colour"),
        (("green",), "#00E500 of 绿色 (lv-se), or #008000 of CSS"),
        (("-",), "line 3: 'nonsense' is no colour"),
    ],
)
def test_what_match_refuses(colors: tuple[str, ...], reason: str) -> None:
    failed(invoke("match", *colors, given="fff\n\nnonsense\n"), reason, status=2)


@pytest.mark.parametrize("columns", [60, 80])
def test_every_colour_fits(columns: int) -> None:
    shown = text(invoke("match", *(record.hex for record in sepu.load()), COLUMNS=str(columns)))
    assert max(map(cell_len, shown.splitlines())) <= columns
    for record in sepu.load():
        assert re.search(rf"^ {record.hex} +ΔE 0\.0000 ", shown, re.MULTILINE)
    assert "…" not in shown
    assert len(re.findall(r" (?:verified|attributed|disputed) ", shown)) == 3 * 161


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
    assert "\n hex " in shown, "without colour there is no column for it"
    assert all(f"{record.hex}  {record.name.zh}" in shown for record in sepu.load())
    listed = printed(invoke("list", "fei-hong", "桃红", "--json"))
    assert [each["slug"] for each in listed["colors"]] == ["fei-hong", "tao-hong"]
    assert listed["attribution"] == list(ATTRIBUTION)
    assert len(printed(invoke("list", "--format", "json"))["colors"]) == 161
    failed(invoke("list", "feihong"), "perhaps one of fei-hong (绯红); sepu list shows all", status=2)


def exported(file_format: str, *arguments: str) -> bytes:
    arguments = ("list", *arguments, "--format", file_format)
    return subprocess.run([SEPU, *arguments], capture_output=True, check=True).stdout


@pytest.mark.parametrize(
    ("file_format", "selector", "prefix"), [("css", ":root", "--"), ("tailwind", "@theme", "--color-")]
)
def test_style_sheets(file_format: str, selector: str, prefix: str) -> None:
    comment, sheet = text(invoke("list", "--format", file_format)).split("*/\n", 1)
    assert all(line in comment for line in ATTRIBUTION)
    assert sheet.startswith(f"{selector} {{\n")
    assert re.findall(rf"^  {prefix}([a-z-]+): (#[0-9A-F]{{6}}); /\* (\S+) .* \*/$", sheet, re.MULTILINE) == [
        (record.slug, record.hex, record.name.zh) for record in sepu.load()
    ]


def test_a_palette_that_gimp_reads() -> None:
    content = exported("gimp", "fei-hong", "tao-hong")
    palette, mode = GimpPaletteFile.GimpPaletteFile(io.BytesIO(content)).getpalette()
    assert (mode, bytes(palette)[:6]) == ("RGB", bytes((*RED, *PINK)))
    assert all(f"# {line}\n" in content.decode() for line in ATTRIBUTION)
    assert "绯红 Scarlet Silk" in content.decode()


def blocks(content: bytes) -> Iterator[tuple[int, bytes]]:
    assert content[:8] == b"ASEF\0\1\0\0"
    at = 12
    for _ in range(int.from_bytes(content[8:12])):
        kind, length = struct.unpack_from(">HI", content, at)
        yield kind, content[at + 6 : at + 6 + length]
        at += 6 + length
    assert at == len(content)


def test_swatches_that_adobes_programs_read() -> None:
    begin, *colors, end = blocks(exported("ase"))
    assert (begin[0], {kind for kind, _ in colors}, end) == (0xC001, {0x0001}, (0xC002, b""))

    def named(block: bytes) -> tuple[str, bytes]:
        length = 2 + 2 * int.from_bytes(block[:2])
        name = block[2:length].decode("utf-16-be")
        assert name[-1] == "\0"
        return name[:-1], block[length:]

    assert all(line in named(begin[1])[0] for line in ATTRIBUTION)
    for (_, block), record in zip(colors, sepu.load(), strict=True):
        name, value = named(block)
        model, *channels, kind = struct.unpack(">4s3fH", value)
        assert (name, model, kind) == (f"{record.name.zh} {record.name.en}", b"RGB ", 0)
        assert tuple(round(channel * 255) for channel in channels) == record.rgb


def test_swatches_are_not_written_on_a_terminal() -> None:
    assert "> colours.ase" in on_a_terminal("list", "--format", "ase", status=2)


def test_the_colours_of_an_image(photo: str, tmp_path: Path) -> None:
    picture = str(tmp_path / "named.png")
    found = printed(invoke("image", photo, "--json", "--picture", picture))["colors"]
    assert [(each["slug"], each["share"]) for each in found] == [("fei-hong", 0.75), ("tao-hong", 0.25)]
    with Image.open(picture) as named:
        assert sorted(named.getcolors() or []) == [(300, PINK), (900, RED)]
    shown = invoke("image", photo, "--top", "1")
    assert "#C83C23  75.0%  绯红" in shown.stdout
    assert "桃红" not in shown.stdout
    assert "▀" not in shown.stdout
    assert invoke("image", photo, "--format", "css").stdout.count(": #") == 2
    half = "\x1b[38;2;200;60;35;48;2;200;60;35m▀"
    assert half in on_a_terminal("image", photo)


def test_files_that_are_no_image(photo: str, tmp_path: Path) -> None:
    (tmp_path / "text.png").write_text("text")
    failed(invoke("image", str(tmp_path / "text.png")), "is not an image that can be read")
    Image.new("RGB", (8, 8)).save(tmp_path / "postscript.jpg", "EPS")
    failed(invoke("image", str(tmp_path / "postscript.jpg")), "not one of PNG, JPEG")
    os.mkfifo(tmp_path / "pipe.png")
    failed(invoke("image", str(tmp_path / "pipe.png")), "is not a file")
    failed(invoke("image", str(tmp_path / "nothing.png")), "does not exist", status=2)
    named = str(tmp_path / "named.nothing")
    failed(invoke("image", photo, "--picture", named), "use an ending such as .png", status=2)
    nowhere = str(tmp_path / "nowhere" / "named.png")
    failed(process("image", photo, "--picture", nowhere), "No such file or directory")
    assert f"sepu image {photo}" in invoke("match", photo).stderr, "a hint"


def test_libtiff_prints_nothing(tmp_path: Path) -> None:
    file = tmp_path / "image.tif"
    Image.radial_gradient("L").save(file, compression="tiff_lzw")
    content = file.read_bytes()
    file.write_bytes(content[:500] + b"\xff" * 500 + content[1000:])
    failed(process("image", str(file)), "cannot be decoded")  # it would print past Python


def test_pictures_of_any_shape(tmp_path: Path) -> None:
    high, wide = tmp_path / "high.png", tmp_path / "wide.png"
    Image.new("RGB", (1, 70_000), RED).save(high)
    Image.new("RGB", (70_000, 1), RED).save(wide)
    assert on_a_terminal("image", str(high)).count("▀") == 100
    assert on_a_terminal("image", str(wide)).count("▀") == 60
    named = str(tmp_path / "named.gif")
    failed(invoke("image", str(wide), "--picture", named), "use an ending such as .png", status=2)


def test_an_encoding_without_chinese_is_named() -> None:
    for arguments in (["list"], ["search", "hong"]):
        done = process(*arguments, PYTHONIOENCODING="ascii")
        failed(done, "the output's encoding, ascii, has no Chinese", "set PYTHONIOENCODING=utf-8")


def test_an_argument_that_is_not_utf_8_is_named() -> None:
    assert printed(process("search", b"\xff\xfe", "--json"))["count"] == 0
    assert process("account", "show", b"\xff").returncode == 1
