"""Reads images, and counts the nearest colours of their pixels."""

import logging
import os
import re
import struct
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from io import BytesIO
from typing import IO, TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sepu import limits
from sepu._palette import Palette, as_array, check_range, check_shape, ciede2000, read_scale
from sepu.errors import SepuError
from sepu.extras import how_to_install
from sepu.library.files import read_file

if TYPE_CHECKING:
    import PIL.Image

    Image = str | os.PathLike[str] | bytes | IO[bytes] | PIL.Image.Image | ArrayLike
else:
    Image = Any

Pixels = NDArray[np.integer[Any] | np.floating[Any]]
Opacity = NDArray[np.integer[Any] | np.floating[Any]]

# Pillow decodes files only in these formats: it also has decoders that start programs.
FORMATS = ("PNG", "JPEG", "GIF", "BMP", "TIFF", "WEBP", "AVIF")
_NAMES = ", ".join(FORMATS)

# PERF: bounds the memory, some 50 bytes a pixel.
_PIXELS_AT_ONCE = 2**20

# JPEG's markers, except those without a length: 0xFF00, TEM, the restarts, the start of the image (ITU-T T.81, B.1.1).
_JPEG_MARKER = re.compile(rb"\xff([\x02-\xcf\xd9-\xfe])", re.DOTALL)
_END_OF_IMAGE, _START_OF_SCAN = b"\xd9", b"\xda"

# Types of tags that Pillow does not turn into a tuple: BYTE, ASCII, UNDEFINED.
_TIFF_BYTES = {1, 2, 7}

# TIFF 6.0, sections 8 and 20: BitsPerSample, PhotometricInterpretation, which is 1 if black is 0, WhitePoint, and
# PrimaryChromaticities.
_TIFF_BITS, _TIFF_BLACK, _TIFF_WHITE, _TIFF_PRIMARIES = 258, 262, 318, 319

# ITU-T H.273: codes for sRGB or unspecified, and the names of others that pictures have.
_SRGB_PRIMARIES, _SRGB_TRANSFERS = {1, 2}, {2, 4, 13}  # 4 is a gamma of 2.2
_PRIMARIES = {1: "BT.709", 9: "BT.2020", 11: "DCI-P3", 12: "Display P3"}
_TRANSFERS = {1: "BT.709", 8: "linear", 14: "BT.2020", 15: "BT.2020", 16: "PQ", 18: "HLG"}
# Of gamma, and of the chromaticities of white, red, green and blue.
_GAMMA_TOLERANCE, _CHROMATICITY_TOLERANCE = 0.1, 0.01
_SRGB_CHROMATICITIES = (0.3127, 0.329, 0.64, 0.33, 0.3, 0.6, 0.15, 0.06)
_AVIF_CODES = re.compile(rb"colrnclx(.{4})", re.DOTALL)
# EXIF's InteroperabilityIndex, in either byte order (DCF 2.0, 3.3): a camera's file in Adobe RGB, which has no profile.
_ADOBE_RGB = re.compile(rb"\x01\0\x02\0\x04\0\0\0R03|\0\x01\0\x02\0\0\0\x04R03")

_NO_HANDLER = logging.NullHandler()


class ImageError(SepuError, ValueError):
    """The image cannot be read; the message says why, and what to do."""


def read_image(image: Image, scale: int | None = None) -> tuple[Pixels, Opacity | None]:
    """Returns the channels, shape (..., 3) and 0 to 255, and each pixel's opacity, or None if all are equally opaque.

    Opacity is from 0 to the value of an opaque pixel. Raises ImageError.
    """
    if hasattr(image, "read"):
        image = _read_open(image)
    try:
        import PIL.Image
    except ModuleNotFoundError:
        if isinstance(image, str | os.PathLike | bytes):
            raise ImageError(f"Pillow is not installed; run: {how_to_install('image')}") from None
    else:
        if isinstance(image, str | os.PathLike):
            content = read_file(image, limits.images.BYTES, "save it as PNG or JPEG", ImageError)
            return _split(_decode(content, repr(os.fspath(image))))
        if isinstance(image, bytes):
            return _split(_decode(image, "the image"))
        if isinstance(image, PIL.Image.Image):
            with _decoding("the image"):
                _check_header(image, "the image")
                _check_color_tags(image, b"", "the image")
                return _split(np.asarray(_to_srgb(image, "the image")))
    try:
        array, most = _read_array(cast("ArrayLike", image), scale)
    except ValueError as error:
        raise ImageError(str(error)) from None
    channels, opacity = _split(array)
    return channels if most == 255 else channels * 255.0, opacity


