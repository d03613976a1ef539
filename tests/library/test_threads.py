"""Eight threads call each public function at the same time; no answer takes a lock or keeps memory.

On a CPython without a GIL no import may enable it again.
"""

import ctypes
import sys
import sysconfig
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from time import sleep

import numpy as np
import pytest

import sepu
from sepu import NamedPalette, Palette
from sepu._names import NameIndex
from sepu._palette import MatchWriter
from sepu.library.release import Release, load_release

THREADS = 8

RELEASE = sepu.load()
RGB = np.random.default_rng(1).integers(0, 256, (400, 3), dtype=np.uint8)
LAB = sepu.srgb_to_lab(RGB)
HEX = [f"#{r:02x}{g:02x}{b:02x}" for r, g, b in RGB.tolist()]
PALETTE = Palette(RGB)
INDEXED = RELEASE.palette()
TEMPLATES = {"match": b"%,%,%;", "result": b"%,%,%:%\n", "answer": b"[%]"}
WRITER = MatchWriter(PALETTE, [b"x"] * 400, **TEMPLATES)
MINE = NamedPalette({"rose": "#ff0080", "sky": "#80c0ff"})
NAMES = RELEASE.names()

CALLS: dict[str, Callable[[], object]] = {
    "match": lambda: sepu.match("#c83c23", top=3),
    "match of a name": lambda: sepu.match("绯红"),
    "match of CSS": lambda: sepu.match("oklch(0.6 0.2 30)"),
    "match of lab": lambda: sepu.match(lab=(46, 53, 42), white="D50"),
    "search": lambda: [sepu.search(q) for q in ("tao hong", "hong", "taohomg", "\N{ANGSTROM SIGN}")],
    "name_image": lambda: sepu.name_image(RGB.reshape(20, 20, 3), within=10),
    "load": lambda: [sepu.load() is RELEASE, RELEASE["fei-hong"], "no such" in RELEASE, len(RELEASE)],
    "NamedPalette": lambda: [MINE.match("red"), *(NamedPalette({"one": one}).match("#fff") for one in HEX[:3])],
    "ciede2000": lambda: sepu.ciede2000(LAB[:200], LAB[200:]).tobytes(),
    "srgb_to_lab": lambda: sepu.srgb_to_lab(RGB / 255, scale=1).tobytes(),
    "hex_to_rgb": lambda: sepu.hex_to_rgb(HEX).tobytes(),
    "Palette": lambda: Palette(RGB[:20], True).index,
    "nearest": lambda: [PALETTE.nearest(200, 60, 35, k) + INDEXED.nearest(1, 2.5, 3, k) for k in (1, 10, 100)],
    "nearest_batch": lambda: [a.tobytes() for p in (PALETTE, INDEXED) for a in p.nearest_batch(RGB, 3, threads=2)],
    "delta_e": lambda: INDEXED.delta_e(lab=LAB).tobytes(),
    "NameIndex": lambda: [NAMES.search(q, 5) for q in ("zhu", "zhu sha", "zhsua", "朱")],
    "MatchWriter": lambda: WRITER.write([(200, 60, 35), (0.5, 1, 2)], 5),
    "a new MatchWriter": lambda: MatchWriter(PALETTE, [b"x"] * 400, **TEMPLATES).write([(1, 2, 3)], 1),
    "a new NameIndex": lambda: NameIndex([("red", 0, 0)], [("red", 0, 0)], [[0]], [("red", 0)]).search("r", 1),
}


def by_threads(call: Callable[[], object], times: int = 1) -> list[object]:
    """The call's results in eight threads that begin together."""
    barrier = Barrier(THREADS)

    def repeat(_: int) -> list[object]:
        barrier.wait()
        return [call() for _ in range(times)]

    with ThreadPoolExecutor(THREADS) as pool:
        return [one for each in pool.map(repeat, range(THREADS)) for one in each]


@pytest.mark.parametrize("name", CALLS)
def test_each_thread_gets_the_answer_of_one(name: str) -> None:
    expected = CALLS[name]()
    assert by_threads(CALLS[name], 10) == [expected] * 10 * THREADS


C = ctypes.CDLL(None)


class Mallinfo(ctypes.Structure):
    _fields_ = [("sizes", ctypes.c_size_t * 10)]


def growth(call: Callable[[], object]) -> int:
    """Bytes that ten calls allocate and do not free; malloc itself keeps some of the first seven."""
    C.mallinfo2.restype = Mallinfo
    before = C.mallinfo2().sizes
    for _ in range(10):
        call()
    after = C.mallinfo2().sizes
    return sum(after[field] - before[field] for field in (4, 7))  # hblkhd and uordblks: large and small ones


@pytest.mark.skipif(not hasattr(C, "mallinfo2"), reason="only glibc says how much is allocated")
@pytest.mark.parametrize("name", CALLS)
def test_a_call_frees_what_it_allocates(name: str) -> None:
    """A leak grows every time; caches and ending threads do not."""
    assert any(growth(CALLS[name]) <= 0 for _ in range(6))


def test_nothing_brings_the_lock_back() -> None:
    """Importing a module that does not declare itself safe would enable it."""
    import sepu._index_builder

    assert sepu._index_builder
    assert getattr(sys, "_is_gil_enabled", lambda: True)() != bool(sysconfig.get_config_var("Py_GIL_DISABLED"))


def test_what_is_cached_is_made_once(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[object] = []

    def make() -> Release:
        sleep(0.02)  # so that other threads ask meanwhile
        made.append(None)
        return load_release()

    monkeypatch.setattr("sepu.library.release.load_release", make)
    monkeypatch.setattr("sepu._release", None)
    release = by_threads(sepu.load)[0]
    assert by_threads(sepu.load) == [release] * THREADS
    monkeypatch.setattr(Release, "palette", lambda _: make())
    by_threads(lambda: release._palette)  # type: ignore[attr-defined]
    assert len(made) == 2
