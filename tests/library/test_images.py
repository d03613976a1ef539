"""Naming the colours of images: arrays, and Pillow's files and images where it is installed."""

import os
import re
import struct
import warnings
import zlib
from collections import Counter
from io import BytesIO, StringIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image, ImageCms

import sepu
from sepu import limits
from sepu.library.images import read_image

RED, PINK = (200, 60, 35), (244, 121, 131)
IMAGE = np.zeros((30, 40, 3), np.uint8)
IMAGE[:, :30] = RED
IMAGE[:10, 30:] = PINK
SHARES = [("fei-hong", 0.75), ("hei-se", 1 / 6), ("tao-hong", 1 / 12)]


def shares(image: Any, **settings: Any) -> list[tuple[str, float]]:
    return [(each.slug, each.share) for each in sepu.name_image(image, **settings)]


@pytest.mark.parametrize("kind", [np.uint8, np.uint16, np.int64, np.float32, np.float64])
def test_each_pixel_counts_for_its_nearest_colour(kind: Any) -> None:
    assert shares(IMAGE.astype(kind), scale=255) == SHARES
    assert shares(IMAGE.astype(kind), top=1, scale=255) == SHARES[:1]
    assert shares(IMAGE.astype(kind)[::-1, ::-1], scale=255) == SHARES
    if kind in {np.uint8, np.int64}:
        assert shares(IMAGE.astype(kind)) == SHARES


def test_shares_are_those_of_a_full_scan() -> None:
    image = np.random.default_rng(19).integers(0, 256, (40, 50, 3), dtype=np.uint8)
    nearest = sepu.load().palette().delta_e(image.reshape(-1, 3)).argmin(axis=1)
    counts = {sepu.load()[place].slug: count / 2000 for place, count in enumerate(np.bincount(nearest)) if count}
    named = shares(image)
    assert dict(named) == counts
    assert [share for _, share in named] == sorted(counts.values(), reverse=True)


