"""Counts and serves metrics for Prometheus: workers count in shared memory, and a separate process serves the counts.

Each worker counts in its own block of cells, so no worker waits for another. The memory belongs to the master, so a
dead worker's counts remain, and the next worker in its block continues them. prometheus_client only formats and serves
the counts. PERF: its counters for several processes would take three times as many instructions in a request, and would
leave files of dead workers behind.
"""

import json
import mmap
import os
import signal
import socket
import time
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from importlib.metadata import version
from itertools import accumulate
from socketserver import ThreadingTCPServer
from threading import Lock
from typing import Any

from prometheus_client import CollectorRegistry, MetricsHandler
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from sepu import limits
from sepu.errors import StartError
from sepu.http.errors import ERRORS
from sepu.http.replies import Reply
from sepu.http.routes import ALLOW
from sepu.metering.key_format import Credential
from sepu.metering.meters import METERS
from sepu.metering.observer import LedgerObserver

OTHER = "other"  # not an endpoint: an unknown path or an invalid request
_ENDPOINTS = (*ALLOW, OTHER)
_STATUSES = (200, *sorted({error.status for error in ERRORS.values()}))
_CLASSES = tuple(dict.fromkeys(f"{status // 100}xx" for status in _STATUSES))
_SECONDS = (0.0005, 0.001, 0.0015, 0.002, 0.003, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1.0, 2.0, 5.0)
_SIZES = tuple(2.0**power for power in range(limits.batches.CALLS.bit_length()))
# The classes that Postgres may report, and `none`: no answer or no connection.
_SQLSTATE_CLASSES = (
    *("08", "22", "23", "25", "26", "28", "34", "3D", "3F", "40", "42", "53", "54", "55", "57", "58", "XX"),
    "none",
    OTHER,
)
_DATABASE_STATES = ("unasked", "answers", "fails")

_CLIENT_SECONDS = 5.0  # how long to wait for a scraper's request

# More workers than anybody runs, even during a reload. The system allocates no memory for unused blocks.
BLOCKS = 1024
_BLOCK_BYTES = 8 * 1024
# The nodes of a Citus cluster that a worker looked at, as JSON. Further nodes are left out.
_NODES_BYTES = 16 * 1024


class _Histogram:
    """Holds the cells of a histogram: one for each bucket, and the sum of the values."""

    def __init__(self, first: int, bounds: Sequence[float]) -> None:
        self._first = first
        self._bounds = bounds
        self._sum = first + len(bounds) + 1

    def add(self, cells: "memoryview[float]", value: float) -> None:
        cells[self._first + bisect_left(self._bounds, value)] += 1
        cells[self._sum] += value

    def cumulative(self, total: Sequence[float]) -> tuple[list[tuple[str, float]], float]:
        """Returns the buckets in Prometheus's form, where each includes the smaller ones, and the sum."""
        names = (*map(str, self._bounds), "+Inf")
        return list(zip(names, accumulate(total[self._first : self._sum]), strict=True)), total[self._sum]


class _Layout:
    """Assigns the cells of a block."""

    def __init__(self) -> None:
        self._size = 0
        self.live = self._cell()
        self.database = self._cell()
        self.probed = self._cell()
        self.in_progress = self._cell()
        self.starts = self._cell()
        self.connections = self._cell()
        self.dropped = self._cell()
        self.looked = self._cell()
        self.nodes = self._cell()  # bytes of the nodes; negative while they are being written
        self.requests = {(endpoint, status): self._cell() for endpoint in _ENDPOINTS for status in _STATUSES}
        self.refusals = {code: self._cell() for code in ERRORS}
        self.units = {meter: self._cell() for meter in METERS}
        self.replays = {meter: self._cell() for meter in METERS}
        self.errors = {name: self._cell() for name in _SQLSTATE_CLASSES}
        self.sizes = self._histogram(_SIZES)
        self.durations = {(endpoint, name): self._histogram(_SECONDS) for endpoint in ALLOW for name in _CLASSES}
        if self._size * 8 > _BLOCK_BYTES:
            raise AssertionError("a block is too small")
        # The cells of a reply, by route and status.
        self.replies = {
            (None if endpoint == OTHER else endpoint, status): (
                cell,
                self.durations.get((endpoint, f"{status // 100}xx")),
            )
            for (endpoint, status), cell in self.requests.items()
        }

    def _cell(self) -> int:
        self._size += 1
        return self._size - 1

    def _histogram(self, bounds: Sequence[float]) -> _Histogram:
        first = self._size
        self._size += len(bounds) + 2
        return _Histogram(first, bounds)


