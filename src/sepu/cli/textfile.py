"""Writes a command's metrics for the textfile collector of Prometheus's node exporter."""

from collections.abc import Mapping
from pathlib import Path

from prometheus_client import CollectorRegistry, Gauge, write_to_textfile

from sepu.errors import SepuError


def write_metrics(path: Path, gauges: Mapping[tuple[str, str], float | Mapping[str, float]]) -> None:
    """Replaces a file with these gauges, keyed by name and description. A mapping is by the label `within`.

    Raises:
        SepuError: the file cannot be written.
    """
    registry = CollectorRegistry()
    for (name, description), value in gauges.items():
        if isinstance(value, Mapping):
            gauge = Gauge(name, description, ["within"], registry=registry)
            for within, number in value.items():
                gauge.labels(within).set(number)
        else:
            Gauge(name, description, registry=registry).set(value)
    try:
        write_to_textfile(str(path), registry)
    except OSError as error:
        raise SepuError(f"cannot write {path} ({error.strerror})") from error
