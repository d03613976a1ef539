"""Inputs that are slow to read: the readers at each boundary, their worst known inputs, and a search for worse ones.

Processor time guides the search; instructions counted by valgrind decide: an input is a fault if four times its size
takes more than ten times the instructions. test_fuzz.py runs both; `make fuzz WHAT=slow` searches longer.
"""

import gc
import json
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache, partial
from itertools import islice
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from time import process_time
from typing import Any

from tests.fuzz.cases import Played
from tests.fuzz.seeds import mutate
from tests.harness import callgrind

from sepu.errors import InputError, SepuError

ROOT = Path(__file__).parents[2]
SIZES = (2048, 8192)
GROWTH = 6.25  # for four times the size; 16 would be quadratic
ONCE = 2e-3  # seconds; anything faster is too short to judge its growth
KEPT = 8
SHORTEST = 1024
TOKENS = [
    *b'" \\ [ ] { } , : ( ) /* */ -- - + . % %20 & = ; # #fff rgb( var(--a) 1 9 a _ e 1e308 1e-320 1e400 0.1'.split(),
    *b'"a": "r":1, :: $value \xcc\x81 \xcc\x96 \xe7\xba\xa2 \xef\xb7\xba \xff \0'.split(),
    *(b" ", b"\t", b"\n", b"\r"),
]

Read = Callable[[bytes], object]


@cache
def strangers() -> dict[str, Read]:
    """Returns the reader of each kind of input that a request has before its key is known."""
    from falcon.testing import create_environ

    from sepu.http.request import TimedRequest
    from sepu.http.request_checks import _api_key, _idempotency_key
    from sepu.metering.key_format import KeyTags
    from sepu.operations.match import parse_match
    from sepu.operations.search import parse_search

    tags, environ = KeyTags(bytes(32)), create_environ()
    request = TimedRequest(environ)

    def with_header(name: str, content: bytes) -> TimedRequest:
        environ[name] = content.decode("latin-1")
        return request

    return {
        "body": parse_match,
        "query": lambda content: parse_search(content.decode("latin-1")),
        "authorization": lambda content: tags.credential(_api_key(with_header("HTTP_AUTHORIZATION", content)) or ""),
        "idempotency key": lambda content: _idempotency_key(with_header("HTTP_IDEMPOTENCY_KEY", content)),
    }


@cache
def others() -> dict[str, Read]:
    """Returns the readers of files, of other servers' answers, and of colours and names that a program passes on."""
    from sepu.admin import receipts
    from sepu.admin.charges import read_log_line
    from sepu.library.palette_files import READERS
    from sepu.library.parsing import parse_color
    from sepu.library.release import load_release
    from sepu.server.webhooks import _seconds
    from sepu_client.colors import read_colors
    from sepu_client.results import read_refusal

    def text(read: Callable[[str], object]) -> Read:
        return lambda content: read(content.decode("utf-8", "replace"))

    return {
        "log line": read_log_line,
        "JWK": receipts.public_key,
        "retry-after": lambda content: _seconds(content.decode("latin-1")),
        "colour": text(parse_color),
        "colour of the client": text(lambda given: read_colors([given])),
        "answer to the client": read_refusal,
        "name": text(load_release().named),
        "search": text(load_release().search),
        **{
            ending: partial(lambda reader, content: list(islice(reader(content), 100)), reader)
            for ending, reader in READERS.items()
        },
    }


def reader(name: str) -> Read:
    """Returns a reader that suppresses its expected errors."""
    return partial(_quietly, strangers()[name] if name in strangers() else others()[name])


def _quietly(read: Any, content: bytes) -> None:
    with suppress(SepuError, InputError, ValueError, TypeError):
        read(content)


