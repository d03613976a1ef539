"""Hostile picture files, each read in a process of limited memory and time: `make fuzz WHAT=picture`.

A file is made from pictures of every format: parts (chunks, segments, boxes) are repeated, dropped, exchanged and
mixed, then bytes are changed. Reading must return pixels or raise an ImageError that says what to do, without another
process, a socket or a written file. `python -m tests.fuzz.picture 4711 FILE` writes one case.
"""

import faulthandler
import io
import os
import re
import resource
import signal
import struct
import subprocess
import sys
import tempfile
import zlib
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from itertools import pairwise, product
from pathlib import Path
from random import Random
from typing import Any

from PIL import Image, ImageCms, PngImagePlugin
from tests.fuzz.cases import Played
from tests.fuzz.seeds import mutate

from sepu import limits
from sepu.library.images import ImageError, count_pixels, read_image
from sepu.library.release import load_release

HANG_SECONDS = 40.0  # per case, which normally takes far less
PIXELS = 2**20
MEMORY_BYTES = 300 * 2**20  # more than that many pixels need
ADDRESSES_BYTES = 4 * 2**30  # reserved, not used: WebP's decoder reserves 1.4 GB for a large canvas

SIGNATURE = b"\x89PNG\r\n\x1a\n"
ENDINGS = [".png", ".jpg", ".gif", ".bmp", ".tif", ".webp", ".avif", ".eps", ".psd", ".fits", ""]
NUMBERS = sorted(
    {0, 2, *(2**bits + more for bits in (0, 7, 8, 14, 16, 24, 31, 32) for more in (-1, 0) if bits + more < 32)}
)
FORMS = ["B", ">H", "<H", ">I", "<I"]
NUL = [b"\0"]
FOREIGN = ["EPS", "PPM", "PCX", "TGA", "SGI", "ICO", "SPIDER", "DDS", "JPEG2000", "XBM", "MSP"]
POSTSCRIPT = b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 8 8\n%%EndComments\n{} loop\n"
# Audit events (PEP 578) that no decoding may raise.
FORBIDDEN = ("subprocess.", "os.exec", "os.fork", "os.posix_spawn", "os.system", "os.remove", "os.rename", "socket.")


@cache
def seeds() -> dict[str, list[bytes]]:
    """Small pictures by format, in many variants of each."""
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
    compressions = ("tiff_deflate", "tiff_lzw", "jpeg", "tiff_adobe_deflate", "packbits", "lzma", "group4")
    settings: dict[str, list[dict[str, Any]]] = {
        "PNG": [{**rich, "pnginfo": text}, {"transparency": 3}, frames],
        "JPEG": [rich, {"progressive": True, "comment": b"no"}],
        "MPO": [frames],
        "GIF": [{"transparency": 1, "comment": "no"}, frames],
        "TIFF": [
            *({"compression": name} for name in compressions),
            *({"icc_profile": profile, **frames}, {"big_tiff": True, "compression": "zstd"}),
        ],
        "WEBP": [{"lossless": True}, rich, frames],
        "AVIF": [{"speed": 10, **rich}, {"speed": 10, "subsampling": "4:4:4"}],
    }
    made: dict[str, list[bytes]] = {name: [] for name in (*PARTS, "BMP", *FOREIGN)}
    for name, files in made.items():
        for image, given in product(modes.values(), [{}, *settings.get(name, [])]):
            more = {"append_images": [rgb.rotate(90), rgb.rotate(180)]} if "save_all" in given else {}
            file = io.BytesIO()
            with suppress(OSError, ValueError, KeyError, struct.error):  # not every format has each mode and setting
                # Pillow leaves settings of one format in an image, which break another's.
                image.copy().save(file, name, **given, **more)
                files.append(file.getvalue())
    assert all(made.values())
    made["EPS"].append(POSTSCRIPT)
    return made


# The start of a part: a chunk of PNG or RIFF, a segment of JPEG, a block of GIF, an entry of TIFF, a box of AVIF.
PARTS = {
    "PNG": rb"(?s)....(?=IHDR|PLTE|IDAT|IEND|tRNS|iCCP|zTXt|iTXt|eXIf|acTL|fcTL|fdAT)",
    "JPEG": rb"\xff[^\0\xff]",
    "MPO": rb"\xff[^\0\xff]",
    "GIF": rb"(?<=\0)[\x21\x2c]",
    "TIFF": rb"(?s)(?<=.{10}).{12}",
    "WEBP": rb"VP8[ LX]|ANIM|ANMF|ALPH|EXIF|ICCP|XMP ",
    "AVIF": rb"(?s)....(?=meta|hdlr|pitm|iloc|iinf|infe|iprp|ipco|ipma|ispe|pixi|av1C|colr|irot|imir|mdat)",
}


