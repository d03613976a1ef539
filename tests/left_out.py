"""Prints at the end what a run of the tests left out, and how to run it."""

import re
from collections import Counter
from pathlib import Path

import pytest

ELSEWHERE = (
    "test-citus", "soak", "prove-batcher", "prove-ledger", "mutate", "prove-search", "prove-index", "prove-match",
    "fuzz", "sanitize", "test-site", "walk",
)  # fmt: skip
MAKEFILE = Path(__file__).parents[1] / "Makefile"


def elsewhere() -> list[str]:
    """Returns a line for each target with tests that pytest does not run, as `make help` describes it."""
    described = dict(re.findall(r"^([\w-]+):.*## +(.*?)(?: \[.*)?$", MAKEFILE.read_text("utf-8"), re.MULTILINE))
    return [f"{described[target]}: make {target}" for target in ELSEWHERE]


def tell(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Prints what was left out."""
    reasons = Counter(report.longrepr[2].removeprefix("Skipped: ") for report in terminalreporter.getreports("skipped"))
    lines = [f"{count} skipped: {reason}" for reason, count in reasons.most_common()]
    if config.args_source is pytest.Config.ArgsSource.TESTPATHS:  # the whole suite
        slow = ["slow tests: make test-all"] if config.getoption("markexpr") == "not slow" else []
        lines = slow + lines + elsewhere()
    if lines:
        terminalreporter.section("left out")
    for line in lines:
        terminalreporter.line(line)