@pytest.mark.parametrize("at_once", [7, 2**20])
def test_a_pixel_counts_as_much_as_it_is_opaque(at_once: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sepu.library.images._PIXELS_AT_ONCE", at_once)
    alpha = np.full((30, 40, 1), 255, np.uint8)
    alpha[10:, 30:] = 0
    alpha[:, :30] = 51
    image = np.concatenate([IMAGE, alpha], axis=2)
    for named in (shares(image), shares(image / 255, scale=1)):
        assert [slug for slug, _ in named] == ["fei-hong", "tao-hong"]
        assert [share for _, share in named] == pytest.approx([180 / 280, 100 / 280])


@pytest.mark.parametrize(
    ("image", "reason"),
    [
        (IMAGE[:, :, 0], "if it is grey: numpy.stack"),
        (IMAGE[:, :4, 0], r"not \(30, 4\); if it is grey: numpy.stack"),
        (IMAGE[:, :3, 0], r"if it is a list of pixels: image\[None\]"),
        (IMAGE[:, :, :1], "if it is grey: numpy.repeat"),
        (np.moveaxis(IMAGE, -1, 0), "if its channels come first: numpy.moveaxis"),
        (np.ma.masked_equal(IMAGE, IMAGE[0, 0, 0]), "image has masked values"),
        (BytesIO(), "the image is not an image that can be read"),
        (StringIO("P3"), "in binary mode"),
        (IMAGE[0, 0], r"not \(3,\)"),
        (IMAGE[:0], "no visible pixel"),
        (np.zeros((2, 2, 4), np.uint8), "no visible pixel"),
        (IMAGE.astype(np.uint16), "is of type uint16: .*; divide 16 bits by 257 first"),
        (IMAGE.astype(np.int64) * 257, r"^image\[0, 0, 0\] is 51400, .*; divide 16 bits by 257"),
        (IMAGE.astype(np.int64) - 1, "0 to 255"),
        (np.full((2, 2, 4), 300), "0 to 255"),
        (IMAGE.astype(str), "has real numbers"),
        (IMAGE.astype(bool), "has real numbers"),
    ],
)
def test_what_is_no_image_is_told(image: Any, reason: str) -> None:
    with pytest.raises(sepu.ImageError, match=reason):
        sepu.name_image(image)


def test_settings_out_of_range_are_told() -> None:
    with pytest.raises(sepu.ImageError, match="scale must be 1 or 255, not 2"):
        sepu.name_image(IMAGE, scale=2)
    with pytest.raises(ValueError, match="top must be at least 1, not 0"):
        sepu.name_image(IMAGE, top=0)


def test_files_and_images_of_pillow(tmp_path: Path) -> None:
    image = Image.fromarray(IMAGE)
    file = tmp_path / "image.png"
    for written in (image, image.convert("RGBA"), image.quantize(3)):
        written.save(file)
        assert shares(file) == shares(str(file)) == shares(file.read_bytes()) == shares(written) == SHARES
    assert shares(Image.new("L", (5, 5), 255)) == [("jing-bai", 1.0)]
    for mode in ("I", "F"):
        with pytest.raises(sepu.ImageError, match="save it with 8 bits"):
            sepu.name_image(Image.new(mode, (5, 5)))
    Image.effect_noise((99, 99), 99).convert("RGB").save(file)
    content = file.read_bytes()
    file.write_bytes(content[: len(content) // 2])
    with pytest.raises(sepu.ImageError, match="cannot be decoded"):
        sepu.name_image(file)
    file.write_bytes(b"no image")
    with pytest.raises(sepu.ImageError, match="is not an image that can be read"):
        sepu.name_image(file)


def test_what_is_not_a_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.png")
    (tmp_path / "empty.png").touch()
    for name, reason in (
        ("nothing.png", "No such file"),
        ("", "Is a directory"),
        ("pipe.png", "is not a file"),
        ("/dev/zero", "is not a file"),
        ("empty.png", "is not an image"),
        ("\0.png", "null"),
        ("\ud800\x1b[31m.png", "surrogates not allowed"),
    ):
        with pytest.raises(sepu.ImageError, match=reason) as caught:
            sepu.name_image(tmp_path / name)
        assert str(caught.value).isprintable()


@pytest.mark.parametrize("name", ["EPS", "PPM", "PCX", "SGI", "ICO", "DDS", "JPEG2000"])
def test_only_the_decoders_of_the_formats_that_are_meant_see_a_file(name: str, tmp_path: Path) -> None:
    """Whatever the file's name: Pillow passes PostScript to Ghostscript, which executes it."""
    file = tmp_path / "photo.jpg"
    Image.fromarray(IMAGE).save(file, name)
    with pytest.raises(sepu.ImageError, match="not one of PNG, JPEG, GIF, BMP, TIFF, WEBP, AVIF"):
        sepu.name_image(file)
    with Image.open(file) as opened, pytest.raises(sepu.ImageError, match=f"format {name}, .* pass image.convert"):
        sepu.name_image(opened)


@pytest.mark.parametrize("name", ["PNG", "JPEG", "MPO", "GIF", "BMP", "TIFF", "WEBP", "AVIF"])
def test_the_formats_that_are_meant_are_read_by_any_name(name: str, tmp_path: Path) -> None:
    red, frames = Image.new("RGB", (16, 8), RED), [Image.new("RGB", (16, 8), PINK)]
    for ending in (name.lower(), "eps"):
        several = {"save_all": True, "append_images": frames} if name not in {"JPEG", "BMP"} else {}
        red.save(tmp_path / f"photo.{ending}", name, **several)
        assert shares(tmp_path / f"photo.{ending}") == [("fei-hong", 1.0)]


def png(width: int, height: int) -> bytes:
    """The header of a PNG."""
    header = b"IHDR" + struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n\0\0\0\r" + header + struct.pack(">I", zlib.crc32(header))


@pytest.mark.parametrize("size", [(limits.images.PIXELS + 1, 1), (8193, 8192), (2**31 - 1, 2**31 - 1)])
def test_the_size_is_read_before_anything_is_decoded(size: tuple[int, int], tmp_path: Path) -> None:
    file = tmp_path / "image.png"
    file.write_bytes(png(*size) + b"\0\0\0\0IDAT" + struct.pack(">I", zlib.crc32(b"IDAT")))
    with pytest.raises(sepu.ImageError, match="more than 67,108,864 pixels; make it smaller"):
        sepu.name_image(file)


def test_what_would_take_hours_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = BytesIO()
    Image.fromarray(IMAGE).save(made, "JPEG", progressive=True)
    content = made.getvalue()
    scan, file = content[content.rindex(b"\xff\xda") : -2], tmp_path / "image.jpg"
    file.write_bytes(content + scan * 200)  # scans after the image's end are ignored
    assert shares(file)
    file.write_bytes(content[:-2] + scan * 80 + content[-2:])
    assert shares(file)
    file.write_bytes(content[:-2] + scan * 100 + content[-2:])
    with pytest.raises(sepu.ImageError, match="more than 100 scans"):
        sepu.name_image(file)
    file.write_bytes(content[:2] + b"\xff\xe1\0\x09Exif\0\0x" * 4000 + content[2:])  # each is added to all before it
    with pytest.raises(sepu.ImageError, match="header of too many parts"):
        sepu.name_image(file)
    monkeypatch.setattr(limits.images, "BYTES", len(content) - 1)
    file.write_bytes(content)
    with pytest.raises(sepu.ImageError, match=f"more than {len(content) - 1:,} bytes"):
        sepu.name_image(file)


@pytest.mark.parametrize("big", [False, True])
@pytest.mark.parametrize("order", ["<", ">"])
def test_a_picture_of_many_strips_is_refused(order: str, big: bool, tmp_path: Path) -> None:
    """With a row in each. Pillow would take 700 MB for a million strips, a file of 4 MB."""
    rows, file = limits.images.TIFF_NUMBERS + 1, tmp_path / "image.tif"
    tags = [(256, 1), (257, rows), (258, 8), (259, 1), (262, 1), (277, 1), (278, 1)]
    start, word = (16, "Q") if big else (8, "I")
    data = start + (8 + 20 * 8 + 8 if big else 2 + 12 * 8 + 4)
    head = ({"<": b"II", ">": b"MM"}[order], 43 if big else 42)
    content = struct.pack(f"{order}2sHHHQ", *head, 8, 0, 16) if big else struct.pack(f"{order}2sHI", *head, 8)
    content += struct.pack(order + ("Q" if big else "H"), 8)
    for number, kind, count, value in [
        *((tag, 4, 1, value) for tag, value in tags[:5]),
        (273, 4, rows, data),
        *((tag, 4, 1, value) for tag, value in tags[5:]),
    ]:
        content += struct.pack(f"{order}HH{word}{word}", number, kind, count, value)
    file.write_bytes(content + bytes(8 if big else 4) + struct.pack(f"{order}I", data) * rows)
    with pytest.raises(sepu.ImageError, match="a tag of more than 262,144 numbers"):
        sepu.name_image(file)


def test_pillow_warns_nobody(tmp_path: Path) -> None:
    file = tmp_path / "image.jpg"
    Image.fromarray(IMAGE).save(file, "MPO", save_all=True, append_images=[Image.fromarray(IMAGE)])
    content = file.read_bytes()
    file.write_bytes(content.replace(b"MPF\0II*", b"MPF\0II+", 1))
    with warnings.catch_warnings(record=True) as shown:
        warnings.simplefilter("always")
        with Image.open(file):
            before = len(shown)
        assert shares(file)
    assert len(shown) == before > 0


# A colour space, and the tag that leads from it to XYZ (ICC.1:2001-04, 6.3.1.2 and 6.5.7): grey in linear light, where
# sRGB's 188 is 128; and inks that are white, however much of each.
LINEAR_GREY = b"GRAY", b"kTRC", b"curv" + struct.pack(">4xIH2x", 1, 0x100)
WHITE = *(0, 0xFFFF) * 4, *(0x7B6B, 0x8000, 0x6996) * 16, *(0, 0xFFFF) * 3
WHITE_INKS = b"CMYK", b"A2B0", b"mft2" + struct.pack(">4x3B37x64H", 4, 3, 2, 2, 2, *WHITE)


def icc_profile(space: bytes, tag: bytes, values: bytes) -> bytes:
    """An ICC profile (ICC.1:2001-04, 6.1)."""
    tags = {b"wtpt": b"XYZ " + struct.pack(">4x3I", 0xF6D6, 0x10000, 0xD32D), tag: values}
    table, data = struct.pack(">I", len(tags)), b""
    for name, content in tags.items():
        table += name + struct.pack(">II", 128 + 4 + 12 * len(tags) + len(data), len(content))
        data += content
    head = struct.pack(">4xI4s4s4s12x4s28x3I48x", 0x02400000, b"mntr", space, b"XYZ ", b"acsp", 0xF6D6, 0x10000, 0xD32D)
    return struct.pack(">I", 4 + len(head + table + data)) + head + table + data


@pytest.mark.parametrize("mode", ["RGB", "RGBA", "P", "L", "LA", "1"])
def test_a_colour_profile_counts(mode: str, tmp_path: Path) -> None:
    """With the red and blue primaries exchanged, the file's red is the screen's blue."""
    profile = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
    exchanged = profile.replace(b"rXYZ", b"?XYZ").replace(b"bXYZ", b"rXYZ").replace(b"?XYZ", b"bXYZ")
    assert exchanged != profile
    file = tmp_path / "image.png"
    image = Image.new("RGB", (5, 5), (250, 20, 10))
    image = image.quantize(2) if mode == "P" else image.convert(mode)
    plain = Image.merge("RGB", image.convert("RGB").split()[::-1])
    if mode == "RGBA":
        image.putpixel((0, 0), (0, 255, 0, 0))
    image.save(file, icc_profile=exchanged)
    assert shares(file) == shares(plain)


@pytest.mark.parametrize("mode", ["L", "LA"])
def test_a_grey_profile_counts(mode: str) -> None:
    profile = {"icc_profile": icc_profile(*LINEAR_GREY) + bytes(300_000)}  # more bytes than a TIFF may have numbers
    image = Image.new("L", (5, 5), 128).convert(mode)
    if mode == "LA":
        image.putpixel((0, 0), (255, 0))
    for kind in ("PNG", "TIFF"):
        assert shares(saved(image, kind, **profile)) == shares(Image.new("L", (5, 5), 188)) != shares(image)
    with pytest.raises(sepu.ImageError, match="a colour profile that cannot be used"):
        sepu.name_image(saved(image.convert("RGB"), "PNG", **profile))


def test_ink_has_the_colours_of_its_profile(tmp_path: Path) -> None:
    file = tmp_path / "image.jpg"
    image = Image.new("CMYK", (5, 5), (0, 200, 200, 20))
    assert shares(saved(image, "JPEG", icc_profile=icc_profile(*WHITE_INKS))) == shares(Image.new("L", (5, 5), 255))
    image.save(file)
    with pytest.raises(sepu.ImageError, match="is CMYK without a colour profile"):
        sepu.name_image(file)


def with_chunk(content: bytes, kind: bytes, data: bytes) -> bytes:
    """A PNG with an additional chunk after its header."""
    chunk = struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    return content[:33] + chunk + content[33:]


def saved(image: Image.Image, kind: str, **settings: Any) -> bytes:
    made = BytesIO()
    image.save(made, kind, **settings)
    return made.getvalue()


ADOBE_PRIMARIES = (0.64, 0.33, 0.21, 0.71, 0.15, 0.06)


def test_a_colour_tag_that_is_not_srgb_is_refused() -> None:
    red = Image.new("RGB", (8, 8), RED)
    png, avif, srgb = saved(red, "PNG"), saved(red, "AVIF"), ImageCms.createProfile("sRGB")
    profile = ImageCms.ImageCmsProfile(srgb).tobytes()
    chromaticities = (31270, 32900, 64000, 33000, 30000, 60000, 15000, 6000)
    adobe = struct.pack(">8I", *chromaticities[:4], 21000, 71000, *chromaticities[6:])
    nclx = avif.index(b"colrnclx") + 8
    ends = [
        b"Exif\0\0" + mark + struct.pack(f"{order}HIHHHI4sI", 42, 8, 1, 1, 2, 4, b"R03", 0)
        for mark, order in ((b"II", "<"), (b"MM", ">"))
    ]
    with_profile = saved(red, "PNG", icc_profile=profile)
    for content, reason in (
        (
            with_chunk(png, b"cICP", bytes((9, 16, 0, 1))),
            "its cICP tag has the primaries BT.2020 and the transfer function PQ",
        ),
        (with_chunk(with_profile, b"cICP", bytes((12, 13, 0, 1))), "the primaries Display P3"),
        (avif[:nclx] + bytes((0, 9, 0, 16)) + avif[nclx + 4 :], "its nclx tag has the primaries BT.2020 and"),
        (avif[:nclx] + bytes((0, 1, 0, 8)) + avif[nclx + 4 :], "the transfer function linear"),
        (with_chunk(png, b"gAMA", struct.pack(">I", 100_000)), "its gAMA tag has a gamma of 1; convert it to sRGB, or"),
        (with_chunk(png, b"gAMA", struct.pack(">I", 55_556)), "a gamma of 1.8"),
        (with_chunk(png, b"gAMA", bytes(4)), "its gAMA tag"),
        (with_chunk(png, b"cHRM", adobe), "its cHRM tag has other primaries"),
        *(
            (content, "its EXIF data say Adobe RGB")
            for exif in ends
            for content in (*(saved(red, kind, exif=exif) for kind in ("JPEG", "PNG")), saved(red, "TIFF") + exif)
        ),
        *(
            (saved(red, "TIFF", tiffinfo=tags), "its WhitePoint or PrimaryChromaticities tag has other primaries")
            for tags in ({319: ADOBE_PRIMARIES}, {318: (0.3457, 0.3585)}, {319: ADOBE_PRIMARIES[:2]})
        ),
        (saved(Image.new("LAB", (3, 3)), "TIFF"), "has L*a*b* values, not RGB; convert it to sRGB and save it as PNG"),
    ):
        with pytest.raises(sepu.ImageError, match=re.escape(reason)):
            sepu.name_image(content)
    for content in (
        with_chunk(png, b"cICP", bytes((1, 13, 0, 1))),
        with_chunk(png, b"gAMA", struct.pack(">I", 45_455)),
        with_chunk(with_chunk(png, b"gAMA", struct.pack(">I", 100_000)), b"sRGB", b"\0"),
        with_chunk(with_profile, b"gAMA", struct.pack(">I", 100_000)),
        with_chunk(png, b"cHRM", struct.pack(">8I", *chromaticities)),
        with_chunk(saved(red.convert("L"), "PNG"), b"cHRM", adobe),
        saved(red, "TIFF", tiffinfo={318: (0.3127, 0.329), 319: (0.64, 0.33, 0.3, 0.6, 0.15, 0.06)}),
        saved(red.convert("L"), "TIFF", tiffinfo={319: ADOBE_PRIMARIES}),
        saved(red, "TIFF", tiffinfo={319: ADOBE_PRIMARIES}, icc_profile=profile),
        avif,
        saved(red, "JPEG", exif=ends[1], icc_profile=profile),
    ):
        assert sepu.name_image(content)


@pytest.mark.parametrize("kind", ["PNG", "TIFF"])
def test_grey_of_16_bits_is_read_as_rgb_of_16_bits_is(kind: str) -> None:
    grey = Image.fromarray(np.array([[0, 255, 256, 0x80FF, 0xFFFF]], np.uint16))
    expected = shares(np.array([[[v] * 3 for v in (0, 0, 1, 128, 255)]], np.uint8))
    assert shares(saved(grey, kind)) == shares(grey) == expected
    if kind == "PNG":
        profile = {"icc_profile": icc_profile(*LINEAR_GREY)}
        assert shares(saved(Image.new("I;16", (5, 5), 0x80FF), kind, **profile)) == shares(Image.new("L", (5, 5), 188))
        transparent = with_chunk(saved(grey, kind), b"tRNS", struct.pack(">H", 0xFFFF))
        assert shares(transparent) == shares(np.array([[[v] * 3 for v in (0, 0, 1, 128)]], np.uint8))
    else:
        content = saved(grey, kind)
        for tag, value, other in ((262, 1, 0), (258, 16, 12)):  # white at 0, and 12 bits
            changed = content.replace(struct.pack("<HHII", tag, 3, 1, value), struct.pack("<HHII", tag, 3, 1, other))
            assert changed != content
            with pytest.raises(sepu.ImageError, match="save it with 8 bits"):
                sepu.name_image(changed)


def test_a_photo_taken_upright_is_upright() -> None:
    exif = Image.Exif()
    exif[0x0112] = 6  # the camera was turned: its first row is at the right
    lying = Image.fromarray(IMAGE).transpose(Image.Transpose.ROTATE_90)
    np.testing.assert_array_equal(read_image(saved(lying, "PNG", exif=exif))[0], IMAGE)


def test_a_colour_counts_for_a_more_frequent_one_that_is_near() -> None:
    red, near, black = (sepu.load()[slug].rgb for slug in ("fei-hong", "tuo-hong", "hei-se"))  # 3.8 between the reds
    image = np.array([[red] * 5 + [near] * 2 + [black] * 3], np.uint8)

    def shares(within: float) -> list[tuple[str, float]]:
        return [(share.slug, share.share) for share in sepu.name_image(image, within=within)]

    assert shares(3.8) == [("fei-hong", 0.5), ("hei-se", 0.3), ("tuo-hong", 0.2)]
    assert shares(3.81) == [("fei-hong", 0.7), ("hei-se", 0.3)]
    assert shares(100) == [("fei-hong", 1.0)]
    with pytest.raises(TypeError, match="within is a difference such as 20, not '20'"):
        sepu.name_image(image, within="20")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="within is a difference"):
        shares(-1)


def test_colours_with_equal_shares_are_in_the_librarys_order() -> None:
    colours = sepu.load()
    image = np.array([[colour.rgb for colour in reversed(colours)]], np.uint8)
    assert [slug for slug, _ in shares(image)] == [colour.slug for colour in colours]
    differences = colours.palette().delta_e(image[0, ::-1])
    merged = Counter[int]()  # each into the nearest of those before it that are not merged themselves
    for place, row in enumerate(differences):
        nearest = min(merged, key=row.__getitem__, default=place)
        merged[nearest if row[nearest] <= 10 else place] += 1
    expected = {colours[place].slug: pytest.approx(number / len(colours)) for place, number in merged.items()}
    assert dict(shares(image, within=10)) == expected
