"""Reads images, and counts the colours to which their pixels are nearest."""

import os
from io import BytesIO
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sepu._palette import Palette
from sepu.errors import SepuError

if TYPE_CHECKING:
    import PIL.Image

    Image = str | os.PathLike[str] | PIL.Image.Image | ArrayLike
else:
    Image = Any

Pixels = NDArray[np.number[Any]]
Opacity = NDArray[np.float64]

# PERF: bounds the memory, some 50 bytes a pixel.
_PIXELS_AT_ONCE = 2**20


class ImageError(SepuError, ValueError):
    """This is no image that can be read; the message says why, and what to do."""


def read_image(image: Image, scale: int | None = None) -> tuple[Pixels, Opacity | None]:
    """Returns the channels, shape (..., 3) and 0 to 255, and how opaque each pixel is, from 0 to 1, or None.

    Raises ImageError.
    """
    try:
        import PIL.Image
    except ModuleNotFoundError:
        if isinstance(image, str | os.PathLike):
            raise ImageError("Pillow is not installed; image files need: pip install 'sepu[image]'") from None
    else:
        if isinstance(image, str | os.PathLike):
            with _open(image) as file:
                return _split(np.asarray(_to_srgb(file)), 255)
        if isinstance(image, PIL.Image.Image):
            return _split(np.asarray(_to_srgb(image)), 255)
    array = np.asarray(image)
    if array.ndim < 2 or array.shape[-1] not in {3, 4}:
        grey = "; for a grey image pass numpy.stack([image] * 3, axis=-1)" if array.ndim == 2 else ""
        raise ImageError(f"an image has the shape (height, width, 3), or 4 with alpha, and not {array.shape}{grey}")
    if array.dtype.kind not in "uif":
        raise ImageError(f"an image has real numbers, such as uint8 or float, and not {array.dtype}")
    if scale not in {None, 1, 255}:
        raise ImageError(f"scale must be 1 or 255, not {scale}")
    most = array[..., :3].max(initial=0)
    if array.dtype.kind in "ui" and most > 255:
        raise ImageError(f"a channel is {most}, and the most is 255; divide an image of 16 bits by 257")
    if scale is None and array.dtype.kind == "f" and 0 < most <= 1:
        raise ImageError("no channel exceeds 1: pass scale=1 if 1 is the greatest value of a channel, scale=255 if not")
    return _split(array, scale or 255)


def count_pixels(palette: Palette, pixels: Pixels, opacity: Opacity | None) -> NDArray[np.float64]:
    """Returns for each colour of the palette the share of the pixels to which it is the nearest."""
    weights = None if opacity is None else opacity.ravel()
    shares: NDArray[np.float64] = np.bincount(nearest_places(palette, pixels).ravel(), weights, palette.size) / 1.0
    visible = float(shares.sum())
    if not visible > 0:
        raise ImageError("the image has no visible pixel")
    return shares / visible


def nearest_places(palette: Palette, pixels: Pixels) -> NDArray[np.intp]:
    """Returns the place of the nearest colour for each pixel, in the image's shape."""
    rows = pixels.reshape(-1, 3)
    places = np.empty(len(rows), np.intp)
    try:
        for start in range(0, len(rows), _PIXELS_AT_ONCE):
            part = slice(start, start + _PIXELS_AT_ONCE)
            places[part] = palette.nearest_batch(rows[part], 1, scale=255, threads=None)[0][:, 0]
    except ValueError as error:
        raise ImageError(str(error)) from None
    return places.reshape(pixels.shape[:-1])


def _split(array: NDArray[Any], scale: int) -> tuple[Pixels, Opacity | None]:
    channels = array[..., :3] if scale == 255 else array[..., :3] * 255.0
    if array.shape[-1] == 3:
        return channels, None
    opacity = array[..., 3] / (255.0 if scale == 255 else 1.0)
    if not ((opacity >= 0) & (opacity <= 1)).all():  # nor NaN
        raise ImageError(f"alpha must be a number from 0 to {scale}")
    return channels, opacity


def _open(path: str | os.PathLike[str]) -> "PIL.Image.Image":
    import PIL.Image

    try:
        return PIL.Image.open(path)
    except PIL.UnidentifiedImageError:
        raise ImageError(f"{os.fspath(path)!r} is no image that Pillow can read") from None
    except (OSError, PIL.Image.DecompressionBombError) as error:
        reason = error.strerror if isinstance(error, OSError) else None
        raise ImageError(f"{os.fspath(path)!r}: {reason or error}") from None


def _to_srgb(image: "PIL.Image.Image") -> "PIL.Image.Image":
    """Returns the image in sRGB, by its colour profile if it has one; with alpha if it has any."""
    from PIL import ImageCms, ImageOps

    if image.mode.startswith(("I", "F")):
        raise ImageError(f"an image of 16 or 32 bits a channel (mode {image.mode}) is not read; save it with 8 bits")
    try:
        image = ImageOps.exif_transpose(image)
        mode = "RGBA" if image.has_transparency_data else "RGB"
        profile = image.info.get("icc_profile")
        if profile and image.mode in {"RGB", "RGBA", "CMYK"}:
            source, target = ImageCms.ImageCmsProfile(BytesIO(profile)), ImageCms.createProfile("sRGB")
            image = ImageCms.profileToProfile(image, source, target, outputMode=mode) or image
        return image.convert(mode)
    except (OSError, SyntaxError, ValueError, ImageCms.PyCMSError) as error:
        raise ImageError(f"the image cannot be decoded: {error}") from None
