"""Hostile picture files, each read in a process of limited memory and time: `make fuzz WHAT=picture`.

A file is made from pictures of every format: their parts (chunks, segments, boxes) are repeated, dropped, exchanged and
mixed, then bytes are changed. It must give an answer or an ImageError that says what to do, without another process, a
socket or a written file. `python -m tests.fuzz.picture 1/4711 FILE` writes one case.
"""

import io
import os
import re
import resource
import struct
import sys
import tempfile
import time
import zlib
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from itertools import count, pairwise, takewhile
from pathlib import Path
from random import Random
from typing import Any

from PIL import Image, ImageCms, PngImagePlugin
from tests.fuzz import apart
from tests.fuzz.outcome import Outcome

from sepu import limits
from sepu.library.images import ImageError, count_pixels, read_image
from sepu.library.release import load_release

PIXELS = 2**20
MEMORY_BYTES = 300 * 2**20  # more than that many pixels need
ADDRESSES_BYTES = 4 * 2**30  # what is reserved; WebP's decoder reserves 1.4 GB for a large canvas, and does not use it

SIGNATURE = b"\x89PNG\r\n\x1a\n"
ENDINGS = [".png", ".jpg", ".gif", ".bmp", ".tif", ".webp", ".avif", ".eps", ".psd", ".fits", ""]
NUMBERS = sorted(
    {0, 2, *(2**bits + more for bits in (0, 7, 8, 14, 16, 24, 31, 32) for more in (-1, 0) if bits + more < 32)}
)
FORMS = ["B", ">H", "<H", ">I", "<I"]
FOREIGN = ["EPS", "PPM", "PCX", "TGA", "SGI", "ICO", "SPIDER", "DDS", "JPEG2000", "XBM", "MSP"]
POSTSCRIPT = b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 8 8\n%%EndComments\n{} loop\n"
# What no decoding does (PEP 578).
FORBIDDEN = ("subprocess.", "os.exec", "os.fork", "os.posix_spawn", "os.system", "os.remove", "os.rename", "socket.")


@cache
def seeds() -> dict[str, list[bytes]]:
    """Small pictures by their format, in many of its kinds."""
    rgb = Image.radial_gradient("L").resize((24, 18)).convert("RGB")
    rgb.paste((200, 60, 35), (3, 3, 9, 9))
    frames: dict[str, Any] = {"save_all": True}
    exif = Image.Exif()
    exif[0x0112] = 6
    text = PngImagePlugin.PngInfo()
    text.add_text("Comment", "红" * 50, zip=True)
    text.add_itxt("XML:com.adobe.xmp", '<x tiff:Orientation="8"/>')
    made_now = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
    profile = made_now[:24] + bytes(12) + made_now[36:]  # without the date
    modes = {mode: rgb.convert(mode) for mode in ("1", "L", "LA", "P", "RGB", "RGBA", "CMYK", "YCbCr", "I", "F")}
    modes["I;16"] = modes["I"].convert("I;16")
    rich: dict[str, Any] = {"exif": exif.tobytes(), "icc_profile": profile}
    kinds: dict[str, list[tuple[str, dict[str, Any]]]] = {
        "PNG": [(mode, {}) for mode in ("1", "L", "LA", "P", "RGB", "RGBA", "I;16")]
        + [
            ("RGB", {**rich, "pnginfo": text}),
            ("P", {"transparency": 3}),
            ("RGBA", frames),
            ("L", {"transparency": 9}),
        ],
        "JPEG": [("L", {}), ("RGB", rich), ("CMYK", rich), ("RGB", {"progressive": True, "comment": b"no"})],
        "MPO": [("RGB", frames)],
        "GIF": [("L", {}), ("P", {"transparency": 1, "comment": "no"}), ("RGB", frames)],
        "BMP": [(mode, {}) for mode in ("1", "L", "P", "RGB", "RGBA")],
        "TIFF": [(mode, {}) for mode in ("1", "L", "LA", "P", "RGBA", "CMYK", "YCbCr", "I;16", "F")]
        + [("RGB", {"compression": f"tiff_{name}"}) for name in ("deflate", "lzw", "jpeg", "adobe_deflate")]
        + [
            ("1", {"compression": "group4"}),
            ("RGB", {"compression": "packbits"}),
            ("RGB", {"icc_profile": profile, **frames}),
        ]
        + [("RGB", {"big_tiff": True, "compression": "zstd"}), ("RGB", {"compression": "lzma"})],
        "WEBP": [("RGB", {}), ("RGBA", {"lossless": True}), ("RGB", rich), ("RGB", frames)],
        "AVIF": [
            ("RGB", {"speed": 10}),
            ("RGBA", {"speed": 10, "subsampling": "4:4:4"}),
            ("RGB", {"speed": 10, **rich}),
        ],
        **{name: [("1" if name in {"XBM", "MSP"} else "F" if name == "SPIDER" else "RGB", {})] for name in FOREIGN},
    }
    made: dict[str, list[bytes]] = {}
    for name, ways in kinds.items():
        for mode, settings in ways:
            file = io.BytesIO()
            # Pillow leaves settings of one format in an image, which break another's.
            more = {"append_images": [rgb.rotate(90), rgb.rotate(180)]} if "save_all" in settings else {}
            modes[mode].copy().save(file, name, **settings, **more)
            made.setdefault(name, []).append(file.getvalue())
    made["EPS"].append(POSTSCRIPT)
    return made


