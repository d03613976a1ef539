"""Writes a command's metrics for the textfile collector of Prometheus's node exporter."""

from collections.abc import Mapping
from pathlib import Path

from prometheus_client import CollectorRegistry, Gauge, write_to_textfile

from sepu.errors import SepuError


def write_metrics(path: Path, gauges: Mapping[tuple[str, str], float]) -> None:
    """Replaces a file with these gauges, keyed by name and description.

    Raises:
        SepuError: the file cannot be written.
    """
    registry = CollectorRegistry()
    for (name, description), value in gauges.items():
        Gauge(name, description, registry=registry).set(value)
    try:
        write_to_textfile(str(path), registry)
    except OSError as error:
        raise SepuError(f"cannot write {path} ({error.strerror})") from error
