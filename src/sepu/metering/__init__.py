"""What a request touches of the ledger: its key, its command, the queue and the call. Knows no HTTP and no colours."""
