"""Reads the records of `make bench` and `make load`: both are files of pytest-benchmark's format."""

import json
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from bench import machine

DIRECTORY = Path(__file__).with_name("records")


class Times(NamedTuple):
    """The times of one benchmark, in seconds."""

    median: float
    q1: float
    q3: float


class Machine(NamedTuple):
    """What two records have in common if their times compare."""

    cpu: str
    cores: int
    system: str
    python: str  # without its last number

    def __str__(self) -> str:
        return f"{self.cpu}, {self.cores} cores, {self.system}, {self.python}"


@dataclass(frozen=True)
class Record:
    """One run of either."""

    when: str
    commit: str
    dirty: bool  # files had changed since that commit
    machine: Machine
    versions: Mapping[str, str]
    times: Mapping[str, Times]

    @property
    def title(self) -> str:
        return f"{self.commit[:12]}{'+' if self.dirty else ''}, {self.when[:16].replace('T', ' ')}"


def read(file: Path) -> Record:
    data = json.loads(file.read_text("utf-8"))
    told, commit = dict(data["machine_info"]), data["commit_info"]
    packages = told.pop("packages")
    return Record(
        when=data["datetime"],
        commit=str(commit.get("id")),
        dirty=bool(commit.get("dirty")),
        machine=Machine(told.pop("cpu"), told.pop("cores"), told.pop("system"), told["python"].rpartition(".")[0]),
        versions={**{name: str(value) for name, value in told.items()}, **packages},
        times={found["fullname"]: Times(*(found["stats"][of] for of in Times._fields)) for found in data["benchmarks"]},
    )


def history(directory: Path = DIRECTORY) -> list[Record]:
    """Returns all records, the oldest first; ends the program if there is none."""
    found = sorted(map(read, directory.glob("*/*.json")), key=lambda record: record.when)
    return found or sys.exit(f"no record in {directory}: `make bench` and `make load` make them")


def save(directory: Path, name: str, times: Mapping[str, Times], **more: object) -> Path:
    """Writes a record of these times, as pytest-benchmark does, and returns its file."""
    now = datetime.now(UTC)
    commit, dirty = machine.commit()
    record = {
        "machine_info": machine.description(),
        "commit_info": {"id": commit, "dirty": dirty},
        "datetime": now.isoformat(timespec="seconds"),
        "benchmarks": [{"fullname": benchmark, "stats": found._asdict()} for benchmark, found in times.items()],
        **more,
    }
    file = directory / name / f"{now:%Y%m%dT%H%M%SZ}_{commit[:12]}.json"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(record, indent=1, ensure_ascii=False) + "\n", "utf-8")
    return file


def by_machine(records: Iterable[Record]) -> dict[Machine, dict[str, list[Record]]]:
    """Returns the records that have each benchmark, of each machine; in the order of the records."""
    found: dict[Machine, dict[str, list[Record]]] = {}
    for record in records:
        for name in record.times:
            found.setdefault(record.machine, {}).setdefault(name, []).append(record)
    return found


def in_words(seconds: float) -> str:
    for unit, size in (("s", 1), ("ms", 1e-3), ("µs", 1e-6)):
        if seconds >= size:
            return f"{seconds / size:,.3g} {unit}"
    return f"{seconds / 1e-9:.3g} ns"
