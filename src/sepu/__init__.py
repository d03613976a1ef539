"""sepu (色谱): exact CIEDE2000 matching and name search over 161 traditional Chinese colours.

    >>> import sepu
    >>> [nearest] = sepu.match("#C83C23")
    >>> nearest.name.en, nearest.rgb, nearest.delta_e
    ('Scarlet Silk', (200, 60, 35), 0.0)
    >>> [color.hex for color in sepu.search("tao hong")]
    ['#F47983']
    >>> sepu.load()["fei-hong"].name.zh
    '绯红'

Classes have their own help, such as `help(sepu.Palette)`; also Release, Record, Match, Share and NameIndex.
`NamedPalette` and `read_palette` make palettes of your own colours, and `hex_to_rgb` reads columns of HEX.
`docs/library.md` has more: images, and palettes and indexes of your own.
"""

from importlib import import_module
from threading import Lock
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sepu._names import NameIndex as NameIndex
    from sepu._palette import Palette as Palette
    from sepu._palette import ciede2000 as ciede2000
    from sepu._palette import hex_to_rgb as hex_to_rgb
    from sepu._palette import srgb_to_lab as srgb_to_lab
    from sepu.library.collection import UnknownNameError as UnknownNameError
    from sepu.library.images import Image as Image
    from sepu.library.images import ImageError as ImageError
    from sepu.library.named import NamedPalette as NamedPalette
    from sepu.library.palette_entries import PaletteError as PaletteError
    from sepu.library.palette_entries import PaletteWarning as PaletteWarning
    from sepu.library.palette_files import read_palette as read_palette
    from sepu.library.parsing import ColorError as ColorError
    from sepu.library.parsing import ColorLike as ColorLike
    from sepu.library.records import Match as Match
    from sepu.library.records import Record as Record
    from sepu.library.records import Records as Records
    from sepu.library.records import Share as Share
    from sepu.library.release import Release as Release

    __version__: str

# What `help(sepu)` shows; the classes, with all they inherit, would add a thousand lines.
__all__ = ["__version__", "load", "match", "name_image", "search"]


def load() -> "Release":
    """Verifies and returns the library of 161 colours, a `sepu.Release`.

    Raises sepu.library.release.ReleaseError if its files are not intact.
    """
    return _load()


def match(
    color: "ColorLike | None" = None,
    *,
    lab: "Sequence[float] | None" = None,
    white: Literal["D65", "D50"] = "D65",
    top: int = 1,
) -> "Records[Match]":
    """Returns the `top` nearest colours by CIEDE2000, nearest first: records with a `.delta_e`.

    `color`: '#C83C23', '#fff', three numbers from 0 to 255, a name of the library, a colour of CSS Color 4 such as
    'oklch(0.6 0.2 30)', or a record. Labels such as r, g and b decide, not the order. Or `lab`: L*, a* and b* under
    D65, or with `white="D50"` under D50, which lab() of CSS has. A colour over 0.1% outside sRGB is compared at its
    true value, and its matches have `.in_srgb` False. Raises ColorError for text or numbers that are not a colour, and
    for a name to which CSS gives another value; TypeError for other values.
    """
    return _load().match(color, lab=lab, white=white, top=top)


def search(q: str, *, limit: int = 10) -> "Records[Record]":
    """Returns at most `limit` colours that `q` finds by Chinese name, pinyin, English name or slug, best first."""
    return _load().search(q, limit=limit)


def name_image(
    image: "Image", *, top: int | None = None, scale: int | None = None, within: float = 0
) -> "Records[Share]":
    """Returns at most `top` colours of an image with their `.share` of its pixels, the largest share first.

    Each pixel counts for its nearest colour, weighted by its opacity. `image`: a path, an open file, its content as
    bytes, or a Pillow image (these need the `image` extra); or an array of shape (height, width, 3) or, with alpha,
    (height, width, 4). `scale`: the greatest value that a channel of an array may have, 1 or 255; only uint8 and int64
    need none. `within`: merges a colour into one as frequent or more that differs by at most this ΔE (CIEDE2000); 20
    leaves the few dominant ones. Raises ImageError if the image cannot be read, or if the array does not fit its scale.
    """
    return _load().name_image(image, top=top, scale=scale, within=within)


_release: "Release | None" = None
_loading = Lock()


def _load() -> "Release":
    """Loads the release once; concurrent callers wait for it. Later calls take no lock."""
    global _release
    release = _release
    if release is None:
        from sepu.library.release import load_release

        with _loading:
            release = _release
            if release is None:
                release = _release = load_release()
    return release


# PERF: importing any part of sepu runs this file, so what imports numpy is imported on first use.
_HOMES = {
    "ColorError": "sepu.library.parsing",
    "ColorLike": "sepu.library.parsing",
    "ImageError": "sepu.library.images",
    "Match": "sepu.library.records",
    "NameIndex": "sepu._names",
    "NamedPalette": "sepu.library.named",
    "Palette": "sepu._palette",
    "PaletteError": "sepu.library.palette_entries",
    "PaletteWarning": "sepu.library.palette_entries",
    "Record": "sepu.library.records",
    "Records": "sepu.library.records",
    "Release": "sepu.library.release",
    "Share": "sepu.library.records",
    "UnknownNameError": "sepu.library.collection",
    "ciede2000": "sepu._palette",
    "hex_to_rgb": "sepu._palette",
    "read_palette": "sepu.library.palette_files",
    "srgb_to_lab": "sepu._palette",
}


if not TYPE_CHECKING:  # type checkers must report unknown names

    def __getattr__(name: str) -> object:
        if name == "__version__":
            from sepu._version import version

            return version
        if name not in _HOMES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted({*__all__, *_HOMES, "__all__", "__doc__", "__file__", "__name__", "__path__"})