def _cut(data: bytes, places: Iterable[int]) -> list[bytes]:
    return [data[start:end] for start, end in pairwise([0, *places, len(data)])]


def _long(at: int, length: Callable[[int], int], data: bytes) -> Iterator[int]:
    """The places of parts that say their length."""
    while at < len(data):
        yield at
        at += length(at)


def _chunks(data: bytes) -> list[bytes]:
    """PNG's: the length, the kind, the content, and its CRC."""
    return _cut(data, _long(8, lambda at: 12 + int.from_bytes(data[at : at + 4]), data))


def _riff(data: bytes) -> list[bytes]:
    return _cut(data, _long(12, lambda at: 8 + (int.from_bytes(data[at + 4 : at + 8], "little") + 1 & ~1), data))


def _boxes(data: bytes) -> list[bytes]:
    """AVIF's, in and out of `meta` and its children."""

    def length(at: int) -> int:
        nested = {b"meta": 12, b"iprp": 8, b"ipco": 8, b"iinf": 14}.get(data[at + 4 : at + 8])
        return nested or max(8, int.from_bytes(data[at : at + 4]))

    return _cut(data, _long(0, length, data))


def _segments(data: bytes) -> list[bytes]:
    """JPEG's: from marker to marker."""
    return _cut(data, (found.start() for found in re.finditer(rb"(?<!^)\xff[^\0\xff]", data)))


def _blocks(data: bytes) -> list[bytes]:
    """GIF's, by how they begin."""
    return _cut(data, (found.end() - 1 for found in re.finditer(rb"\0[\x21\x2c]", data)))


def _entries(data: bytes) -> list[bytes]:
    """TIFF's, of whatever directory; a part may begin anywhere in a directory of the right phase."""
    return _cut(data, range(10, len(data), 12))


PARTS: dict[str, Callable[[bytes], list[bytes]]] = {
    "PNG": _chunks,
    "JPEG": _segments,
    "MPO": _segments,
    "GIF": _blocks,
    "TIFF": _entries,
    "WEBP": _riff,
    "AVIF": _boxes,
}


def _mixed(rng: Random, name: str, data: bytes) -> bytes:
    """The file with other parts, or the same ones in another order or number."""
    parts = PARTS[name](data)
    for _ in range(rng.choice([1, 1, 2, 5])):
        at = rng.randrange(len(parts))
        what = rng.choice(["drop", "repeat", "many", "swap", "other", "other", "change", "change"])
        if what == "drop":
            parts[at:] = parts[at + 1 :] or parts[at:]
        elif what in {"repeat", "many"}:
            parts[at:at] = [parts[at]] * (
                rng.randrange(5) if what == "repeat" else min(5000, 200_000 // len(parts[at] + b"-"))
            )
        elif what == "swap":
            other = rng.randrange(len(parts))
            parts[at], parts[other] = parts[other], parts[at]
        elif what == "other":
            parts[at : at + rng.randrange(2)] = [rng.choice(PARTS[name](rng.choice(seeds()[name])))]
        else:
            parts[at] = _changed(rng, parts[at])
    if name == "PNG" and rng.random() < 0.9:
        parts = [part if part.startswith(SIGNATURE[:4]) else _sound(part) for part in parts]
    return b"".join(parts)


def _sound(chunk: bytes) -> bytes:
    """The chunk of PNG with its true length and CRC."""
    kind, content = chunk[4:8].ljust(4, b"x"), chunk[8:-4]
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))


