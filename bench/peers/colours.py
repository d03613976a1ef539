"""Computes CIEDE2000 differences and the nearest three of a palette in several ways, as users would write them."""

import ctypes
import subprocess
import tempfile
import warnings
from importlib.metadata import version
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

import sepu
from sepu._palette import instruction_sets

Floats = NDArray[np.float64]
Places = NDArray[np.intp]

TOP = 3


class Colours(Protocol):
    """Takes a palette, shape (n, 3), from 0 to 255. `rows` is the number of colours for one call."""

    name: str
    rows: int

    def __init__(self, palette: Floats) -> None: ...
    def delta_e(self, lab1: Floats, lab2: Floats) -> Floats: ...
    def nearest(self, r: float, g: float, b: float) -> list[int]: ...
    def nearest_batch(self, rgb: Floats) -> Places: ...


class Sepu:
    name = "sepu"
    rows = 10_000
    with_index = True
    instruction_set: str | None = None

    def __init__(self, palette: Floats) -> None:
        if self.instruction_set not in {None, *instruction_sets()}:
            raise ImportError(f"not a processor with {self.instruction_set}")
        index = sepu.load().index if self.with_index else None
        self.palette = sepu.Palette(palette, index, instruction_set=self.instruction_set, scale=255)

    def delta_e(self, lab1: Floats, lab2: Floats) -> Floats:
        return sepu.ciede2000(lab1, lab2, instruction_set=self.instruction_set)

    def nearest(self, r: float, g: float, b: float) -> list[int]:
        return [place for place, _ in self.palette.nearest(r, g, b, TOP)]

    def nearest_batch(self, rgb: Floats) -> Places:
        return self.palette.nearest_batch(rgb, TOP, scale=255)[0]


class SepuWithoutIndex(Sepu):
    name = "without its index"
    with_index = False


class SepuOnAvx2(Sepu):
    name = "as on AVX2"
    instruction_set = "avx2"


class SepuOnAvx2WithoutIndex(SepuOnAvx2):
    name = "the same, without index"
    with_index = False


class C:
    name = "C with libm, by ctypes"
    rows = 10_000

    def __init__(self, palette: Floats) -> None:
        source = Path(__file__).with_name("ciede2000.c")
        with tempfile.TemporaryDirectory() as directory:
            built = Path(directory) / "ciede2000.so"
            subprocess.run(
                ["cc", "-std=gnu11", "-O3", "-march=native", "-shared", "-fPIC", "-o", built, source, "-lm"], check=True
            )
            self.library = ctypes.CDLL(str(built))
        self.size = len(palette)
        self.palette = np.empty_like(palette)
        self.library.to_lab(self.at(palette), self.at(self.palette), ctypes.c_size_t(self.size))
        self.one = (ctypes.c_double * 3)()
        self.places = (ctypes.c_ssize_t * TOP)()
        self.nearest_of = self.library.nearest
        self.rest = (ctypes.c_size_t(1), self.at(self.palette), ctypes.c_size_t(self.size), self.places)

    @staticmethod
    def at(array: NDArray[Any]) -> ctypes.c_void_p:
        return array.ctypes.data_as(ctypes.c_void_p)

    def delta_e(self, lab1: Floats, lab2: Floats) -> Floats:
        out = np.empty(len(lab1))
        self.library.delta_e(self.at(lab1), self.at(lab2), self.at(out), ctypes.c_size_t(len(lab1)))
        return out

    def nearest(self, r: float, g: float, b: float) -> list[int]:
        self.one[0], self.one[1], self.one[2] = r, g, b
        self.nearest_of(self.one, *self.rest)
        return list(self.places)

    def nearest_batch(self, rgb: Floats) -> Places:
        out = np.empty((len(rgb), TOP), dtype=np.intp)
        n, size = ctypes.c_size_t(len(rgb)), ctypes.c_size_t(self.size)
        self.library.nearest(self.at(rgb), n, self.at(self.palette), size, self.at(out))
        return out


class ColourScience:
    name = f"colour-science {version('colour-science')}"
    rows = 1_000

    def __init__(self, palette: Floats) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # it warns that it cannot draw
            import colour
        self.colour = colour
        self.palette = self.lab(palette)

    def lab(self, rgb: Floats) -> Floats:
        return np.asarray(self.colour.XYZ_to_Lab(self.colour.sRGB_to_XYZ(rgb / 255)))

    def delta_e(self, lab1: Floats, lab2: Floats) -> Floats:
        return np.asarray(self.colour.delta_E(lab1, lab2, method="CIE 2000"))

    def nearest(self, r: float, g: float, b: float) -> list[int]:
        return [int(place) for place in self.nearest_batch(np.array([[r, g, b]]))[0]]

    def nearest_batch(self, rgb: Floats) -> Places:
        delta_e = self.delta_e(self.lab(rgb)[:, np.newaxis], self.palette)
        return np.argsort(delta_e, axis=1, kind="stable")[:, :TOP]


class ScikitImage(ColourScience):
    name = f"scikit-image {version('scikit-image')}"

    def __init__(self, palette: Floats) -> None:
        from skimage import color

        self.color = color
        self.palette = self.lab(palette)

    def lab(self, rgb: Floats) -> Floats:
        return np.asarray(self.color.rgb2lab(rgb / 255))

    def delta_e(self, lab1: Floats, lab2: Floats) -> Floats:
        return np.asarray(self.color.deltaE_ciede2000(*np.broadcast_arrays(lab1, lab2)))


class Coloraide:
    name = f"coloraide {version('coloraide')}"
    rows = 30

    def __init__(self, palette: Floats) -> None:
        from coloraide import Color

        self.color = Color
        self.palette = [Color("srgb", channels) for channels in (palette / 255).tolist()]

    def delta_e(self, lab1: Floats, lab2: Floats) -> Floats:
        pairs = zip(lab1.tolist(), lab2.tolist(), strict=True)
        return np.array(
            [self.color("lab-d65", one).delta_e(self.color("lab-d65", two), method="2000") for one, two in pairs]
        )

    def nearest(self, r: float, g: float, b: float) -> list[int]:
        colour = self.color("srgb", [r / 255, g / 255, b / 255])
        delta_e = [colour.delta_e(other, method="2000") for other in self.palette]
        return sorted(range(len(delta_e)), key=delta_e.__getitem__)[:TOP]

    def nearest_batch(self, rgb: Floats) -> Places:
        return np.array([self.nearest(*row) for row in rgb.tolist()])


_OURS: list[type[Colours]] = [Sepu, SepuWithoutIndex, SepuOnAvx2, SepuOnAvx2WithoutIndex]
PEERS: list[type[Colours]] = [*_OURS, C, ScikitImage, ColourScience, Coloraide]
