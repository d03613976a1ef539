"""The gate's judgement. That it sees a slowdown in the product is shown by `make bench-gate-proof`."""

import json
from pathlib import Path

import pytest
from bench.gate import __main__ as gate
from bench.gate import instructions, manifest, tripwire
from bench.gate.count import Count

BEFORE = {"request": Count(1000, 8), "core": Count(500, 110)}


def test_the_names_of_all_benchmarks_are_in_the_manifest() -> None:
    assert manifest.alarms() == []


def test_every_expectation_is_of_a_hot_path_and_every_hot_path_has_one() -> None:
    listed = {line for line in manifest.MANIFEST.read_text("utf-8").splitlines() if "::" not in line}
    every = json.loads(instructions.EXPECTED.read_text("utf-8"))
    assert every
    for key, counts in every.items():
        assert counts.keys() == listed, key


@pytest.mark.parametrize(
    ("now", "alarm"),
    [
        ({"request": Count(1019, 8)}, None),
        ({"request": Count(981, 8)}, None),
        ({"request": Count(1021, 8)}, "request: +2.1% instructions"),
        ({"request": Count(1050, 8)}, "request: +5.0% instructions"),
        ({"request": Count(900, 8)}, "request: -10.0% instructions"),
        ({"request": Count(1000, 9)}, "request: 9 calls of the formula instead of 8"),
        ({"another": Count(1, 0)}, "another: no expectation"),
    ],
)
def test_counts_may_differ_by_two_percent(now: dict[str, Count], alarm: str | None) -> None:
    assert instructions.alarms({**BEFORE, **now}, BEFORE) == ([] if alarm is None else [alarm])


def test_a_path_that_is_no_longer_counted_is_an_alarm() -> None:
    assert instructions.alarms({"core": BEFORE["core"]}, BEFORE) == ["request: not counted"]


def test_renewing_drops_the_expectations_of_others_only_if_they_are_stale(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(instructions, "EXPECTED", tmp_path / "expected.json")
    instructions.EXPECTED.write_text("{}")
    instructions.renew("theirs", BEFORE)
    instructions.renew("ours", BEFORE)
    instructions.renew("ours", {**BEFORE, "request": Count(1010, 8)})
    assert instructions.expected("theirs") == BEFORE
    instructions.renew("ours", {**BEFORE, "request": Count(1100, 8)})
    assert instructions.expected("theirs") is None
    assert instructions.expected("ours") == {**BEFORE, "request": Count(1100, 8)}


def test_times_may_differ_by_a_quarter() -> None:
    assert tripwire.alarms({"request": 1.24, "core": 1.26}) == ["core: +26% time against the base"]


def test_an_alarm_ends_the_gate_with_1(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gate, "check", lambda _ref: ["request: +5.0% instructions"])
    with pytest.raises(SystemExit, match="request"):
        gate.main()


def test_a_base_that_is_no_commit_is_refused() -> None:
    with pytest.raises(SystemExit, match="no commit nonsense"):
        gate.main("check", "nonsense")


def test_what_cannot_be_run_is_said_and_passes(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(manifest, "alarms", list)
    monkeypatch.setattr(instructions, "why_not", lambda: "there is no valgrind")
    monkeypatch.setattr(tripwire, "base", lambda: None)
    gate.main()
    said = capsys.readouterr().out
    assert "SKIPPED: there is no valgrind" in said
    assert "SKIPPED: there is no commit to compare with" in said


def test_a_machine_without_expectations_is_told_so_and_passes(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(manifest, "alarms", list)
    monkeypatch.setattr(instructions, "why_not", lambda: None)
    monkeypatch.setattr(instructions, "counted", lambda: ("some other machine", BEFORE))
    monkeypatch.setattr(tripwire, "base", lambda: None)
    gate.main()
    assert "NOT COMPARED: no expectations" in capsys.readouterr().out
