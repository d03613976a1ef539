"""What a ledger tells whoever counts."""


class LedgerObserver:
    """Hears what happens to commands and calls. This one does not care."""

    def command_began(self) -> None:
        """A command came; it waits until it is sent."""

    def command_ended(self) -> None:
        """It has its answer, or will have none."""

    def call_answered(self, commands: int) -> None:
        """The database answered a call, made for so many commands together."""

    def call_failed(self, sqlstate: str) -> None:
        """A call, or an attempt to connect, failed; the state is empty if the server named none."""

    def connected(self) -> None:
        """There is a new connection to the database."""
