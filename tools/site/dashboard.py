"""The picture of docs/observe.md: `make dashboard` draws what the dashboard's queries find of a real service.

Two minutes of traffic by two instances, in the middle of which Postgres is stopped for some seconds.
"""

import itertools
import math
import random
import re
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from html import escape
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import msgspec
from tests.harness import postgres
from tests.harness.processes import running, until
from tests.harness.proxy import socket_directory
from tests.harness.serving import Server, free_port, serving
from tests.programs import installed
from tools.site.axes import Panel as Axes

from sepu.admin import accounts
from sepu.admin.keys import IssuedKey
from sepu.admin.plans import set_plan
from sepu.database.embedded import embedded_postgres
from sepu.database.opening import connect, database, service_url

ROOT = Path(__file__).parents[2]
DASHBOARD = ROOT / "deploy" / "grafana" / "sepu.json"
PICTURE = ROOT / "docs" / "images" / "dashboard.svg"
SCRAPE_SECONDS = 1

_SECONDS, _STOPPED_SECONDS = 120, 3
_CLIENTS, _PAUSE_SECONDS, _AGAIN = 12, 0.15, 0.1
_UNITS = {"reqps": ("requests/s", 1), "cps": ("1/s", 1), "s": ("ms", 1000), "short": ("", 1)}  # Grafana's names
_COLUMN, _ROW, _GAP, _LEGEND = 41, 30, 8, 21
_COLOURS = ("1f77b4", "ff7f0e", "2ca02c", "d62728", "9467bd", "8c564b", "e377c2", "7f7f7f", "bcbd22", "17becf")
_STYLE = (
    " ".join(f".c{number} {{ stroke: #{it}; fill: #{it} }}" for number, it in enumerate(_COLOURS))
    + " text { font: 15px system-ui, 'Noto Sans', sans-serif; fill: #222 } .tick { font-size: 14px; fill: #555 }"
    " .title { font-weight: 600 } .stat { font-size: 20px; text-anchor: middle } .panel { fill: #fff; stroke: #ccc }"
    " .grid { stroke: #e4e4e4 } .line { fill: none; stroke-width: 1.8; stroke-linecap: round; stroke-linejoin: round }"
    " .area { stroke: none; fill-opacity: 0.2 } .ground { fill: #f4f5f5 } @media (prefers-color-scheme: dark) {"
    " text { fill: #ddd } .tick { fill: #bbb } .panel { fill: #1e2129; stroke: #555 } .grid { stroke: #3a3d46 }"
    " .ground { fill: #14161b } }"
)


class Target(msgspec.Struct, rename="camel"):
    """A query, and how the legend names what it finds."""

    expr: str
    legend_format: str


class Panel(msgspec.Struct, rename="camel"):
    """A panel, or a collapsed row, whose panels show what other exporters tell."""

    title: str
    type: str
    grid_pos: dict[str, int]  # in units of which a row has 24
    field_config: dict[str, Any] = {}
    targets: list[Target] = []
    panels: list["Panel"] = []


class Dashboard(msgspec.Struct):
    panels: list[Panel]
    templating: dict[str, list[dict[str, Any]]]

    @property
    def of_the_service(self) -> list[Panel]:
        """The panels of the service's own metrics."""
        return [panel for panel in self.panels if panel.type != "row"]

    def query(self, target: Target) -> str:
        """The query that Grafana sends, for all instances."""
        values = {"__rate_interval": f"{4 * SCRAPE_SECONDS}s"}  # Grafana takes at least four scrapes
        values |= {one["name"]: one["allValue"] for one in self.templating["list"] if one.get("allValue")}
        return re.sub(r"\$(\w+)", lambda found: values[found[1]], target.expr)


def dashboard() -> Dashboard:
    return msgspec.json.decode(DASHBOARD.read_bytes(), type=Dashboard)


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


def _ask(servers: Sequence[Server], issued: IssuedKey, number: int, end: float) -> None:
    """One customer asks with pauses that grow and shrink within a minute, and sometimes asks again."""
    chance = random.Random(number)
    for asked in itertools.count():
        if (left := end - time.monotonic()) < 0:
            return
        server = chance.choice(servers)
        headers = {"Authorization": f"Bearer {issued.api_key}", "Idempotency-Key": f"dashboard-{asked}"}
        what = chance.choice(("match", "match", "match", "search?q=hong", "usage", "library"))
        for _ in range(1 + (chance.random() < _AGAIN)):
            if what == "match":
                server.match(issued, headers["Idempotency-Key"])
            else:
                server.request("GET", f"/v1/{what}", headers)
        time.sleep(chance.expovariate(1 / _PAUSE_SECONDS) * (1.5 + math.sin(math.tau * left / 60)))


def observe(program: str) -> tuple[list[tuple[Panel, list[Series]]], float]:
    """What each panel shows of a service in use, and since when.

    Raises:
        AssertionError: a query is wrong, or finds nothing.
    """
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="sepu-prometheus-")))
        state_dir = stack.enter_context(socket_directory())
        url = stack.enter_context(database(None, state_dir, create=True))
        metrics = [f"127.0.0.1:{free_port()}" for _ in range(2)]
        servers = [
            stack.enter_context(serving("uvloop", service_url(url), options=["--metrics-bind", bind]))
            for bind in metrics
        ]
        prometheus = stack.enter_context(scraping(program, metrics, directory))
        with connect(url) as connection:
            set_plan(connection, "used", {"color_match": 10**6, "color_search": 10**6}, requests_per_minute=10**6)
            customers = [accounts.create_account(connection, "used") for _ in range(_CLIENTS)]
        began, end = time.time(), time.monotonic() + _SECONDS
        with ThreadPoolExecutor(_CLIENTS) as threads:
            asking = [threads.submit(_ask, servers, issued, number, end) for number, issued in enumerate(customers)]
            time.sleep(_SECONDS / 2)
            postgres.run(postgres.EMBEDDED / "pg_ctl", "stop", "-m", "immediate", "-D", state_dir / "postgres")
            time.sleep(_STOPPED_SECONDS)
            with embedded_postgres(state_dir):
                pass  # another user of the directory keeps it running
        for each in asking:
            each.result()
        shown, shows = dashboard(), []
        for panel in shown.of_the_service:
            found: list[Series] = []
            for target in panel.targets:
                query = shown.query(target)
                lines = queried(prometheus, query, target.legend_format, began, began + _SECONDS)
                assert lines, f"{panel.title}: nothing is found by {query}"
                found += lines
            shows.append((panel, found))
        return shows, began


