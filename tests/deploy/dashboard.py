"""The dashboard that we ship, and what a real Prometheus answers to its queries."""

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

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

    def legend(self, labels: Mapping[str, str]) -> str:
        return re.sub(r"{{(\w+)}}", lambda found: labels.get(found[1], ""), self.legend_format)


class Place(msgspec.Struct):
    """Where a panel is, in units of which a row has 24."""

    x: int
    y: int
    w: int
    h: int


class Stacking(msgspec.Struct):
    mode: str


class Custom(msgspec.Struct):
    stacking: Stacking


class Defaults(msgspec.Struct):
    unit: str
    custom: Custom


class FieldConfig(msgspec.Struct):
    defaults: Defaults


class Panel(msgspec.Struct, rename="camel"):
    title: str
    type: str
    grid_pos: Place
    field_config: FieldConfig
    targets: list[Target]


class Variable(msgspec.Struct, rename="camel"):
    name: str
    all_value: str | None = None


class Templating(msgspec.Struct):
    variables: list[Variable] = msgspec.field(name="list")


class Dashboard(msgspec.Struct):
    panels: list[Panel]
    templating: Templating

    def query(self, target: Target) -> str:
        """The query that Grafana sends, for all instances."""
        values = {"__rate_interval": f"{4 * SCRAPE_SECONDS}s"}  # Grafana takes at least four scrapes
        values |= {one.name: one.all_value for one in self.templating.variables if one.all_value is not None}
        return re.sub(r"\$(\w+)", lambda found: values[found[1]], target.expr)


def dashboard() -> Dashboard:
    return msgspec.json.decode((DEPLOY / "grafana" / "sepu.json").read_bytes(), type=Dashboard)


@dataclass(frozen=True)
class Series:
    """A line of a panel."""

    name: str
    points: Sequence[tuple[float, float]]


class _Result(msgspec.Struct):
    metric: dict[str, str]
    values: list[tuple[float, str]]


class _Data(msgspec.Struct):
    result: list[_Result]


class _Answer(msgspec.Struct):
    data: _Data


@dataclass(frozen=True)
class Prometheus:
    """A running Prometheus."""

    url: str

    def answers(self, path: str) -> bool:
        try:
            return httpx.get(self.url + path, timeout=5).is_success
        except httpx.TransportError:
            return False

    def series(self, query: str, target: Target, start: float, end: float) -> list[Series]:
        """What a query finds in this time, without the instants at which it finds no number."""
        asked = {"query": query, "start": f"{start}", "end": f"{end}", "step": f"{SCRAPE_SECONDS}"}
        answer = httpx.post(f"{self.url}/api/v1/query_range", data=asked, timeout=30)
        assert answer.is_success, f"{query}\n{answer.text}"
        found = [
            Series(
                target.legend(one.metric),
                [(when, number) for when, value in one.values if math.isfinite(number := float(value))],
            )
            for one in msgspec.json.decode(answer.content, type=_Answer).data.result
        ]
        return [one for one in found if one.points]


@contextmanager
def scraping(program: str, targets: Sequence[str], directory: Path) -> Iterator[Prometheus]:
    """Runs Prometheus while it reads these metrics."""
    address = f"127.0.0.1:{free_port()}"
    file, log = directory / "prometheus.json", directory / "prometheus.log"
    job = {"job_name": "sepu", "static_configs": [{"targets": targets}]}
    file.write_bytes(  # JSON is YAML
        msgspec.json.encode({"global": {"scrape_interval": f"{SCRAPE_SECONDS}s"}, "scrape_configs": [job]})
    )
    options = (f"--config.file={file}", f"--storage.tsdb.path={directory}/data", f"--web.listen-address={address}")
    with log.open("w") as output, running([program, *options], stdout=output, stderr=output):
        found = Prometheus(f"http://{address}")
        until(lambda: found.answers("/-/ready"), why=log.read_text)
        yield found
