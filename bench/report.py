"""`make bench-report`: what gate, benchmarks, peers and load printed last, and the accepted costs, on one page."""

import json
import sys
from collections.abc import Iterator
from html import escape
from pathlib import Path
from typing import Any

from bench.commits import ROOT
from bench.gate.costs import dated

# What `make bench-gate`, `make bench-peers` and `make load` leave in build/.
GATE, PEERS, LOAD = "gate.md", "peers.txt", "load/*.md"
RECORDS = ROOT / "bench" / "records"
COMPARED = 5  # records


def page(build: Path, records: Path = RECORDS) -> str:
    """Returns a self-contained page."""
    found = [build / GATE, *sorted(build.glob(LOAD), reverse=True), build / PEERS]
    parts = [(file.name, file.read_text("utf-8")) for file in found if file.exists()]
    parts[1:1] = [("Benchmarks: medians in µs, the newest first", "\n".join(medians(records)))]
    parts.append(("Accepted costs", "\n".join(dated())))
    folded = (f"<h2>{escape(name)}</h2><pre>{escape(text)}</pre>" for name, text in parts)
    return f'<!doctype html><meta charset="utf-8"><title>sepu: benchmarks</title>{"".join(folded)}\n'


def medians(records: Path) -> Iterator[str]:
    """Yields a line for each benchmark. Records of different machines do not compare, so each has its own lines."""
    found = [json.loads(file.read_text("utf-8")) for file in records.glob("*/*.json")]
    found.sort(key=lambda record: str(record["datetime"]), reverse=True)
    machines: dict[str, list[Any]] = {}
    for record in found:
        told = record["machine_info"]
        machines.setdefault(f"{told['cpu']}, {told['cores']} cores, {told['python']}", []).append(record)
    for machine, all_of_it in machines.items():
        mine = all_of_it[:COMPARED]
        yield f"{machine}: {', '.join(str(record['commit_info'].get('id'))[:12] for record in mine)}"
        times = [{each["fullname"]: each["stats"]["median"] for each in record["benchmarks"]} for record in mine]
        for name in times[0]:
            yield f"{name:<75}" + "".join(f"{1e6 * each[name]:>14,.1f}" if name in each else " " * 14 for each in times)


def main(file: str) -> None:
    """Writes the page."""
    path = Path(file)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(page(path.parent), "utf-8")
    print(file)


if __name__ == "__main__":
    main(*sys.argv[1:])
