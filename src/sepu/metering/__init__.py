"""What takes a request to the ledger: API keys, commands, queues, sessions. No HTTP, no colour matching."""
