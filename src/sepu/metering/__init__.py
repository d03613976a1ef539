"""The parts of the ledger that a request touches: its key, command, queue and call. Knows no HTTP and no colours."""
