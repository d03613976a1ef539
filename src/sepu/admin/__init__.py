"""What an operator does: accounts, plans, keys, usage, events and upkeep. Knows no HTTP and no colours."""
