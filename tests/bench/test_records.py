"""The history of records: what lasts is found at its record, noise is not, and nothing disappears unseen."""

import json
import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from bench.load.figures import Sample, times
from bench.records import Times, by_machine, history, read, save

from bench import machine

pytest.importorskip("otava", reason="Otava has no release for this CPython yet")

from bench.changes import changes

from bench import report

pytestmark = pytest.mark.slow

MACHINE = {
    "cpu": "A",
    "cores": 2,
    "system": "Linux x86_64",
    "python": "CPython 3.11.2",
    "packages": {"falcon": "4.4.0"},
}


def keep(directory: Path, number: int, medians: Mapping[str, float], commit: str = "", **conditions: Any) -> None:
    """As pytest-benchmark does."""
    data = {
        "machine_info": {**MACHINE, **conditions},
        "commit_info": {"id": commit or f"{number:040}", "dirty": False},
        "datetime": f"2026-{1 + number // 28:02}-{1 + number % 28:02}T12:00:00+00:00",
        "benchmarks": [
            {"fullname": name, "stats": {"median": median, "q1": median * 0.99, "q3": median * 1.01, "min": 0}}
            for name, median in medians.items()
        ],
    }
    home = directory / "Linux-CPython-3.11-64bit"
    home.mkdir(exist_ok=True)
    (home / f"{number:04}_commit.json").write_text(json.dumps(data), "utf-8")


def found(directory: Path) -> dict[str, list[tuple[str, float]]]:
    """The commits of the change points of each benchmark, and how much changed."""
    (named,) = by_machine(history(directory)).values()
    return {name: [(c.since.commit.lstrip("0"), c.by) for c in changes(name, of)] for name, of in named.items()}


def test_a_step_is_found_at_its_record_and_noise_is_none(tmp_path: Path) -> None:
    rng = random.Random(161)
    for number in range(40):
        level = {"slower": 1.05, "faster": 1 / 1.05, "the same": 1.0}
        keep(
            tmp_path,
            number,
            {name: (step if number >= 25 else 1) * rng.gauss(1e-3, 2e-6) for name, step in level.items()},
        )
    points = found(tmp_path)
    assert points.pop("the same") == []
    assert {name: [commit for commit, _ in at] for name, at in points.items()} == {"slower": ["25"], "faster": ["25"]}
    assert points["slower"][0][1] == pytest.approx(0.05, abs=0.005)
    top, _, rest = report.page(history(tmp_path), ["Cost: core +1 %: <why>"], "no alarm\nmore").partition(
        "What changed"
    )
    assert "<summary>no alarm</summary>" in top
    assert "Cost: core +1 %: &lt;why&gt;" in rest
    assert "slower" in rest.partition("<h2>")[0]


def test_only_records_of_one_processor_and_python_compare(tmp_path: Path) -> None:
    others: list[dict[str, Any]] = [{}, {"cpu": "B"}, {"cores": 4}, {"python": "CPython 3.12.1"}]
    for number in range(80):
        conditions = others[number % 4]
        keep(tmp_path, number, {"a": 1 + number % 4 + number % 3 * 0.001}, **conditions)
    series = by_machine(history(tmp_path))
    assert [(told.cpu, told.cores, told.python, len(named["a"])) for told, named in series.items()] == [
        ("A", 2, "CPython 3.11", 20),
        ("B", 2, "CPython 3.11", 20),
        ("A", 4, "CPython 3.11", 20),
        ("A", 2, "CPython 3.12", 20),
    ]
    assert not any(changes("a", named["a"]) for named in series.values())


def test_a_record_of_load_is_of_the_same_format(tmp_path: Path) -> None:
    rounds = [Sample(1.0, 100, [late] * 100, cpu={"workers": 0.02}) for late in (1e-3, 2e-3, 4e-3)]
    kept = {f"load/run::{what}": taken for what, taken in times(rounds).items()}
    file = save(tmp_path, "load", kept, settings={"rounds": 3})
    record = read(file)
    assert record.times["load/run::p50"] == pytest.approx(Times(2e-3, 1.25e-3, 3.5e-3))
    assert record.times["load/run::time of an answer"].median == pytest.approx(0.01)
    assert record.times["load/run::CPU of workers"].median == pytest.approx(2e-4)
    assert (record.commit, record.dirty) == machine.commit()
    assert history(tmp_path) == [record]
    assert {"python", "compiler", "libc", "psycopg"} <= record.versions.keys()
    assert "node" not in file.read_text("utf-8"), "the host's name"
