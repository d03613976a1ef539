"""What the ledger reports to the metrics."""

from collections.abc import Mapping


class LedgerObserver:
    """Observes commands and the statements that carry them. This base class does nothing."""

    def command_began(self) -> None:
        """Counts a command that has begun to wait for its answer."""

    def command_ended(self) -> None:
        """Counts a command whose caller has an answer, or an exception."""

    def call_answered(self, commands: int) -> None:
        """Counts an answered statement, and its commands."""

    def call_failed(self, sqlstate: str) -> None:
        """Counts a failed statement or attempt to connect, or a sweep of overdue commands.

        `sqlstate` is empty if the server gave none.
        """

    def probed(self, ready: bool) -> None:
        """Reports whether a charge can be committed now."""

    def looked_at_nodes(self, problems: Mapping[str, str]) -> None:
        """Reports each node of a Citus cluster, and in a few words what keeps it from committing charges, or ""."""

    def connected(self) -> None:
        """Counts a new connection to the database."""