def _parts(name: str, data: bytes) -> list[bytes]:
    starts = [found.start() for found in re.finditer(PARTS[name], data)]
    return [data[start:end] for start, end in pairwise([0, *starts, len(data)])]


def _mixed(rng: Random, name: str, data: bytes) -> bytes:
    """The file with foreign parts, or its own in another order or number."""
    parts = _parts(name, data)
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
            parts[at : at + rng.randrange(2)] = [rng.choice(_parts(name, rng.choice(seeds()[name])))]
        else:
            parts[at] = _changed(rng, parts[at])
    if name == "PNG" and rng.random() < 0.9:
        parts = [part if part.startswith(SIGNATURE[:4]) else _sound(part) for part in parts]
    return b"".join(parts)


def _sound(chunk: bytes) -> bytes:
    """The PNG chunk with its correct length and CRC."""
    kind, content = chunk[4:8].ljust(4, b"x"), chunk[8:-4]
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))


def _changed(rng: Random, data: bytes) -> bytes:
    """The data with other bytes in some places; more often at the beginning, where sizes are."""
    for _ in range(rng.choice([1, 1, 1, 2, 4])):
        first = rng.choice([16, 64, 10**6])
        if rng.random() < 0.5:
            form = rng.choice(FORMS)
            number = struct.pack(form, rng.choice(NUMBERS) % (1 << 8 * struct.calcsize(form)))
            at = rng.randrange(min(len(data), first) or 1)
            data = data[:at] + number + data[at + len(number) :]
        else:
            data = mutate(rng, data[:first], NUL, NUL) + data[first:]
    return data


def made(number: int) -> tuple[str, bytes]:
    """The extension and content of a file."""
    rng = Random(number)
    name = rng.choice([*PARTS, *PARTS, "BMP", *FOREIGN])
    data = rng.choice(seeds()[name])
    if name in PARTS and rng.random() < 0.6:
        data = _mixed(rng, name, data)
    elif rng.random() < 0.9:
        data = _changed(rng, data)
    return rng.choice(ENDINGS), data


def read(directory: str) -> None:
    """Reads the cases whose numbers come on standard input; writes their outcomes to standard output."""
    # A decoder's or child's output must not mix with the answers, and no child may keep this pipe open.
    answers, errors = os.fdopen(os.dup(1), "w"), sys.stderr
    os.dup2(2, 1)
    if "asan" not in os.environ.get("LD_PRELOAD", ""):  # its shadow memory takes terabytes of addresses
        resource.setrlimit(resource.RLIMIT_AS, (ADDRESSES_BYTES, ADDRESSES_BYTES))
    limits.images.PIXELS = PIXELS
    palette = load_release().palette()
    seeds()
    done: list[str] = []
    guarded = False

    def audit(event: str, arguments: tuple[Any, ...]) -> None:
        writes = event == "open" and arguments[2] & (os.O_WRONLY | os.O_RDWR)
        if guarded and (writes or event.startswith(FORBIDDEN)):
            done.append(f"{event} {arguments}")

    sys.addaudithook(audit)
    # libtiff prints its errors to file descriptor 2, past this; Python cannot stop it.
    sys.stderr = printed = io.StringIO()
    before = _peak()

    def outcome(number: str) -> str:
        nonlocal guarded
        ending, data = made(int(number))
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

    for line in sys.stdin:
        faulthandler.dump_traceback_later(HANG_SECONDS, exit=True, file=errors)
        found = outcome(line.strip()).replace("\n", " ")
        faulthandler.cancel_dump_traceback_later()
        answers.write(f"{found}\n")
        answers.flush()


def _peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def play(numbers: Iterator[int]) -> Iterator[Played]:
    """Reports a case that ends the process as a fault; a new process continues."""
    case = next(numbers, None)
    while case is not None:
        with (
            tempfile.TemporaryDirectory(prefix="sepu-fuzz-") as directory,
            tempfile.TemporaryFile("w+") as log,
            subprocess.Popen(
                [sys.executable, "-W", "always", "-m", "tests.fuzz.picture", directory],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                cwd=Path(__file__).parents[2],
                env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
                start_new_session=True,
            ) as process,
        ):
            assert process.stdin is not None
            assert process.stdout is not None
            found = "begun"
            while case is not None and found:
                print(case, file=process.stdin, flush=True)
                found = process.stdout.readline().strip()
                if not found:
                    log.seek(0)
                kind, _, fault = (found or f"FAULT it ended: {log.read()[-600:]!r}").partition(" ")
                yield case, kind, fault or None
                case = next(numbers, None)
            os.killpg(process.pid, signal.SIGKILL)  # and any children


if __name__ == "__main__":
    if len(sys.argv) == 2:
        read(sys.argv[1])
    else:
        Path(sys.argv[2]).write_bytes(made(int(sys.argv[1]))[1])
