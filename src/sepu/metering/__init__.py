"""Carries requests to the ledger: API keys, commands, queues, sessions. No HTTP, no colour matching."""
