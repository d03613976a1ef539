"""The verdict on clients' answers: among themselves, and against the ledger."""

from collections import Counter
from dataclasses import dataclass

import psycopg
from tests.faults.clients import Memory
from tests.faults.consistency import Finding, contradictions, read_ledger
from tests.faults.history import History
from tests.harness.processes import until

from sepu.admin.audit import audit
from sepu.database.opening import connect

KINDS = (
    "lost",  # answered, but not stored as it was answered
    "doubled",  # not charged exactly once per answer
    "stuck",  # not answered in time
    "wrong",  # answers that no client should see, and contradictions
)
SHOWN = 5  # findings printed; more would repeat them


@dataclass(frozen=True)
class Verdict:
    """The findings, each with its kind."""

    findings: list[Finding]

    def __str__(self) -> str:
        counted = Counter(kind for kind, _ in self.findings)
        return ", ".join(f"{counted[kind]} {kind}" for kind in KINDS)

    def explain(self) -> str:
        """Formats the first findings for people."""
        return "\n".join(f"{kind}: {what}" for kind, what in self.findings[:SHOWN])


def until_stored(url: str, results: int) -> None:
    """Waits until the ledger holds `results` results, and so until clients have been served."""
    count = "select count(*) >= %s from sepu.stored_result"
    with connect(url) as watching:
        until(lambda: watching.execute(count, [results]).fetchall() == [(True,)], seconds=60)


def judge(connection: psycopg.Connection, memory: Memory) -> Verdict:
    """Judges all that happened in a database whose accounts only these clients used."""
    findings = contradictory(connection, memory.history)
    findings += [("doubled", str(difference)) for difference in audit(connection).differences]
    findings += [("stuck", f"{name}") for name in sorted(memory.stuck)]
    findings += [("wrong", what) for what in memory.wrong]
    return Verdict(findings)


def contradictory(connection: psycopg.Connection, history: History) -> list[Finding]:
    """Finds contradictions in a history of accounts that nobody else used, each with its kind."""
    return contradictions(history, read_ledger(connection, history.accounts()))
