"""What a run of the tests left out, and how to run it: its last lines say so."""

from collections import Counter
from typing import Any

import pytest

ELSEWHERE = {
    "test-citus": "the ledger on a Citus cluster",
    "soak": "100,000 requests while workers, Postgres and connections are killed",
    "failover": "each way to lose a host of the database",
    "prove-batcher": "a million schedules of the batcher",
    "prove-ledger": "faults put into the ledger, and the tests that notice them",
    "prove-search": "the name index, asked for millions of names",
    "prove-index": "the nearest colours, asked for all 8-bit colours",
    "prove-match": "the text of matches, for the same colours",
    "fuzz": "hostile clients, for minutes",
    "schema-fuzz": "schemathesis, for minutes",
    "sanitize": "the core under gcc's sanitizers",
    "test-site": "the documentation in a browser",
    "walk": "the operators' pages on a fresh Debian",
}


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
            lines = slow + lines + [f"{what}: make {target}" for target, what in ELSEWHERE.items()]
        if lines:
            terminalreporter.section("left out")
        for line in lines:
            terminalreporter.line(line)
