"""Naming the colours of images: arrays, and files and images of Pillow's where it is installed."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sepu

RED, PINK = (200, 60, 35), (244, 121, 131)
IMAGE = np.zeros((30, 40, 3), np.uint8)
IMAGE[:, :30] = RED
IMAGE[:10, 30:] = PINK
SHARES = [("fei-hong", 0.75), ("hei-se", 1 / 6), ("tao-hong", 1 / 12)]


def shares(image: Any, **settings: Any) -> list[tuple[str, float]]:
    return [(each.slug, each.share) for each in sepu.name_image(image, **settings)]


@pytest.mark.parametrize("kind", [np.uint8, np.uint16, np.int64, np.float32, np.float64])
def test_each_pixel_counts_for_its_nearest_colour(kind: Any) -> None:
    assert shares(IMAGE.astype(kind)) == SHARES
    assert shares(IMAGE.astype(kind), top=1) == SHARES[:1]
    assert shares(IMAGE.astype(kind)[::-1, ::-1], scale=255) == SHARES


def test_shares_are_those_of_a_full_scan() -> None:
    image = np.random.default_rng(19).integers(0, 256, (40, 50, 3), dtype=np.uint8)
    nearest = sepu.load().palette().delta_e(image.reshape(-1, 3)).argmin(axis=1)
    counts = {sepu.load()[place].slug: count / 2000 for place, count in enumerate(np.bincount(nearest)) if count}
    named = shares(image)
    assert dict(named) == counts
    assert [share for _, share in named] == sorted(counts.values(), reverse=True)


def test_many_pixels_are_named_in_parts() -> None:
    assert shares(np.tile(IMAGE, (40, 50, 1))) == SHARES


def test_floats_from_0_to_1_are_asked_about() -> None:
    with pytest.raises(sepu.ImageError, match="pass scale=1"):
        sepu.name_image(IMAGE / 255)
    assert shares(IMAGE / 255, scale=1) == SHARES
    assert shares(IMAGE / 255, scale=255) == [("hei-se", 1.0)]
    assert shares(np.zeros((2, 2, 3))) == [("hei-se", 1.0)]


def test_a_pixel_counts_as_much_as_it_is_opaque() -> None:
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
        (IMAGE[:, :, 0], "for a grey image pass numpy.stack"),
        (IMAGE[0, 0], r"not \(3,\)"),
        (IMAGE[:0], "no visible pixel"),
        (np.zeros((2, 2, 4), np.uint8), "no visible pixel"),
        (IMAGE.astype(np.uint16) * 257, "divide an image of 16 bits by 257"),
        (IMAGE.astype(np.int64) - 1, "0 to 255"),
        (np.full((2, 2, 3), np.nan), "0 to 255"),
        (np.full((2, 2, 4), 300.0), "0 to 255"),
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
    pillow = pytest.importorskip("PIL.Image")
    image = pillow.fromarray(IMAGE)
    file = tmp_path / "image.png"
    for written in (image, image.convert("RGBA"), image.quantize(3)):
        written.save(file)
        assert shares(file) == shares(str(file)) == shares(written) == SHARES
    assert shares(pillow.new("L", (5, 5), 255)) == [("jing-bai", 1.0)]
    for mode in ("I;16", "F"):
        with pytest.raises(sepu.ImageError, match="save it with 8 bits"):
            sepu.name_image(pillow.new(mode, (5, 5)))
    pillow.effect_noise((99, 99), 99).convert("RGB").save(file)
    content = file.read_bytes()
    file.write_bytes(content[: len(content) // 2])
    with pytest.raises(sepu.ImageError, match="cannot be decoded"):
        sepu.name_image(file)
    file.write_bytes(b"no image")
    with pytest.raises(sepu.ImageError, match="is no image that Pillow can read"):
        sepu.name_image(file)
    with pytest.raises(sepu.ImageError, match="No such file"):
        sepu.name_image(tmp_path / "nothing.png")


def test_a_colour_profile_counts(tmp_path: Path) -> None:
    """In a profile whose red and blue primaries are exchanged, red is what is blue on the screen."""
    pillow = pytest.importorskip("PIL.Image")
    from PIL import ImageCms

    profile = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
    exchanged = profile.replace(b"rXYZ", b"?XYZ").replace(b"bXYZ", b"rXYZ").replace(b"?XYZ", b"bXYZ")
    assert exchanged != profile
    file = tmp_path / "image.png"
    pillow.new("RGB", (5, 5), (250, 20, 10)).save(file, icc_profile=exchanged)
    plain = pillow.new("RGB", (5, 5), (10, 20, 250))
    assert shares(file) == shares(plain) != shares(pillow.new("RGB", (5, 5), (250, 20, 10)))