def repeated(before: bytes, unit: bytes, after: bytes = b"") -> Callable[[int], bytes]:
    """Returns a function that repeats a unit to an input of any size."""
    return lambda size: before + unit * ((size - len(before) - len(after)) // len(unit)) + after


# The first of each boundary once took quadratic time or worse, or a thousand times as long as others.
WORST: dict[str, list[Callable[[int], bytes]]] = {
    "body": [
        repeated(b'[1e400,"', b'\\"'),
        repeated(b"[", b"1e308,", b"1]"),
        repeated(b"[", b"1e400,", b"1]"),
        repeated(b"", b"["),
        repeated(b'{"colors":[{', b'"r":1,', b'"r":1}]}'),
    ],
    "query": [repeated(b"q=", b"%20"), repeated(b"", b"&=")],
    "idempotency key": [repeated(b"", b"a", b"?")],
    "authorization": [repeated(b"Bearer", b" ", b"x\n"), repeated(b"Bearer sepu_", b"a")],
    "log line": [repeated(b'{"a":"', b'\\"'), repeated(b"", b"[1e308,")],
    "JWK": [repeated(b'{"kty":"RSA","e":"AQAB","n":"', b"_", b'"}')],
    "retry-after": [repeated(b"", b"1"), repeated(b"Mon,", b" ")],
    "colour": [
        lambda size: b" ".join([b"1" * (size // 3 - 1)] * 3) + b"x",
        repeated(b"", b"1"),
        repeated(b"rgb(", b","),
    ],
    "colour of the client": [repeated(b"rgb(", b","), repeated(b"", b"1")],
    "answer to the client": [repeated(b"[", b"1,", b"1]"), repeated(b"", b"1")],
    "name": [repeated(b"", "\u0301\u0316".encode())],
    "search": [repeated(b"", "\u0301\u0316".encode()), repeated(b"", b"a")],
    ".json": [
        lambda size: b"[" * 30 + b"1," * (size // 2 - 31) + b"1" + b"]" * 30,
        lambda size: b'{"%b":{%b}}' % (b"a" * (size // 2), b",".join(b'"%d":"#fff"' % n for n in range(size // 28))),
        # Aliases of aliases, and groups that extend groups.
        lambda size: b'{"$value":1%b}' % b"".join(b',"%d":{"$value":"{%d}"}' % (n, n + 1) for n in range(size // 24)),
        lambda size: b'{"$value":1%b}' % b"".join(b',"%d":{"$extends":"{%d}"}' % (n, n + 1) for n in range(size // 26)),
        lambda size: (
            b'{"$type":"color"%b}'
            % b"".join(
                b',"%d":{"$value":{"colorSpace":"srgb","components":[{"$ref":"#/%d/$value/components/0"},0,0]}}'
                % (n, n + 1)
                for n in range(size // 88)
            )
        ),
    ],
    ".css": [
        *(repeated(b"", unit) for unit in (b"--a:1;", b"--a:", b"/*", b"--a/**/ ", b"--a:var(--a,")),
        repeated(b"--a", b" "),
        lambda size: b"".join(b"--a%d:var(--a%d);" % (n, n + 1) for n in range(size // 22)),
    ],
    ".gpl": [repeated(b"GIMP Palette\n1", b" ", b"x"), repeated(b"GIMP Palette\n", b"\n")],
    ".csv": [repeated(b"hex\n", b"\n"), repeated(b"hex", b",")],
    ".ase": [repeated(b"ASEF", b"\0")],
}


def instructions(inputs: Mapping[str, Sequence[tuple[str, bytes]]]) -> dict[str, list[int]]:
    """Counts the readers' instructions for inputs of growing sizes, all in one process.

    After a count of more than GROWTH times the previous one, larger inputs are skipped: they could take minutes.
    """
    with TemporaryDirectory() as directory:
        path = Path(directory)
        program = callgrind.command(path, "--instr-atstart=no", sys.executable, "-m", "tests.fuzz.slow", directory)
        given = {key: [(name, content.decode("latin-1")) for name, content in each] for key, each in inputs.items()}
        environment = callgrind.environment(LD_PRELOAD=callgrind.library(path), PYTHONPATH=str(ROOT))
        done = subprocess.run(
            program, input=json.dumps(given), env=environment, cwd=ROOT, capture_output=True, text=True, timeout=280,
            check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        found: dict[str, list[int]] = json.loads(done.stdout)
        return found


def main(directory: str) -> None:
    """Reads the inputs under callgrind, and prints the counts."""
    gc.disable()
    found: dict[str, list[int]] = {}
    for key, inputs in json.load(sys.stdin).items():
        reader(inputs[0][0])(inputs[0][1][:100].encode("latin-1"))
        counts = found[key] = []
        for name, content in inputs:
            file, *_ = callgrind.counted(Path(directory), partial(reader(name), content.encode("latin-1")))
            counts.append(callgrind.total(callgrind.read(file)))
            if len(counts) > 1 and counts[-1] > GROWTH * counts[-2]:
                break
    json.dump(found, sys.stdout)


def play(numbers: Iterator[int]) -> Iterator[Played]:
    """Changes the slowest inputs of each boundary in turn, and keeps those that take more time per byte."""
    names = [*strangers(), *others()]
    kept = {name: [(0.0, made(1024)) for made in WORST.get(name, WORST[".csv"])] for name in names}
    for number in numbers:
        rng, name = Random(number), names[number % len(names)]
        pool = kept[name]
        content = _changed(rng, rng.choice(pool)[1])
        content *= -(-SHORTEST // len(content))  # for a short input the call itself dominates
        seconds, fault = min(_seconds_of(name, content) for _ in range(3)), None
        pool.append((seconds / len(content), content))
        pool.sort(reverse=True)
        del pool[KEPT:]
        if pool[0][1] is content and seconds > ONCE / 4:
            grown = min(_seconds_of(name, _longer(content, 4)) for _ in range(3))
            if grown > ONCE and grown > 10 * seconds:
                fault = _fault(name, content)
        yield number, name, fault
    for name, pool in kept.items():
        print(f"{name}: {pool[0][0] * 1e9:,.0f} ns a byte, {len(pool[0][1])} bytes, {pool[0][1]!r:.200}")  # noqa: T201


def _seconds_of(name: str, content: bytes) -> float:
    begin = process_time()
    reader(name)(content)
    return process_time() - begin


def _fault(name: str, content: bytes) -> str | None:
    """Returns a description if the instruction counts confirm a slow input."""
    if callgrind.valgrind() is None:
        return None
    [[few, many]] = instructions({name: [(name, content), (name, _longer(content, 4))]}).values()
    if many <= 10 * few:
        return None
    return f"{few:,} instructions, and for four times the size {many:,}: {content!r:.500}"


def _changed(rng: Random, content: bytes) -> bytes:
    """Repeats, drops or exchanges a part, or changes bytes."""
    begin, end = sorted(rng.randrange(len(content) + 1) for _ in range(2))
    part = content[begin : min(end, begin + rng.choice((1, 2, 8, 64)))] or b"1"
    match rng.randrange(5):
        case 0:
            changed = content[:begin] + part * rng.randrange(2, 400) + content[end:]
        case 1:
            changed = content[:begin] + content[end:]
        case 2:
            changed = content[:begin] + rng.choice(TOKENS) + content[begin:]
        case 3:
            changed = content[:begin] + rng.choice(TOKENS) * rng.randrange(2, 400) + content[begin:]
        case _:
            changed = mutate(rng, content)
    return changed[:4096] or b"1"


def _longer(content: bytes, times: int) -> bytes:
    """Returns an input `times` the size, by repeating its middle."""
    middle = len(content) // 2
    return content[:middle] + content[middle : middle + 64] * (len(content) * (times - 1) // 64) + content[middle:]


if __name__ == "__main__":
    main(sys.argv[1])
