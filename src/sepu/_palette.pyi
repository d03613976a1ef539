"""The docstrings of the compiled module, cext/_palette.pyx, give shapes, units and errors."""

from collections.abc import Callable, Iterable
from typing import Any, Literal, final

import numpy as np
from numpy.typing import ArrayLike, NDArray
from typing_extensions import Buffer

def hex_to_rgb(values: ArrayLike) -> NDArray[np.uint8]: ...
def srgb_to_lab(rgb: ArrayLike, *, scale: float | None = None) -> NDArray[np.float64]: ...
def ciede2000(lab1: ArrayLike, lab2: ArrayLike, *, instruction_set: str | None = None) -> NDArray[np.float64]: ...
def as_array(values: ArrayLike, name: str) -> NDArray[Any]: ...
def check_shape(array: NDArray[Any], name: str, most_channels: int = 3) -> None: ...
def read_scale(array: NDArray[np.number[Any]], scale: float | None, name: str) -> int: ...
def check_range(array: NDArray[np.number[Any]], scale: float, name: str) -> None: ...
def instruction_sets() -> tuple[str, ...]: ...
def format_decimal(value: float) -> bytes: ...

DifferenceName = Literal["ciede2000", "cie94", "cie76", "hyab", "oklab"]
DIFFERENCE_NAMES: tuple[DifferenceName, ...]

@final
class Palette:
    def __init__(
        self,
        rgb: ArrayLike | None = None,
        index: bool | Buffer | None = None,
        *,
        lab: ArrayLike | None = None,
        difference: DifferenceName = "ciede2000",
        scale: float | None = None,
        instruction_set: str | None = None,
    ) -> None: ...
    @property
    def size(self) -> int: ...
    @property
    def difference(self) -> DifferenceName: ...
    @property
    def index(self) -> bytes | None: ...
    def build_index(
        self, *, k: int = 10, threads: int | None = None, progress: Callable[[float], object] | None = None
    ) -> bytes: ...
    def __len__(self, /) -> int: ...
    def nearest(
        self,
        r: float | None = None,
        g: float | None = None,
        b: float | None = None,
        k: int = 1,
        *,
        lab: ArrayLike | None = None,
        white: Literal["D65", "D50"] = "D65",
    ) -> list[tuple[int, float]]: ...
    def nearest_batch(
        self,
        rgb: ArrayLike | None = None,
        k: int = 1,
        *,
        lab: ArrayLike | None = None,
        white: Literal["D65", "D50"] = "D65",
        scale: float | None = None,
        background: ArrayLike | None = None,
        threads: int | None = 1,
    ) -> tuple[NDArray[np.intp], NDArray[np.float64]]: ...
    def delta_e(
        self,
        rgb: ArrayLike | None = None,
        *,
        lab: ArrayLike | None = None,
        white: Literal["D65", "D50"] = "D65",
        scale: float | None = None,
        background: ArrayLike | None = None,
    ) -> NDArray[np.float64]: ...

@final
class MatchWriter:
    def __init__(
        self, palette: Palette, colours: Iterable[bytes], *, match: bytes, result: bytes, answer: bytes
    ) -> None: ...
    def write(self, colours: Iterable[tuple[float, float, float]], k: int) -> bytes: ...