def _changed(rng: Random, data: bytes) -> bytes:
    """The same with other bytes in some places; more often at the beginning, where sizes are."""
    made = bytearray(data or b"-")
    for _ in range(rng.choice([1, 1, 1, 2, 4, 16])):
        at = rng.randrange(min(len(made), rng.choice([16, 64, 10**6])) or 1)
        what = rng.randrange(6)
        if what == 0 and made:
            made[at] ^= 1 << rng.randrange(8)
        elif what == 1:
            del made[at : at + rng.choice([1, 2, 4, 100])]
        elif what == 2:
            made[at:at] = rng.randbytes(rng.choice([1, 2, 4, 100]))
        elif what == 3 and rng.random() < 0.3:
            del made[at:]
        else:
            form = rng.choice(FORMS)
            number = struct.pack(form, rng.choice(NUMBERS) % (1 << 8 * struct.calcsize(form)))
            made[at : at + len(number)] = number
    return bytes(made)


def case(seed: str) -> tuple[str, bytes]:
    """The ending and the content of a file."""
    rng = Random(seed)
    name = rng.choice([*PARTS, *PARTS, "BMP", *FOREIGN])
    data = rng.choice(seeds()[name])
    if name in PARTS and rng.random() < 0.6:
        data = _mixed(rng, name, data)
    if name not in PARTS or rng.random() < 0.6:
        data = _changed(rng, data) if rng.random() < 0.9 else data
    return rng.choice(ENDINGS), data


def read(directory: str) -> None:
    """Reads the cases whose seeds come on standard input; writes what each came to on standard output."""
    # What a decoder or its child may print is no answer, and no child keeps this pipe open.
    sys.__stdout__ = os.fdopen(os.dup(1), "w")  # type: ignore[misc]
    os.dup2(2, 1)
    resource.setrlimit(resource.RLIMIT_AS, (ADDRESSES_BYTES, ADDRESSES_BYTES))
    limits.IMAGE_PIXELS = PIXELS
    palette = load_release().palette()
    seeds()
    done: list[str] = []
    guarded = False

    def audit(event: str, arguments: tuple[Any, ...]) -> None:
        writes = event == "open" and arguments[2] & (os.O_WRONLY | os.O_RDWR)
        if guarded and (writes or event.startswith(FORBIDDEN)):
            done.append(f"{event} {arguments}")

    sys.addaudithook(audit)
    # libtiff, too, prints its errors, but on the file and not here; no Python program can stop it.
    sys.stderr = printed = io.StringIO()
    before = _peak()

    def outcome(seed: str) -> str:
        nonlocal guarded
        ending, data = case(seed)
        file = Path(directory, f"picture{ending}")
        file.write_bytes(data)
        guarded = True
        try:
            pixels, opacity = read_image(file)
            assert pixels.dtype == "uint8"
            assert pixels.shape[2] == 3
            assert pixels.size <= 3 * PIXELS
            assert opacity is None or opacity.shape == pixels.shape[:2]
            count_pixels(palette, pixels, opacity)
            found = "read"
        except ImageError as error:
            text = str(error)
            sound = text.isprintable() and len(text) <= 600 and "memory" not in text
            found = "refused" if sound else f"FAULT {text!r:.600}"
        except BaseException as error:
            found = f"FAULT {error!r:.600}"
        guarded = False
        file.unlink()
        if done or printed.getvalue():
            return f"FAULT {done} {printed.getvalue()!r:.600}"
        used = _peak() - before
        return found if used <= MEMORY_BYTES else f"FAULT {used / 2**20:.0f} MiB"

    apart.answer(outcome)


def _peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def run(seed: int, numbers: Iterable[int]) -> Outcome:
    """Reads the cases of these numbers."""
    outcome = Outcome()
    with tempfile.TemporaryDirectory(prefix="sepu-fuzz-") as directory:
        for case_, found in apart.ask("tests.fuzz.picture", directory, (f"{seed}/{number}" for number in numbers)):
            outcome.tried[found.partition(" ")[0]] += 1
            outcome.faults += [f"case {case_}: {found}"] if found.startswith("FAULT") else []
    return outcome


def fuzz(seconds: float, seed: int) -> Outcome:
    end = time.monotonic() + seconds
    return run(seed, takewhile(lambda _: time.monotonic() < end, count()))


if __name__ == "__main__":
    if len(sys.argv) == 2:
        read(sys.argv[1])
    else:
        Path(sys.argv[2]).write_bytes(case(sys.argv[1])[1])
