"""Writes the log to standard error, one line for each record: JSON for programs, or text on a terminal.

Standard output is only for what `sepu serve` tells its user, such as a new key, which must not be in a log.

In a worker, a thread writes the lines, so that a slow reader of the log does not delay answers. Lines that do not fit
in the queue are dropped and counted. The thread writes whole lines in batches that a pipe takes in one piece
(PIPE_BUF), so lines of several processes do not mix. The master forks, so it has no threads: it writes each line
itself, and drops a line that nobody reads within a second.
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
from sepu.metering.key_format import Credential, idempotency_key_hash

LogFormat = Literal["auto", "json", "text"]

# Seconds that a line waits for others. A killed worker loses these lines, but not its counts.
_BATCH_SECONDS = 0.05
# The maximum number of waiting lines: about 2 MB, when the reader is seconds behind.
_WAITING_LINES = 10_000
# Seconds to wait for the reader: for a worker's last lines, and for each line of the master.
_TIMEOUT_SECONDS = 1.0
# Characters kept at each end of a long message: the first of these whose line fits into PIPE_BUF, so that processes do
# not mix their lines. JSON takes up to six bytes for a character.
_MESSAGE_ENDS = (900, 300)


class RequestRecord(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """The fields of a request. Of the client's text it has only public ids and the Idempotency-Key's hash.

    Records without the last two fields lack them in JSON, so they cost no more.
    """

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
    key_id: str | None
    idempotency_key_hash: str | None
    error_pointer: str = ""
    trace_id: str | None = None


class LogRecord(msgspec.Struct, frozen=True):
    """Holds the fields of any other record, including gunicorn's."""

    time: datetime
    level: str
    event: str
    pid: int
    logger: str
    message: str


class RequestLog(logging.Handler):
    """Writes request lines and log records."""

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
        """Starts the thread that writes; call it in a worker, after the fork. Calls `dropped` for each lost line."""
        self._pid = os.getpid()
        self._dropped = dropped
        self._thread = threading.Thread(target=self._keep_writing, name="request_log", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Writes the waiting lines, if the reader takes them soon. Later lines do not wait."""
        thread, self._thread = self._thread, None
        if thread is not None:
            self._ending = True
            self._wake.set()
            thread.join(_TIMEOUT_SECONDS)
            for _ in range(len(self._lines)):  # nothing reads, and the process ends
                self._dropped()

    def request(
        self,
        request_id: str,
        reply: Reply,
        route: str | None,
        credential: Credential | None,
        seconds: float | None,
        idempotency_key: str | None,
        trace: str | None = None,
    ) -> None:
        """Writes the line of an answered request."""
        if self._requests:
            status = reply.status
            account = None if credential is None else credential.account_id
            record = RequestRecord(
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
                None if credential is None else credential.key_id,
                account and idempotency_key and idempotency_key_hash(account, idempotency_key),
                reply.pointer,
                trace,
            )
            self._put(record)

    def emit(self, record: logging.LogRecord) -> None:
        """Writes a record; logging calls it."""
        if self._thread is None and not select.select([], [self._descriptor], [], _TIMEOUT_SECONDS)[1]:
            return
        text = self.format(record).encode(errors="backslashreplace").decode()  # a path may not be UTF-8
        when = datetime.fromtimestamp(record.created, UTC)
        for ends in _MESSAGE_ENDS:
            message = text if len(text) <= 2 * ends else f"{text[:ends]} … {text[-ends:]}"
            line = LogRecord(when, record.levelname.lower(), "log", os.getpid(), record.name, message)
            if len(self._encode(line)) < select.PIPE_BUF:
                break
        self._put(line)

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
            self._wake.clear()  # before taking the lines, so that a later line wakes the thread again
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
        except OSError:  # the disk is full, or nothing reads
            for _ in range(lines.count(b"\n")):
                self._dropped()


def _text(record: RequestRecord | LogRecord) -> bytes:
    start = f"{record.time:%Y-%m-%d %H:%M:%S} [{record.pid}] [{record.level.upper()}]"
    if isinstance(record, LogRecord):
        return f"{start} {record.message}".encode()
    duration = "" if record.duration_ms is None else f" {record.duration_ms:.1f} ms"
    parts = [f" {said}" for said in (record.error, record.error_pointer, record.replayed and "replayed") if said]
    return (
        f"{start} {record.status} {record.endpoint or '-'}{duration}{''.join(parts)} "
        f"{record.key_id or record.account or '-'} {record.request_id}".encode()
    )


class GunicornLogger(Logger):
    """Sends gunicorn's records to the same log."""

    def setup(self, cfg: Config) -> None:
        """Sets gunicorn's loggers up; gunicorn calls it."""
        super().setup(cfg)
        self.error_log.handlers.clear()
        self.error_log.propagate = True