def draw(shows: Iterable[tuple[Panel, Sequence[Series]]], began: float) -> str:
    """The panels at their places."""
    marks, height = [], 0
    for panel, series in shows:
        place = panel.grid_pos
        x, y, height = place["x"] * _COLUMN, place["y"] * _ROW, max(height, (place["y"] + place["h"]) * _ROW)
        wide, high = place["w"] * _COLUMN - _GAP, place["h"] * _ROW - _GAP
        queries = "\n".join(target.expr for target in panel.targets)
        drawn = _stat(series, wide, high) if panel.type == "stat" else _lines(panel, series, began, wide, high)
        marks += [
            f'<g transform="translate({x} {y})"><title>{escape(panel.title)}</title><desc>{escape(queries)}</desc>',
            f'<rect class="panel" x="0.5" y="0.5" width="{wide}" height="{high}" rx="3"/>',
            f'<text class="title" x="12" y="24">{escape(panel.title)}</text>',
            *drawn,
            "</g>",
        ]
    size = f"0 0 {24 * _COLUMN - _GAP + 1} {height - _GAP + 1}"
    lines = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="{size}" role="img">',
        f"<title>The panels of the dashboard</title><style>{_STYLE}</style>",
        '<rect class="ground" width="100%" height="100%"/>',
        *marks,
        "</svg>",
    )
    return "\n".join(lines) + "\n"


def _stat(series: Sequence[Series], wide: float, high: float) -> Iterator[str]:
    for number, one in enumerate(series):
        x = wide * (number + 0.5) / len(series)
        yield f'<text class="stat" x="{x}" y="{high / 2 + 14}">{escape(one.name)}</text>'


def _lines(panel: Panel, series: Sequence[Series], began: float, wide: float, high: float) -> Iterator[str]:
    defaults = panel.field_config["defaults"]
    unit, factor = _UNITS[defaults["unit"]]
    stacked = defaults["custom"]["stacking"]["mode"] == "normal"
    legend = list(_legend([one.name for one in series], wide))
    bottom = high - 34 - _LEGEND * (1 + legend[-1][1])
    floor: dict[float, float] = {}
    layers: list[list[tuple[float, float, float]]] = []
    for one in series:
        layers.append([(at - began, floor.get(at, 0), floor.get(at, 0) + value * factor) for at, value in one.points])
        if stacked:
            floor |= {at + began: top for at, _, top in layers[-1]}
    times = [(second, f"{second // 60}:{second % 60:02}") for second in range(0, _SECONDS + 1, 30)]
    axes = Axes(times, _scale(max(top for layer in layers for _, _, top in layer)), 46, wide - 22, 44, bottom)
    yield from axes.grid()
    yield f'<text class="tick" x="{wide - 12}" y="24" text-anchor="end">{escape(unit)}</text>'
    for number, layer in enumerate(layers):
        colour = f"c{number % len(_COLOURS)}"
        for run in _runs(layer):
            upper = [(at, top) for at, _, top in run]
            if stacked:
                yield axes.area(colour, upper + [(at, low) for at, low, _ in reversed(run)])
            yield axes.line(colour, upper if len(upper) > 1 else upper * 2)  # one point is a dot
    for number, (x, row, name) in enumerate(legend):
        y = bottom + 34 + _LEGEND * (row + 0.5)
        yield f'<rect class="c{number % len(_COLOURS)}" x="{x}" y="{y - 7}" width="12" height="3"/>'
        yield f'<text x="{x + 18}" y="{y}">{escape(name)}</text>'


def _legend(names: Iterable[str], wide: float) -> Iterator[tuple[float, int, str]]:
    """Where each name stands: how far from the left, and in which row."""
    x, row = 12.0, 0
    for name in names:
        width = 36 + 8 * len(name)
        if x > 12 and x + width > wide:
            x, row = 12.0, row + 1
        yield x, row, name
        x += width


def _runs(layer: Sequence[tuple[float, float, float]]) -> Iterator[list[tuple[float, float, float]]]:
    """The parts of a line that have no gap."""
    run = list(layer[:1])
    for before, after in pairwise(layer):
        if after[0] - before[0] > 1.5 * SCRAPE_SECONDS:
            yield run
            run = []
        run.append(after)
    yield run


def _scale(highest: float) -> list[tuple[float, str]]:
    """Round values from 0 to the highest or above it, at most six."""
    highest = highest or 1
    power = 10.0 ** math.floor(math.log10(highest))
    step = next(step for part in (0.1, 0.2, 0.5, 1, 2) if (step := part * power) * 5 >= highest)
    return [(number * step, f"{number * step:g}") for number in range(math.ceil(highest / step - 1e-9) + 1)]


def main() -> None:
    program = installed("prometheus") or sys.exit("prometheus is not installed (Debian: apt install prometheus)")
    PICTURE.write_text(draw(*observe(program)), "utf-8")


if __name__ == "__main__":
    main()