def _read_array(image: ArrayLike, scale: int | None) -> tuple[NDArray[Any], int]:
    """Returns the array of an image and the greatest value that a channel may have; raises ValueError."""
    array = as_array(image, "image")
    if array.dtype.kind not in "uif":
        raise ValueError(f"an image has real numbers, such as uint8 or float, and not {array.dtype}")
    if array.ndim < 3:
        hint = "; if it is grey: numpy.stack([image] * 3, axis=-1); if it is a list of pixels: image[None]"
        raise ValueError(
            f"an image has the shape (height, width, 3), or 4 with alpha, and not {array.shape}"
            f"{hint if array.ndim == 2 else ''}"
        )
    check_shape(array, "image", 4)
    most = read_scale(array, scale, "image")
    if array.dtype != np.uint8 or most != 255:
        check_range(array, most, "image")
    return array, most


def _read_open(file: Any) -> bytes:  # noqa: ANN401
    """Returns an open file's content, at most one byte over the limit."""
    try:
        content = file.read(limits.images.BYTES + 1)
    except (OSError, ValueError) as error:
        raise ImageError(f"the image cannot be read: {error}") from error
    if not isinstance(content, bytes):
        raise ImageError("open an image's file in binary mode: open(path, 'rb')")
    return content


def count_pixels(palette: Palette, pixels: Pixels, opacity: Opacity | None) -> NDArray[np.float64]:
    """Returns for each colour of the palette its share of the pixels: those nearest to it."""
    rows, weights = pixels.reshape(-1, 3), None if opacity is None else opacity.reshape(-1)
    shares = np.zeros(palette.size)
    for part in _parts(rows):
        nearest = _nearest(palette, rows[part])
        if weights is None:
            shares += np.bincount(nearest, minlength=palette.size)
        else:
            shares += np.bincount(nearest, weights[part], minlength=palette.size)
    visible = float(shares.sum())
    if not visible > 0:
        raise ImageError("the image has no visible pixel")
    return shares / visible


def merge_shares(shares: NDArray[np.float64], lab: NDArray[np.float64], within: float) -> NDArray[np.float64]:
    """Returns the shares, shape (n,), each colour merged into the nearest larger one within a CIEDE2000 difference.

    `lab`: shape (n, 3). This is the leader algorithm (Hartigan, Clustering Algorithms, 1975, chapter 3), with the
    largest shares first, so that the result is unique.
    """
    merged = np.zeros_like(shares)
    leaders: list[int] = []
    for position in np.argsort(-shares, kind="stable").tolist():
        differences = ciede2000(lab[[position] * len(leaders)], lab[leaders])
        if leaders and differences.min() <= within:
            merged[leaders[int(differences.argmin())]] += shares[position]
        else:
            leaders.append(position)
            merged[position] = shares[position]
    return merged


def nearest_positions(palette: Palette, pixels: Pixels) -> NDArray[np.unsignedinteger[Any]]:
    """Returns the position of the nearest colour for each pixel, in the image's shape."""
    rows = pixels.reshape(-1, 3)
    positions = np.empty(len(rows), np.min_scalar_type(palette.size))
    for part in _parts(rows):
        positions[part] = _nearest(palette, rows[part])
    return positions.reshape(pixels.shape[:-1])


def _parts(rows: Pixels) -> Iterator[slice]:
    return (slice(start, start + _PIXELS_AT_ONCE) for start in range(0, len(rows), _PIXELS_AT_ONCE))


