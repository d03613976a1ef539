"""What has to be true before a change lands: `make bench-gate`."""