_LAYOUT = _Layout()


class Counts(LedgerObserver):
    """Counts for one worker."""

    def __init__(self, cells: "memoryview[float]", nodes: "memoryview[int]") -> None:
        self._cells = cells
        self._nodes = nodes
        self._lock = Lock()  # for gthread's threads

    def replied(
        self,
        _request_id: str,
        reply: Reply,
        route: str | None,
        _credential: Credential | None,
        seconds: float | None,
        *_: object,
    ) -> None:
        """Counts a reply."""
        cells = self._cells
        cell, durations = _LAYOUT.replies[route, reply.status]
        with self._lock:
            cells[cell] += 1
            if seconds is not None and durations is not None:
                durations.add(cells, seconds)
            if reply.error is not None:
                cells[_LAYOUT.refusals[reply.error]] += 1
            elif reply.meter is not None:
                if reply.replayed:
                    cells[_LAYOUT.replays[reply.meter]] += 1
                else:
                    cells[_LAYOUT.units[reply.meter]] += reply.units

    def line_dropped(self) -> None:
        """Counts a lost line of the log."""
        self._count(_LAYOUT.dropped)

    def command_began(self) -> None:
        """Counts a command that is waiting or running."""
        with self._lock:
            self._cells[_LAYOUT.in_progress] += 1

    def command_ended(self) -> None:
        """Counts the end of a command."""
        with self._lock:
            self._cells[_LAYOUT.in_progress] -= 1

    def call_answered(self, commands: int) -> None:
        """Counts an answer from the database."""
        with self._lock:
            _LAYOUT.sizes.add(self._cells, commands)

    def call_failed(self, sqlstate: str) -> None:
        """Counts a failed call."""
        self._count(_LAYOUT.errors.get(sqlstate[:2] or "none", _LAYOUT.errors[OTHER]))

    def probed(self, ready: bool) -> None:
        """Records whether a charge could be committed, and the time of the probe."""
        with self._lock:
            self._cells[_LAYOUT.database] = _DATABASE_STATES.index("answers" if ready else "fails")
            self._cells[_LAYOUT.probed] = time.monotonic()

    def looked_at_nodes(self, problems: Mapping[str, str]) -> None:
        """Records the nodes of a Citus cluster, and the time of the look. Nodes with a problem come first."""
        text = b""
        for kept in range(len(problems), -1, -1):
            text = json.dumps(sorted(problems.items(), key=lambda each: not each[1])[:kept]).encode()
            if len(text) <= _NODES_BYTES:
                break
        with self._lock:
            self._cells[_LAYOUT.nodes] = -1
            self._nodes[: len(text)] = text
            self._cells[_LAYOUT.nodes] = len(text)
            self._cells[_LAYOUT.looked] = time.monotonic()

    def connected(self) -> None:
        """Counts a new connection."""
        self._count(_LAYOUT.connections)

    def _count(self, cell: int) -> None:
        with self._lock:
            self._cells[cell] += 1