def _nearest(palette: Palette, rows: Pixels) -> NDArray[np.intp]:
    return palette.nearest_batch(rows, 1, scale=255, threads=None)[0][:, 0]


def _split(array: NDArray[Any]) -> tuple[Pixels, Opacity | None]:
    return array[..., :3], None if array.shape[-1] == 3 else array[..., 3]


class _File(BytesIO):
    """A file's content; bounds the number of reads until `unlimited`."""

    def __init__(self, content: bytes, name: str) -> None:
        super().__init__(content)
        self._name = name
        self._left: float = limits.images.HEADER_READS

    def unlimited(self) -> None:
        """Lifts the bound."""
        self._left = float("inf")

    def read(self, size: int | None = -1, /) -> bytes:
        """Reads; raises ImageError after too many reads."""
        self._left -= 1
        if self._left < 0:
            raise ImageError(f"{self._name} has a header of too many parts; save it again as PNG or JPEG")
        return super().read(size)


def _decode(content: bytes, name: str) -> NDArray[Any]:
    import PIL.Image
    from PIL import ImageOps

    with _decoding(name):
        if len(content) > limits.images.BYTES:
            raise ImageError(f"{name} has more than {limits.images.BYTES:,} bytes; save it as PNG or JPEG")
        if _count_scans(content) > limits.images.JPEG_SCANS:
            raise ImageError(f"{name} has more than {limits.images.JPEG_SCANS} scans; save it again")
        if _longest_tag(content) > limits.images.TIFF_NUMBERS:
            raise ImageError(f"{name} has a tag of more than {limits.images.TIFF_NUMBERS:,} numbers; save it again")
        with _File(content, name) as file, PIL.Image.open(file, formats=FORMATS) as image:
            _check_header(image, name)
            _check_color_tags(image, content, name)
            file.unlimited()
            ImageOps.exif_transpose(image, in_place=True)
            converted = _to_srgb(image, name)
            converted.load()
        return np.asarray(converted)


@contextmanager
def _decoding(name: str) -> Iterator[None]:
    """Raises ImageError for whatever a decoder raises, and silences its warnings."""
    import PIL.Image

    # Without a handler, logging would print what Pillow logs.
    logging.getLogger("PIL").addHandler(_NO_HANDLER)
    try:
        # If several threads decode at once, Pillow may stay silent afterwards, but nothing worse can happen.
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", module="PIL")
            yield
    except ImageError:
        raise
    except PIL.UnidentifiedImageError:
        reason = f"it is damaged, or not one of {_NAMES}, or a TIFF with pixels that Pillow does not know"
        raise ImageError(f"{name} is not an image that can be read: {reason}") from None
    except PIL.Image.DecompressionBombError:
        raise _too_large(name) from None
    except MemoryError:
        raise ImageError(f"{name} needs more memory than there is; make it smaller") from None
    except Exception as error:
        reason = str(error) or type(error).__name__
        raise ImageError(f"{name} cannot be decoded: {reason!r:.200}; save it again as PNG or JPEG") from error


def _check_header(image: "PIL.Image.Image", name: str) -> None:
    """Refuses what must not be decoded, or cannot be read with 8 bits."""
    if image.width * image.height > limits.images.PIXELS:
        raise _too_large(name)
    if image.format not in {None, "MPO", *FORMATS}:  # a camera's JPEG of several pictures is an MPO
        raise ImageError(f"{name} is of the format {image.format}, and not of {_NAMES}; pass image.convert('RGBA')")
    if image.mode == "LAB":
        raise ImageError(f"{name} has L*a*b* values, not RGB; convert it to sRGB and save it as PNG")
    if image.mode.startswith(("I", "F")) and not _is_16_bit_grey(image):
        raise ImageError(f"{name} has 16 or 32 bits a channel (mode {image.mode}); save it with 8 bits")


