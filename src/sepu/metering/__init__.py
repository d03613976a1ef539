"""The parts of the ledger that a request touches: its key, command, queue and call. No HTTP, no colours."""
