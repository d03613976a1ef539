"""What a change costs, counted in base and head: `make bench-gate`."""