def _is_16_bit_grey(image: "PIL.Image.Image") -> bool:
    """Returns whether an image has grey of 16 bits, from black to white; a TIFF may have 12, or white at 0."""
    tags = getattr(image, "tag_v2", {})
    return image.mode.startswith("I;16") and tags.get(_TIFF_BITS, (16,)) == (16,) and tags.get(_TIFF_BLACK, 1) == 1


def _too_large(name: str) -> ImageError:
    return ImageError(f"{name} has more than {limits.images.PIXELS:,} pixels; make it smaller")


def _count_scans(content: bytes) -> int:
    """Returns the number of a JPEG's scans, up to one over the limit; 0 for other files."""
    scans, at = 0, 2
    if not content.startswith(b"\xff\xd8"):
        return 0
    most = limits.images.JPEG_SCANS
    while scans <= most and (found := _JPEG_MARKER.search(content, at)) and found[1] != _END_OF_IMAGE:
        at = found.end()
        at += int.from_bytes(content[at : at + 2])
        scans += found[1] == _START_OF_SCAN
    return scans


def _longest_tag(content: bytes) -> int:
    """Returns how many numbers the longest tag of a TIFF's first directory has; 0 for other files.

    Source: TIFF 6.0, section 2. A BigTIFF is read as both kinds, because Pillow takes some for the other.
    """
    order = {b"II": "<", b"MM": ">"}.get(content[:2])
    if order is None:
        return 0
    longest = 0
    for offset, count, tag in (("4xI", "H", "2xHI4x"), ("8xQ", "Q", "2xHQ8x"))[: 1 + (43 in content[2:4])]:
        try:
            (start,) = struct.unpack_from(order + offset, content)
            (tags,) = struct.unpack_from(order + count, content, start)
        except (struct.error, OverflowError):  # nothing is there; Pillow will report it
            continue
        entry = struct.Struct(order + tag)
        directory = content[start + struct.calcsize(order + count) :][: entry.size * min(tags, 2**16)]
        entries = entry.iter_unpack(directory[: len(directory) // entry.size * entry.size])
        longest = max([longest, *(length for kind, length in entries if kind not in _TIFF_BYTES)])
    return longest


def _check_color_tags(image: "PIL.Image.Image", content: bytes, name: str) -> None:
    """Refuses an image without a profile whose tags say that it is not in sRGB."""
    is_png = image.format == "PNG"
    codes = _png_codes(content) if is_png else None
    if codes:
        image.info.pop("icc_profile", None)  # PNG 3, 4.3: cICP overrides it
    if image.info.get("icc_profile"):
        return
    if image.format == "AVIF" and (found := _AVIF_CODES.search(content)):
        primaries, transfer = struct.unpack(">HH", found[1])
        codes = primaries, transfer
    reason = None
    if codes:
        reason = _foreign_codes(*codes, "cICP" if is_png else "nclx")
    elif is_png and "srgb" not in image.info:
        reason = _foreign_gamma(image.info.get("gamma"))
        reason = reason or _foreign_primaries(image, image.info.get("chromaticity", _SRGB_CHROMATICITIES), "cHRM")
    elif image.format == "TIFF":
        tags = getattr(image, "tag_v2", {})
        given = *tags.get(_TIFF_WHITE, _SRGB_CHROMATICITIES[:2]), *tags.get(_TIFF_PRIMARIES, _SRGB_CHROMATICITIES[2:])
        reason = _foreign_primaries(image, given, "WhitePoint or PrimaryChromaticities")
    # Pillow does not keep a TIFF's EXIF data, so its whole content is searched: these 11 bytes do not occur by chance.
    exif = content if image.format == "TIFF" else image.info.get("exif") or b""
    if not reason and _ADOBE_RGB.search(exif):
        reason = "its EXIF data say Adobe RGB"
    if reason:
        raise ImageError(f"{name} is not in sRGB: {reason}; convert it to sRGB, or save it with an ICC profile")


def _foreign_codes(primaries: int, transfer: int, tag: str) -> str | None:
    if primaries in _SRGB_PRIMARIES and transfer in _SRGB_TRANSFERS:
        return None
    curve = _TRANSFERS.get(transfer, transfer)
    return f"its {tag} tag has the primaries {_PRIMARIES.get(primaries, primaries)} and the transfer function {curve}"


def _foreign_gamma(gamma: float | None) -> str | None:
    exponent = 2.2 if gamma is None else 1 / max(gamma, 1e-5)
    return f"its gAMA tag has a gamma of {exponent:.3g}" if abs(exponent - 2.2) > _GAMMA_TOLERANCE else None


def _foreign_primaries(image: "PIL.Image.Image", given: tuple[float, ...], tag: str) -> str | None:
    pairs = zip(given, _SRGB_CHROMATICITIES, strict=False)
    is_srgb = len(given) == len(_SRGB_CHROMATICITIES) and all(abs(a - b) <= _CHROMATICITY_TOLERANCE for a, b in pairs)
    return None if is_srgb or image.mode.startswith(("1", "L", "I")) else f"its {tag} tag has other primaries"


def _png_codes(content: bytes) -> tuple[int, int] | None:
    """Returns the primaries and the transfer function of a PNG's cICP, which Pillow does not read."""
    at = len(b"\x89PNG\r\n\x1a\n")
    while (kind := content[at + 4 : at + 8]) not in {b"", b"IDAT"}:
        if kind == b"cICP" and len(content) >= at + 10:
            return content[at + 8], content[at + 9]
        at += 12 + int.from_bytes(content[at : at + 4])
    return None


# The modes of images that a profile of each colour space may describe.
_PROFILED = {
    "RGB": {"RGB", "RGBA", "P", "PA", "L", "LA", "1"},  # grey too: converted from RGB, it often keeps the profile
    "GRAY": {"L", "LA", "1"},
    "CMYK": {"CMYK"},
}


def _to_srgb(image: "PIL.Image.Image", name: str) -> "PIL.Image.Image":
    """Returns the image in sRGB, by its colour profile if it has one; with alpha if it has any."""
    profile = image.info.get("icc_profile")
    if image.mode.startswith("I;16"):
        image = _high_bytes(image)
    mode = "RGBA" if image.has_transparency_data else "RGB"
    if profile:
        return _apply_profile(image, profile, mode, name)
    if image.mode == "CMYK":
        raise ImageError(f"{name} is CMYK without a colour profile, so its colours are not known; save it as sRGB")
    return _in_mode(image, mode)


def _high_bytes(image: "PIL.Image.Image") -> "PIL.Image.Image":
    """Returns 16-bit grey with 8 bits, as Pillow reads 16-bit RGB."""
    import PIL.Image

    values = np.asarray(image)
    grey = PIL.Image.fromarray((values >> 8).astype(np.uint8))
    if (transparent := image.info.get("transparency")) is not None:
        grey.putalpha(PIL.Image.fromarray(np.where(values == transparent, np.uint8(0), np.uint8(255))))
    return grey


def _apply_profile(image: "PIL.Image.Image", profile: bytes, mode: str, name: str) -> "PIL.Image.Image":
    from PIL import ImageCms

    converted = None
    with suppress(OSError, ImageCms.PyCMSError):
        source, target = ImageCms.ImageCmsProfile(BytesIO(profile)), ImageCms.createProfile("sRGB")
        space = source.profile.xcolor_space.strip()
        if image.mode in _PROFILED.get(space, ()):
            if space == "GRAY":
                converted = ImageCms.profileToProfile(_in_mode(image, "L"), source, target, outputMode="RGB")
            else:
                values = image if space == "CMYK" else _in_mode(image, mode)
                converted = ImageCms.profileToProfile(values, source, target, outputMode=mode)
    if converted is None:
        raise ImageError(f"{name} has a colour profile that cannot be used; save it as sRGB, or without it")
    if converted.mode != mode:  # littleCMS reads no grey with alpha
        converted.putalpha(image.convert("RGBA").getchannel("A"))
    return converted


def _in_mode(image: "PIL.Image.Image", mode: str) -> "PIL.Image.Image":
    return image if image.mode == mode else image.convert(mode)
