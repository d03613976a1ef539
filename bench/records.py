"""Reads what `make bench` saved: the files of pytest-benchmark."""

import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any, NamedTuple

DIRECTORY = Path(__file__).with_name("records")
# Times on different hardware cannot be compared. The other fields are versions, of which a comparison reports changes.
HARDWARE = ("cpu", "cores", "system")


class Times(NamedTuple):
    """The times of one benchmark, in seconds."""

    median: float
    q1: float
    q3: float


@dataclass(frozen=True)
class Record:
    """One run of the suite."""

    name: str
    when: str
    commit: str
    changed: bool  # since that commit
    machine: Mapping[str, Any]
    times: Mapping[str, Times]

    @property
    def title(self) -> str:
        return f"{self.name}  {self.commit[:12]}{'+' if self.changed else ''}  {self.when[:16].replace('T', ' ')}"

    @property
    def hardware(self) -> tuple[Any, ...]:
        return tuple(self.machine.get(name) for name in HARDWARE)

    @property
    def versions(self) -> dict[str, str]:
        plain = {name: str(value) for name, value in self.machine.items() if name not in (*HARDWARE, "packages")}
        return {**plain, **self.machine.get("packages", {})}


def read(file: Path) -> Record:
    """Reads one file of pytest-benchmark."""
    data = json.loads(file.read_text("utf-8"))
    commit = data["commit_info"]
    return Record(
        name=file.name.partition("_")[0],
        when=data["datetime"],
        commit=str(commit.get("id")),
        changed=bool(commit.get("dirty")),
        machine=data["machine_info"],
        times={
            found["fullname"]: Times(*(found["stats"][of] for of in ("median", "q1", "q3")))
            for found in data["benchmarks"]
        },
    )


def history(directory: Path = DIRECTORY) -> list[Record]:
    """Returns all records, the oldest first; ends the program if there is none."""
    found = sorted(map(read, directory.glob("*/*.json")), key=lambda record: record.when)
    if not found:
        sys.exit(f"no record in {directory}: `make bench` makes one")
    return found


def differences(before: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    """Returns what is not the same, as text."""
    names = sorted(before.keys() | now.keys())
    return [
        f"{name}: {before.get(name, 'none')} before, {now.get(name, 'none')} now"
        for name in names
        if before.get(name) != now.get(name)
    ]


def moved(before: Record, now: Record) -> list[str]:
    """Returns the benchmarks that only one record has, each with a similar name, which may be the same benchmark."""
    new, gone = now.times.keys() - before.times.keys(), before.times.keys() - now.times.keys()
    lines = []
    for name in sorted(gone):
        if close := get_close_matches(name, new, 1, 0.8):
            new -= {close[0]}
            lines.append(f"renamed?  {name} -> {close[0]}")
        else:
            lines.append(f"gone      {name}")
    return lines + [f"new       {name}" for name in sorted(new)]


def in_words(seconds: float) -> str:
    for unit, size in (("s", 1), ("ms", 1e-3), ("µs", 1e-6)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds / 1e-9:.3g} ns"
