"""sepu (色谱): exact CIEDE2000 matching and name search over 161 traditional Chinese colours.

    >>> import sepu
    >>> colours = sepu.load()
    >>> palette, names = colours.palette(), colours.names()
    >>> [(index, delta_e)] = palette.nearest(200, 60, 35, 1)
    >>> colours.records[index].name.en
    'Scarlet Silk'
    >>> [colours.records[index].hex for index in names.search("tao hong", 10)]
    ['#F47983']

`docs/library.md` has more: whole images at once, palettes and indexes of your own.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sepu._names import NameIndex
    from sepu._palette import Palette, ciede2000, srgb_to_lab
    from sepu.library.release import Release

__all__ = ["NameIndex", "Palette", "ciede2000", "load", "srgb_to_lab"]


def load() -> "Release":
    """Return the verified release that this package carries.

    It has the `.manifest` and the `.records` in library order, and makes a `.palette()` and an index of the `.names()`;
    both answer with places in `.records`. Keep them: making them takes milliseconds, asking them microseconds.
    Raises sepu.library.release.ReleaseError for files that are not intact.
    """
    from sepu.library.release import load_release

    return load_release()


# PERF: importing any part of sepu runs this file, so what brings numpy with it waits until it is asked for.
_HOMES = {
    "NameIndex": "sepu._names",
    "Palette": "sepu._palette",
    "ciede2000": "sepu._palette",
    "srgb_to_lab": "sepu._palette",
}


if not TYPE_CHECKING:  # which is not to believe in every name

    def __getattr__(name: str) -> object:
        if name not in _HOMES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted(globals().keys() | set(__all__))