class Blocks:
    """Holds the memory of all counts, made before the first fork. The master assigns its blocks to workers."""

    def __init__(self) -> None:
        memory = memoryview(mmap.mmap(-1, BLOCKS * _BLOCK_BYTES))
        self._blocks = [memory[start : start + _BLOCK_BYTES].cast("d") for start in range(0, len(memory), _BLOCK_BYTES)]
        memory = memoryview(mmap.mmap(-1, BLOCKS * _NODES_BYTES))
        self._nodes = [memory[start : start + _NODES_BYTES] for start in range(0, len(memory), _NODES_BYTES)]

    def take(self) -> int:
        """Returns the number of a block for a new worker. If none is free, workers share the last and may miscount."""
        free = (number for number, cells in enumerate(self._blocks) if not cells[_LAYOUT.live])
        number = next(free, BLOCKS - 1)
        cells = self._blocks[number]
        cells[_LAYOUT.live] = 1
        cells[_LAYOUT.starts] += 1
        return number

    def give_back(self, number: int) -> None:
        """Clears the state of a dead worker, and keeps its counts."""
        for cell in (_LAYOUT.live, _LAYOUT.database, _LAYOUT.in_progress, _LAYOUT.looked):
            self._blocks[number][cell] = 0

    def counts(self, number: int) -> Counts:
        """Returns the counts of a block's worker."""
        return Counts(self._blocks[number], self._nodes[number])

    def read(self) -> tuple[list[float], list[str]]:
        """Returns the sums of all cells, and each live worker's database state, if its last probe is recent."""
        used = []
        for cells in self._blocks:
            if not cells[_LAYOUT.starts]:  # nor any later block
                break
            used.append(cells.tolist())
        recent = time.monotonic() - limits.probes.LOOKED_SECONDS  # a clock that all processes share
        states = [
            _DATABASE_STATES[int(cells[_LAYOUT.database]) if cells[_LAYOUT.probed] > recent else 0]
            for cells in used
            if cells[_LAYOUT.live]
        ]
        return [sum(values) for values in zip(*used, strict=True)] or [0.0] * (_BLOCK_BYTES // 8), states

    def nodes(self) -> dict[str, set[str]]:
        """Returns by node the problems that live workers found lately; the empty set if they found none."""
        found: dict[str, set[str]] = {}
        oldest = max(time.monotonic() - limits.probes.NODES_LOOKED_SECONDS, 0.0)
        for cells, text in zip(self._blocks, self._nodes, strict=True):
            if not cells[_LAYOUT.starts]:
                break
            if cells[_LAYOUT.looked] <= oldest or (size := int(cells[_LAYOUT.nodes])) < 0:
                continue
            with suppress(ValueError):  # the worker has just begun to write other text
                for node, problem in json.loads(bytes(text[:size])):
                    found.setdefault(node, set()).update({problem} - {""})
        return found


class WorkerCollector(Collector):
    """Collects the counts as Prometheus's metrics, by its conventions."""

    def __init__(self, blocks: Blocks, info: dict[str, str]) -> None:
        self._blocks = blocks
        self._info = info

    def collect(self) -> Iterator[Metric]:
        """Yields the metrics of a scrape."""
        total, states = self._blocks.read()
        info = GaugeMetricFamily("sepu_build_info", "The version that runs; always 1.", labels=list(self._info))
        info.add_metric(list(self._info.values()), 1)
        yield info
        yield _counters(
            "sepu_http_requests", "Replies, also to invalid requests.", ("endpoint", "status"), _LAYOUT.requests, total
        )
        durations = HistogramMetricFamily(
            "sepu_http_request_duration_seconds",
            "From a complete request to its reply, in the worker.",
            labels=["endpoint", "status_class"],
        )
        for labels, histogram in _LAYOUT.durations.items():
            durations.add_metric(labels, *histogram.cumulative(total))
        yield durations
        yield _counters(
            "sepu_http_refusals", "Error replies, by the contract's code.", ("code",), _LAYOUT.refusals, total
        )
        yield _counters("sepu_units_charged", "Units charged.", ("meter",), _LAYOUT.units, total)
        yield _counters(
            "sepu_replays", "Stored results sent again, without a charge.", ("meter",), _LAYOUT.replays, total
        )
        yield GaugeMetricFamily(
            "sepu_ledger_commands_in_progress",
            "Requests that wait for the database or its answer.",
            total[_LAYOUT.in_progress],
        )
        yield HistogramMetricFamily(
            "sepu_ledger_call_commands",
            "Requests that shared a call of the database.",
            *_LAYOUT.sizes.cumulative(total),
        )
        yield _counters(
            "sepu_database_errors",
            "Failed calls and connection attempts, by SQLSTATE class; none: no answer.",
            ("sqlstate_class",),
            _LAYOUT.errors,
            total,
        )
        yield CounterMetricFamily(
            "sepu_database_connections_opened", "Connections made to the database.", total[_LAYOUT.connections]
        )
        workers = GaugeMetricFamily(
            "sepu_workers", "Live workers, by whether a charge could be committed lately.", labels=["database"]
        )
        for state in _DATABASE_STATES:
            workers.add_metric([state], states.count(state))
        yield workers
        nodes = GaugeMetricFamily(
            "sepu_node_ready",
            "Whether charges could be committed lately on a node of a Citus cluster; if not, why.",
            labels=["node", "problem"],
        )
        for node, problems in self._blocks.nodes().items():
            for problem in problems or {""}:
                nodes.add_metric([node, problem], float(not problem))
        yield nodes
        yield CounterMetricFamily("sepu_workers_started", "Workers forked.", total[_LAYOUT.starts])
        yield CounterMetricFamily("sepu_log_lines_dropped", "Lost lines of the log.", total[_LAYOUT.dropped])


def _counters(
    name: str, help_text: str, labels: Sequence[str], cells: Mapping[Any, int], total: Sequence[float]
) -> CounterMetricFamily:
    """Returns a counter for each cell. The cell's key is its label's value, or a tuple of its labels' values."""
    family = CounterMetricFamily(name, help_text, labels=labels)
    for key, cell in cells.items():
        family.add_metric([str(value) for value in key] if isinstance(key, tuple) else [key], total[cell])
    return family


@contextmanager
def serve_metrics(bind: str, blocks: Blocks, worker: str, library: str, schema: str) -> Iterator[None]:
    """Serves the metrics at `HOST:PORT` for the duration of the block.

    A separate process serves them: it answers however busy the others are, and the master, which forks, needs no
    thread. The process ends with the master, even if the master is killed.

    Raises:
        StartError: the address is not available.
    """
    registry = CollectorRegistry()
    info = {"version": version("sepu"), "worker": worker, "library": library, "schema": schema}
    registry.register(WorkerCollector(blocks, info))
    handler = type("Handler", (MetricsHandler.factory(registry),), {"timeout": _CLIENT_SECONDS})
    server = _listening(bind, handler)
    master = os.getpid()
    # Until the new process has its own handlers, a signal there would run the master's, which clean up.
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    server_process = os.fork()
    if not server_process:
        _answer_scrapes(server, master, mask)
    signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    server.server_close()
    try:
        yield
    finally:
        with suppress(ChildProcessError):  # if the process died, gunicorn has reaped it, and another may have its id
            if os.waitpid(server_process, os.WNOHANG) == (0, 0):
                os.kill(server_process, signal.SIGTERM)
                os.waitpid(server_process, 0)


def _listening(bind: str, handler: type) -> ThreadingTCPServer:
    host, _, port = bind.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not host or not port.isdecimal():
        raise StartError(f"--metrics-bind takes HOST:PORT, not {bind}")

    class MetricsServer(ThreadingTCPServer):
        address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        allow_reuse_address = True
        daemon_threads = True
        timeout = 1.0  # seconds between checks that the master exists

        def handle_error(self, request: object, client_address: object) -> None:
            """Ignores a scraper that disconnected; socketserver would print a traceback."""

    try:
        return MetricsServer((host, int(port)), handler)
    except (OSError, OverflowError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise StartError(f"cannot serve metrics at {bind} ({reason}); each `sepu serve` needs its own") from error


def _answer_scrapes(server: ThreadingTCPServer, master: int, mask: set[signal.Signals | int]) -> None:
    for number in (signal.SIGQUIT, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)
    # Ctrl-C also reaches this process, but the master needs this process until the master ends.
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2, signal.SIGWINCH):
        signal.signal(number, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    try:
        while os.getppid() == master:
            server.handle_request()
    finally:
        os._exit(0)
