"""Runs programs under callgrind, which emulates the processor and counts instructions instead of time.

So the machine's load has no effect. Callgrind writes its counts when counted.c says so, or at each call of a certain
function that the program does not call otherwise.
"""

import ctypes
import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

NEEDED = (
    "the gate needs Linux and valgrind with its headers (Debian and Ubuntu: apt install valgrind); on aarch64 3.22 or "
    "newer (Debian 13), because an older one aborts at numpy: https://bugs.kde.org/461074"
)
CALLS = "system calls"  # calls of these C library functions:
_CALLS = {
    *("read", "readv", "recv", "recvfrom", "recvmsg", "write", "writev", "send", "sendto", "sendmsg"),
    *("close", "epoll_ctl", "epoll_pwait", "epoll_wait", "fcntl", "ioctl", "poll", "ppoll"),
}
_CALLED = re.compile(r"^cfn=_*(?:libc_)?(\w+).*\ncalls=(\d+)", re.MULTILINE)
_TOTAL = re.compile(r"^(?:summary|totals): (\d+)", re.MULTILINE)
_process_id = os.getpid
Block = tuple[str, int, int]  # callgrind's file, allocations, bytes


def valgrind() -> str | None:
    """Returns valgrind's path, or None where nothing can be counted."""
    return shutil.which("valgrind") if sys.platform == "linux" else None


def command(directory: Path, when: str, *program: str) -> list[str]:
    """Returns the command that counts a program; callgrind writes its files into the directory."""
    found = valgrind()
    assert found is not None, NEEDED
    return [
        *(found, "--tool=callgrind", f"--log-file={directory}/log", f"--callgrind-out-file={directory}/counts.%p"),
        *(when, "--dump-line=no", "--compress-strings=no", "--compress-pos=no", *program),
    ]


def environment(**more: str) -> dict[str, str]:
    """Returns the environment of counted programs. It is minimal, because Python reads it.

    With malloc alone, which caches all small blocks, an allocation always costs the same. With Python's allocator the
    count varies by 0.5 % with how full its pools are.
    """
    return {
        "PATH": os.environ["PATH"],
        "PYTHONHASHSEED": "0",
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONMALLOC": "malloc",
        "OPENBLAS_NUM_THREADS": "1",  # numpy's threads wait by spinning, longer on a busy machine
        "GLIBC_TUNABLES": "glibc.malloc.tcache_count=2000:glibc.malloc.tcache_max=65536",
        **more,
    }


def dumps(directory: Path, process: int | str = "*") -> list[Path]:
    """Returns the files of a process, in order."""
    return sorted(directory.glob(f"counts.{process}.*"), key=lambda file: int(file.suffix[1:]))


def library(directory: Path) -> str:
    """Compiles counted.c; returns the library to preload."""
    made = directory / "counted.so"
    source = Path(__file__).with_name("counted.c")
    subprocess.run(["cc", "-O1", "-fno-builtin", "-shared", "-fPIC", "-o", made, source], check=True, timeout=60)
    return str(made)


def read(dump: str | Path) -> str:
    """Returns the text of a file."""
    return Path(dump).read_text("utf-8", "replace")


def total(dump: str) -> int:
    """Returns the instructions in a file."""
    found = _TOTAL.search(dump)
    assert found is not None
    return int(found[1])


def calls(dump: str) -> int:
    """Returns the system calls in a file."""
    return sum(int(often) for name, often in _CALLED.findall(dump) if name in _CALLS)


def functions(dump: str) -> Counter[str]:
    """Returns each function's instructions in a file, excluding those of the functions that it calls."""
    found: Counter[str] = Counter()
    library, name, called = "", "", False
    for line in dump.splitlines():
        key, _, value = line.partition("=")
        if key == "ob":
            library = Path(value).name
        elif key == "fn":
            named = "(no name)" if value.startswith("0x") else value.partition("'")[0]
            name = f"{named} ({library})"
        elif key == "calls":
            called = True  # the next line has the called function's cost
        elif line[:1].isdigit():
            found[name] += 0 if called else int(line.split()[-1])
            called = False
    return found


@cache
def _counting() -> tuple[Any, ...]:
    """Returns the functions and counters of counted.c."""
    loaded = ctypes.CDLL(None)
    counters = (ctypes.c_size_t.in_dll(loaded, name) for name in ("allocations", "allocated_bytes"))
    return loaded.begin_counting, loaded.end_counting, loaded.stop_counting, *counters


def counted(directory: Path, run: Callable[[], object]) -> Block:
    """Counts one call, in the process that callgrind runs."""
    begin_counting, end_counting, _, allocations, size = _counting()
    begin_counting()
    run()
    end_counting()
    found = allocations.value, size.value
    return str(dumps(directory, _process_id())[-1]), *found


def stop_counting() -> None:
    """Lets the program run several times as fast until counting begins again."""
    _counting()[2]()
