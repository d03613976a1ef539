"""The queries that the benchmarks search for."""

from pathlib import Path

_LINES = Path(__file__).with_name("queries.txt").read_text("utf-8").splitlines()

QUERIES = [line for line in _LINES if not line.startswith("#")]
