"""What a run of the tests left out, and how to run it: its last lines say so."""

import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

ELSEWHERE = (
    "test-citus", "soak", "prove-batcher", "prove-ledger", "prove-search", "prove-index", "prove-match",
    "fuzz", "schema-fuzz", "sanitize", "test-site", "walk",
)  # fmt: skip
MAKEFILE = Path(__file__).parents[1] / "Makefile"


def elsewhere() -> list[str]:
    """Returns a line for each target that tests what no test does, as `make help` describes it."""
    described = dict(re.findall(r"^([\w-]+):.*## +(.*?)(?: \[.*)?$", MAKEFILE.read_text("utf-8"), re.MULTILINE))
    return [f"{described[target]}: make {target}" for target in ELSEWHERE]


class LeftOut:
    """A plugin that counts deselected tests, which xdist's workers only know each for itself."""

    def __init__(self) -> None:
        self.deselected = 0

    def pytest_deselected(self, items: list[pytest.Item]) -> None:
        self.deselected += len(items)

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if hasattr(session.config, "workeroutput"):
            session.config.workeroutput["deselected"] = self.deselected

    @pytest.hookimpl(optionalhook=True)  # of xdist, which may be absent
    def pytest_testnodedown(self, node: Any) -> None:
        self.deselected = max(self.deselected, getattr(node, "workeroutput", {}).get("deselected", 0))

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
        reasons = Counter(
            report.longrepr[2].removeprefix("Skipped: ") for report in terminalreporter.getreports("skipped")
        )
        lines = [f"{count} skipped: {reason}" for reason, count in reasons.most_common()]
        if config.args_source is pytest.Config.ArgsSource.TESTPATHS:  # not only one place
            slow = [f"{self.deselected} slow tests: make test-all"] if self.deselected else []
            lines = slow + lines + elsewhere()
        if lines:
            terminalreporter.section("left out")
        for line in lines:
            terminalreporter.line(line)
