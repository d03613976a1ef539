"""The log: one line a record, on standard error. JSON for machines, or text for a person at a terminal.

Standard output stays for what `sepu serve` tells its user, a new key for one, which belongs in no log.

A worker hands its lines to a thread, so that a slow reader of the log delays no answer; what does not fit any more is
dropped and counted. Lines are written whole, in batches that a pipe takes in one piece (PIPE_BUF), so those of several
processes do not mix. The master, which forks and so has no threads, writes at once; it has little to say, and drops it
after a second if it is not taken.
"""

import logging
import os
import select
import threading
import time
from collections import deque
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Literal

import msgspec
from gunicorn.config import Config
from gunicorn.glogging import Logger

from sepu.http.replies import Reply

LogFormat = Literal["auto", "json", "text"]

# How long a line may wait for others. The lines of a killed worker's last moment are lost; its counts are not.
_BATCH_SECONDS = 0.05
# What waits at most: some 2 MB, which a reader has to be seconds behind for.
_WAITING_LINES = 10_000
# For the last lines of a worker, and a line of the master.
_TIMEOUT_SECONDS = 1.0
# A message is cut to fit, so that its line does: JSON writes some characters as two.
_MESSAGE_ENDS = 900


class RequestRecord(msgspec.Struct, frozen=True, rename="camel"):
    """What is told of a request: nothing that the client wrote but the account, which is public."""

    time: datetime
    level: str
    event: str
    pid: int
    request_id: str
    account: str | None
    endpoint: str | None
    status: int
    error: str | None
    duration_ms: float | None
    replayed: bool


class LogRecord(msgspec.Struct, frozen=True):
    """Anything else: ours and gunicorn's."""

    time: datetime
    level: str
    event: str
    pid: int
    logger: str
    message: str


class RequestLog(logging.Handler):
    """Writes request lines, and what is logged."""

    def __init__(self, log_format: LogFormat, *, requests: bool = True, descriptor: int = 2) -> None:
        super().__init__()
        as_json = log_format == "json" or (log_format == "auto" and not os.isatty(descriptor))
        self._encode: Callable[[RequestRecord | LogRecord], bytes] = msgspec.json.Encoder().encode if as_json else _text
        self._requests = requests
        self._descriptor = descriptor
        self._pid = os.getpid()
        self._lines: deque[bytes] = deque()
        self._thread: threading.Thread | None = None
        self._dropped: Callable[[], None] = lambda: None
        self._wake = threading.Event()
        self._ending = False

    def start(self, dropped: Callable[[], None]) -> None:
        """From now on a thread writes; in a worker, after the fork. `dropped` hears of each line that is lost."""
        self._pid = os.getpid()
        self._dropped = dropped
        self._thread = threading.Thread(target=self._keep_writing, name="request_log", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Writes what waits, if it is taken soon; what comes later is written at once."""
        thread, self._thread = self._thread, None
        if thread is not None:
            self._ending = True
            self._wake.set()
            thread.join(_TIMEOUT_SECONDS)
            for _ in range(len(self._lines)):  # nobody reads, and the process ends
                self._dropped()

    def request(
        self, request_id: str, reply: Reply, route: str | None, account: str | None, seconds: float | None
    ) -> None:
        """A request was answered."""
        if self._requests:
            status = reply.status
            self._put(
                RequestRecord(
                    datetime.now(UTC),
                    "info" if status < 500 else "error",
                    "request",
                    self._pid,
                    request_id,
                    account,
                    route,
                    status,
                    reply.error,
                    seconds and int(seconds * 1e6) / 1000,
                    reply.replayed,
                )
            )

    def emit(self, record: logging.LogRecord) -> None:
        """Called by logging."""
        if self._thread is None and not select.select([], [self._descriptor], [], _TIMEOUT_SECONDS)[1]:
            return
        message = self.format(record).encode(errors="backslashreplace").decode()  # a path may be no UTF-8
        if len(message) > 2 * _MESSAGE_ENDS:
            message = f"{message[:_MESSAGE_ENDS]} … {message[-_MESSAGE_ENDS:]}"
        when = datetime.fromtimestamp(record.created, UTC)
        self._put(LogRecord(when, record.levelname.lower(), "log", os.getpid(), record.name, message))

    def _put(self, record: RequestRecord | LogRecord) -> None:
        line = self._encode(record) + b"\n"
        if self._thread is None:
            self._write(line)
        elif len(self._lines) >= _WAITING_LINES:
            self._dropped()
        else:
            self._lines.append(line)
            if not self._wake.is_set():
                self._wake.set()

    def _keep_writing(self) -> None:
        while not self._ending:
            self._wake.wait()
            if not self._ending:
                time.sleep(_BATCH_SECONDS)
            self._wake.clear()  # before the lines are taken: who adds one after that wakes us again
            self._write_waiting()
        self._write_waiting()

    def _write_waiting(self) -> None:
        lines = self._lines
        while lines:
            batch = lines.popleft()
            while lines and len(batch) + len(lines[0]) <= select.PIPE_BUF:
                batch += lines.popleft()
            self._write(batch)

    def _write(self, lines: bytes) -> None:
        try:
            while lines:
                lines = lines[os.write(self._descriptor, lines) :]
        except OSError:  # a full disk, or nobody reads any more
            for _ in range(lines.count(b"\n")):
                self._dropped()


def _text(record: RequestRecord | LogRecord) -> bytes:
    start = f"{record.time:%Y-%m-%d %H:%M:%S} [{record.pid}] [{record.level.upper()}]"
    if isinstance(record, LogRecord):
        return f"{start} {record.message}".encode()
    duration = "" if record.duration_ms is None else f" {record.duration_ms:.1f} ms"
    parts = [f" {record.error}" if record.error else "", " replayed" if record.replayed else ""]
    return (
        f"{start} {record.status} {record.endpoint or '-'}{duration}{''.join(parts)} {record.account or '-'} "
        f"{record.request_id}".encode()
    )


class GunicornLogger(Logger):
    """gunicorn's records go where ours go."""

    def setup(self, cfg: Config) -> None:
        """Called by gunicorn."""
        super().setup(cfg)
        self.error_log.handlers.clear()
        self.error_log.propagate = True
