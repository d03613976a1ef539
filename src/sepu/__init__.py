"""sepu (色谱): exact CIEDE2000 matching and name search over 161 traditional Chinese colours.

    >>> import sepu
    >>> [nearest] = sepu.match("#C83C23")
    >>> nearest.name.en, nearest.rgb, nearest.delta_e
    ('Scarlet Silk', (200, 60, 35), 0.0)
    >>> [color.hex for color in sepu.search("tao hong")]
    ['#F47983']
    >>> sepu.load()["fei-hong"].name.zh
    '绯红'

`docs/library.md` has more: images, palettes and indexes of your own.
"""

from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sepu._names import NameIndex
    from sepu._palette import Palette, ciede2000, hex_to_rgb, srgb_to_lab
    from sepu.library.images import Image, ImageError
    from sepu.library.named import NamedPalette
    from sepu.library.palette_files import PaletteError, read_palette
    from sepu.library.parsing import ColorError, ColorLike
    from sepu.library.records import Match, Record, Records, Share
    from sepu.library.release import Release, UnknownNameError

    __version__: str

__all__ = [
    "ColorError",
    "ColorLike",
    "ImageError",
    "Match",
    "NameIndex",
    "NamedPalette",
    "Palette",
    "PaletteError",
    "Record",
    "Records",
    "Release",
    "Share",
    "UnknownNameError",
    "__version__",
    "ciede2000",
    "hex_to_rgb",
    "load",
    "match",
    "name_image",
    "read_palette",
    "search",
    "srgb_to_lab",
]


def load() -> "Release":
    """Return the verified release that this package carries: the library of 161 colours.

    It is a collection of its records: iterable, with a length, and `load()["fei-hong"]` is the colour of that slug or
    name. It has the `.manifest` and the `.records` in library order, and makes a `.palette()` and an index of the
    `.names()`; both answer with places in `.records`. Keep them: making them takes milliseconds, asking them
    microseconds. Raises sepu.library.release.ReleaseError for files that are not intact.
    """
    return _load()


def match(
    color: "ColorLike | None" = None,
    *,
    lab: "Sequence[float] | None" = None,
    white: Literal["D65", "D50"] = "D65",
    top: int = 1,
) -> "Records[Match]":
    """Return the `top` nearest colours by CIEDE2000, nearest first: records with a `.delta_e`.

    `color`: '#C83C23', '#fff', three numbers from 0 to 255, a name of the library, a colour of CSS Color 4 such as
    'oklch(0.6 0.2 30)', or a record. Or `lab`: L*, a* and b* under D65, or with `white="D50"` under D50. What lies
    outside sRGB is matched where it is, and its matches have `.in_srgb` False. Raises ColorError for what is no colour,
    and for a name that CSS gives to another value than the library.
    """
    return _load().match(color, lab=lab, white=white, top=top)


def search(q: str, *, limit: int = 10) -> "Records[Record]":
    """Return at most `limit` colours that `q` finds by Chinese name, pinyin, English name or slug, best first."""
    return _load().search(q, limit=limit)


def name_image(image: "Image", *, top: int | None = None, scale: int | None = None) -> "Records[Share]":
    """Return the colours of an image with their `.share` of its pixels, the largest first, at most `top` of them.

    Each pixel counts for the colour that is nearest to it, and as much as it is opaque. `image`: a file's path or an
    image of Pillow's (for both install 'sepu[image]'), or an array of shape (height, width, 3) or, with alpha, (height,
    width, 4). `scale`: the greatest value that a channel of an array may have, 1 or 255; only uint8 and Python's int
    need none. Raises ImageError for what cannot be read, and for an array that does not fit its scale.
    """
    return _load().name_image(image, top=top, scale=scale)


@cache
def _load() -> "Release":
    from sepu.library.release import load_release

    return load_release()


# PERF: importing any part of sepu runs this file, so what brings numpy with it waits until it is asked for.
_HOMES = {
    "ColorError": "sepu.library.parsing",
    "ColorLike": "sepu.library.parsing",
    "ImageError": "sepu.library.images",
    "Match": "sepu.library.records",
    "NameIndex": "sepu._names",
    "NamedPalette": "sepu.library.named",
    "Palette": "sepu._palette",
    "PaletteError": "sepu.library.palette_files",
    "Record": "sepu.library.records",
    "Records": "sepu.library.records",
    "Release": "sepu.library.release",
    "Share": "sepu.library.records",
    "UnknownNameError": "sepu.library.release",
    "ciede2000": "sepu._palette",
    "hex_to_rgb": "sepu._palette",
    "read_palette": "sepu.library.palette_files",
    "srgb_to_lab": "sepu._palette",
}


if not TYPE_CHECKING:  # which is not to believe in every name

    def __getattr__(name: str) -> object:
        if name == "__version__":
            from importlib.metadata import version

            return version("sepu")
        if name not in _HOMES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted(globals().keys() | set(__all__))
