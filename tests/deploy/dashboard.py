"""The dashboard that we ship, and what a real Prometheus answers to its queries."""

import math
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import msgspec
from tests.processes import running, until
from tests.serving import free_port

DEPLOY = Path(__file__).parents[2] / "deploy"
SCRAPE_SECONDS = 1


class Target(msgspec.Struct, rename="camel"):
    """A query, and how the legend names what it finds."""

    expr: str
    legend_format: str


class Panel(msgspec.Struct, rename="camel"):
    title: str
    type: str
    grid_pos: dict[str, int]  # in units of which a row has 24
    field_config: dict[str, Any]
    targets: list[Target]


class Dashboard(msgspec.Struct):
    panels: list[Panel]
    templating: dict[str, list[dict[str, Any]]]

    def query(self, target: Target) -> str:
        """The query that Grafana sends, for all instances."""
        values = {"__rate_interval": f"{4 * SCRAPE_SECONDS}s"}  # Grafana takes at least four scrapes
        values |= {one["name"]: one["allValue"] for one in self.templating["list"] if one.get("allValue")}
        return re.sub(r"\$(\w+)", lambda found: values[found[1]], target.expr)


def dashboard() -> Dashboard:
    return msgspec.json.decode((DEPLOY / "grafana" / "sepu.json").read_bytes(), type=Dashboard)


class Series(NamedTuple):
    """A line of a panel."""

    name: str
    points: Sequence[tuple[float, float]]


def queried(prometheus: str, query: str, legend: str, start: float, end: float) -> list[Series]:
    """What a query finds in this time, without the instants at which it finds no number."""
    asked = {"query": query, "start": f"{start}", "end": f"{end}", "step": f"{SCRAPE_SECONDS}"}
    answer = httpx.post(f"{prometheus}/api/v1/query_range", data=asked, timeout=30)
    assert answer.is_success, f"{query}\n{answer.text}"
    found = []
    for one in answer.json()["data"]["result"]:
        name = legend
        for label, value in one["metric"].items():
            name = name.replace(f"{{{{{label}}}}}", value)
        points = [(when, number) for when, value in one["values"] if math.isfinite(number := float(value))]
        found += [Series(name, points)] if points else []
    return found


@contextmanager
def scraping(program: str, targets: Sequence[str], directory: Path) -> Iterator[str]:
    """Runs Prometheus while it reads these metrics; yields its address."""
    address = f"127.0.0.1:{free_port()}"
    file, log = directory / "prometheus.json", directory / "prometheus.log"
    job = {"job_name": "sepu", "static_configs": [{"targets": targets}]}
    file.write_bytes(  # JSON is YAML
        msgspec.json.encode({"global": {"scrape_interval": f"{SCRAPE_SECONDS}s"}, "scrape_configs": [job]})
    )

    def ready() -> bool:
        with suppress(httpx.TransportError):
            return httpx.get(f"http://{address}/-/ready", timeout=5).is_success
        return False

    options = (f"--config.file={file}", f"--storage.tsdb.path={directory}/data", f"--web.listen-address={address}")
    with log.open("w") as output, running([program, *options], stdout=output, stderr=output):
        until(ready, why=log.read_text)
        yield f"http://{address}"
