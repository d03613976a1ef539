"""Reads a server's log and its metrics for Prometheus."""

import json
import urllib.request
from pathlib import Path
from typing import Any

from prometheus_client.parser import text_string_to_metric_families
from tests.harness.processes import until

Labels = tuple[tuple[str, str], ...]
Samples = dict[tuple[str, Labels], float]


def scrape(metrics: str) -> str:
    """The metrics as Prometheus reads them at `HOST:PORT`."""
    with urllib.request.urlopen(f"http://{metrics}/metrics", timeout=30) as answer:
        text: str = answer.read().decode()
    return text


def samples(metrics: str) -> Samples:
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(scrape(metrics))
        for sample in family.samples
    }


def sample(metrics: str, name: str, **labels: str) -> float:
    """The sum of the samples of a metric with these labels."""
    return sum(
        value
        for (found, its), value in samples(metrics).items()
        if found == name and labels.items() <= dict(its).items()
    )


def records(log: Path, event: str) -> list[dict[str, Any]]:
    """The complete JSON lines of a log for one event."""
    lines = log.read_text().split("\n")[:-1]
    return [record for line in lines if (record := json.loads(line))["event"] == event]


def requests(log: Path, ids: set[str]) -> list[dict[str, Any]]:
    """The log lines of these requests; waits until all are there."""

    def found() -> list[dict[str, Any]]:
        return [record for record in records(log, "request") if record["requestId"] in ids]

    until(lambda: len(found()) >= len(ids), why=log.read_text)
    return found()
