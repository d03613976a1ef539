"""The differences other than CIEDE2000 in numpy, and OKLab, written from their sources alone.

CIE 116:1995 for CIE94; Abasi, Amani Tehran and Fairchild 2020 for HyAB; https://bottosson.github.io/posts/oklab/.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def cie76(of_query: Floats, of_palette: Floats) -> Floats:
    return np.asarray(np.linalg.norm(of_palette - of_query, axis=-1))


def cie94(of_query: Floats, of_palette: Floats) -> Floats:
    """For graphic arts; the palette's colour is the standard."""
    chroma, chroma_of_query = (np.hypot(lab[..., 1], lab[..., 2]) for lab in (of_palette, of_query))
    l, a, b = np.moveaxis(of_palette - of_query, -1, 0)  # noqa: E741
    c = chroma - chroma_of_query
    h = np.sqrt(np.maximum(a**2 + b**2 - c**2, 0))
    return np.asarray(np.sqrt(l**2 + (c / (1 + 0.045 * chroma)) ** 2 + (h / (1 + 0.015 * chroma)) ** 2))


def hyab(of_query: Floats, of_palette: Floats) -> Floats:
    l, a, b = np.moveaxis(of_palette - of_query, -1, 0)  # noqa: E741
    return np.asarray(abs(l) + np.hypot(a, b))


def oklab(rgb: Floats) -> Floats:
    """OKLab of sRGB from 0 to 255."""
    value = rgb / 255
    linear = np.where(value <= 0.04045, value / 12.92, ((value + 0.055) / 1.055) ** 2.4)
    cones = [
        [0.4122214708, 0.5363325363, 0.0514459929],
        [0.2119034982, 0.6806995451, 0.1073969566],
        [0.0883024619, 0.2817188376, 0.6299787005],
    ]
    axes = [
        [0.2104542553, 0.7936177850, -0.0040720468],
        [1.9779984951, -2.4285922050, 0.4505937099],
        [0.0259040371, 0.7827717662, -0.8086757660],
    ]
    return np.asarray(np.cbrt(linear @ np.transpose(cones)) @ np.transpose(axes))


OF_LAB: dict[str, Callable[[Floats, Floats], Floats]] = {"cie76": cie76, "cie94": cie94, "hyab": hyab}
