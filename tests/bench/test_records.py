"""Comparing and drawing records: nothing is compared that cannot be, and nothing disappears unseen."""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest
from bench.records import Record, history

from bench import compare, machine, report

MACHINE = {
    "cpu": "A",
    "cores": 2,
    "system": "Linux x86_64",
    "python": "CPython 3.11.2",
    "packages": {"falcon": "4.4.0"},
}


def save(directory: Path, number: int, medians: Mapping[str, float], **conditions: Any) -> None:
    """As pytest-benchmark does."""
    benchmarks = [
        {"fullname": name, "stats": {"median": median, "q1": median * 0.99, "q3": median * 1.01}}
        for name, median in medians.items()
    ]
    data = {
        "machine_info": {**MACHINE, **conditions},
        "commit_info": {"id": f"{number:040}", "dirty": False},
        "datetime": f"2026-11-{number:02}T12:00:00+00:00",
        "benchmarks": benchmarks,
    }
    home = directory / "Linux-CPython-3.11-64bit"
    home.mkdir(exist_ok=True)
    (home / f"{number:04}_commit.json").write_text(json.dumps(data), "utf-8")


def compared(directory: Path, which: str = "") -> list[str]:
    records = history(directory)
    return list(compare.lines(records, compare.chosen(records, which)))


def figures(lines: list[str]) -> list[str]:
    return [line for line in lines if "%" in line]


def test_a_change_beyond_the_spread_is_marked(tmp_path: Path) -> None:
    save(tmp_path, 1, {"a": 1e-3, "b": 1e-3, "c": 1e-3})
    save(tmp_path, 2, {"a": 1.3e-3, "b": 0.5e-3, "c": 1.001e-3})
    a, b, c = figures(compared(tmp_path))
    assert a.endswith("1 ms    1.3 ms   +30.0% slower")
    assert b.endswith("1 ms    500 µs   -50.0% faster")
    assert c.endswith("+0.1%")


def test_the_trend_goes_over_the_records_of_one_machine(tmp_path: Path) -> None:
    for number, seconds in enumerate((1, 2, 3), 1):
        save(tmp_path, number, {"a": seconds})
    save(tmp_path, 4, {"a": 100}, cpu="B")
    save(tmp_path, 5, {"a": 4})
    (line,) = figures(compared(tmp_path))
    assert "▁▃▆█" in line or "▁▃▅█" in line
    assert "+33.3%" in line  # against the last of the same machine


def test_other_hardware_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    save(tmp_path, 1, {"a": 1}, cpu="B")
    save(tmp_path, 2, {"a": 2})
    lines = compared(tmp_path)
    assert "NOT COMPARABLE  cpu: B before, A now" in lines
    assert not figures(lines)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compare, "history", lambda: history(tmp_path))
        with pytest.raises(SystemExit, match="1"):
            compare.main()
    assert "NOT COMPARABLE" in capsys.readouterr().out


def test_another_version_is_told(tmp_path: Path) -> None:
    save(tmp_path, 1, {"a": 1})
    save(tmp_path, 2, {"a": 2}, python="CPython 3.12.1", packages={"falcon": "4.5.0"})
    lines = compared(tmp_path)
    assert "OTHER VERSION   python: CPython 3.11.2 before, CPython 3.12.1 now" in lines
    assert "OTHER VERSION   falcon: 4.4.0 before, 4.5.0 now" in lines
    assert len(figures(lines)) == 1


def test_new_renamed_and_gone_benchmarks_are_named(tmp_path: Path) -> None:
    save(tmp_path, 1, {"bench/test_core.py::test_nearest": 1, "bench/test_core.py::test_nearest_k": 1, "z": 1})
    save(tmp_path, 2, {"bench/test_core.py::test_nearest": 1, "bench/test_core.py::test_nearest_of_k": 1, "new": 1})
    assert compared(tmp_path)[-3:] == [
        "renamed?  bench/test_core.py::test_nearest_k -> bench/test_core.py::test_nearest_of_k",
        "gone      z",
        "new       new",
    ]


def test_a_record_is_chosen_by_number_or_file(tmp_path: Path) -> None:
    for number in (1, 2, 3):
        save(tmp_path, number, {"a": number})
    records = history(tmp_path)
    assert compare.chosen(records, "0001").name == "0001"
    assert compare.chosen(records, str(next(tmp_path.glob("*/0001*")))).name == "0001"
    assert compare.chosen(records, "").name == "0002"
    with pytest.raises(SystemExit, match="no record 0009"):
        compare.chosen(records, "0009")


def test_one_record_is_no_fault(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    save(tmp_path, 1, {"a": 1})
    monkeypatch.setattr(compare, "history", lambda: history(tmp_path))
    compare.main()
    assert "only one record yet: `make bench`" in capsys.readouterr().out


def test_the_page_shows_every_benchmark_and_needs_nothing_else(tmp_path: Path) -> None:
    save(tmp_path, 1, {"bench/test_core.py::test_a[<k>]": 1, "bench/test_core.py::test_gone": 1})
    save(tmp_path, 2, {"bench/test_core.py::test_a[<k>]": 2}, python="CPython 3.12.1")
    page = report.page(history(tmp_path))
    drawn = [ET.fromstring(svg) for svg in re.findall(r"<svg.*?</svg>", page)]
    assert [len(svg.findall(".//circle")) for svg in drawn] == [2, 1]
    assert "test_a[&lt;k&gt;]" in page
    assert "python: CPython 3.11.2 before, CPython 3.12.1 now" in page
    assert "Not in the last record: bench/test_core.py::test_gone" in page
    assert not re.search(r"(src|href)=|url\(|@import|https?:", page)


def test_a_record_without_history_says_how_to_make_one(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="make bench"):
        history(tmp_path)


def test_a_record_names_machine_and_versions_but_no_host() -> None:
    told = machine.description()
    assert told["cpu"]
    assert told["packages"]["falcon"]
    record = Record("0001", "2026-11-01", "c", False, told, {})
    assert {"python", "compiler", "libc", "psycopg"} <= record.versions.keys()
    assert "node" not in told
