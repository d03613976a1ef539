"""What a ledger reports to the metrics."""


class LedgerObserver:
    """Observes commands and calls. This one does nothing."""

    def command_began(self) -> None:
        """Takes note of a command that waits to be sent."""

    def command_ended(self) -> None:
        """Takes note that a command has its answer, or will have none."""

    def call_answered(self, commands: int) -> None:
        """Takes note that the database answered a call, made for so many commands together."""

    def call_failed(self, sqlstate: str) -> None:
        """Takes note of a failed call or attempt to connect. The state is empty if the server named none."""

    def probed(self, ready: bool) -> None:
        """Takes note whether a charge could be committed just now."""

    def connected(self) -> None:
        """Takes note of a new connection to the database."""
