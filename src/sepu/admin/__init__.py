"""The operators' work: accounts, plans, keys, usage, events and upkeep. Knows no HTTP and no colours."""
