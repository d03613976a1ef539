"""The log by itself: whole lines in each form, and no waits for a slow reader."""

import json
import logging
import os
import pty
import re
import select
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, suppress

import pytest
from tests.harness.processes import running
from tests.harness.serving import START_SECONDS

from sepu.http.replies import Reply, error
from sepu.metering.key_format import Credential
from sepu.server import request_log
from sepu.server.request_log import RequestLog


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    """The reading and the writing end."""
    ends = os.pipe()
    yield ends
    for end in ends:
        with suppress(OSError):
            os.close(end)


@pytest.fixture
def full_pipe(pipe: tuple[int, int]) -> tuple[int, int]:
    """A pipe whose writer must wait for its reader."""
    os.set_blocking(pipe[1], False)
    with suppress(BlockingIOError):
        while os.write(pipe[1], bytes(4096)):
            pass
    os.set_blocking(pipe[1], True)
    return pipe


def line(number: int = 0) -> tuple[str, Reply, str, Credential, float, str]:
    return (
        f"{number:032}",
        Reply(200, replayed=True),
        "/v1/match",
        Credential("b" * 16, bytes(32)),
        0.0012349,
        "the-idempotency-key",
    )


def record(message: str, **fields: float) -> logging.LogRecord:
    return logging.makeLogRecord({"name": "x", "levelname": "INFO", "msg": message, **fields})


def test_the_master_is_not_stopped_by_a_log_that_nobody_reads(full_pipe: tuple[int, int]) -> None:
    reading, writing = full_pipe
    log = RequestLog("json", descriptor=writing)
    log.emit(record("Booting worker"))
    os.read(reading, 1 << 16)
    log.emit(record("Booting worker"))
    assert json.loads(os.read(reading, 1 << 16))["message"] == "Booting worker"


def test_what_does_not_fit_any_more_is_dropped_and_counted(
    full_pipe: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(request_log, "_WAITING_LINES", 100)
    reading, writing = full_pipe
    dropped: list[None] = []
    log = RequestLog("json", descriptor=writing)
    log.start(lambda: dropped.append(None))
    log.emit(record("Worker ready"))
    for number in range(300):
        log.request(*line(number))
    assert 180 < len(dropped) <= 201  # a batch of up to 20 is in flight
    read = b""
    while f"{299 - len(dropped):032}".encode() not in read:
        read += os.read(reading, 1 << 16)
    log.stop()
    assert b'"Worker ready"' in read, "a message waits with the lines"


def test_a_line_that_comes_while_others_are_written_needs_no_further_one(
    pipe: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    log = RequestLog("text", descriptor=pipe[1])
    write = log._write_waiting

    def write_slowly() -> None:
        write()
        monkeypatch.undo()
        log.request(*line(2))

    monkeypatch.setattr(log, "_write_waiting", write_slowly)
    log.start(lambda: None)
    log.request(*line(1))
    for number in (1, 2):
        assert select.select([pipe[0]], [], [], START_SECONDS)[0]
        assert os.read(pipe[0], 4096).endswith(b"%032d\n" % number)
    log.stop()


def test_lines_unread_at_the_end_are_counted(full_pipe: tuple[int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(request_log, "_TIMEOUT_SECONDS", 0.2)
    dropped: list[None] = []
    log = RequestLog("json", descriptor=full_pipe[1])
    log.start(lambda: dropped.append(None))
    for number in range(100):
        log.request(*line(number))
    log.stop()
    assert 80 <= len(dropped) <= 100  # except for the batch in flight
    dropped.clear()
    os.close(full_pipe[0])
    for thread in threading.enumerate():  # it would continue to write to a reused descriptor
        if thread.name == "request_log":
            thread.join(START_SECONDS)
    assert len(dropped) == 100, "nothing reads: each line of each batch is lost"


def test_a_message_that_is_long_or_not_utf8_is_one_line(pipe: tuple[int, int]) -> None:
    log = RequestLog("json", descriptor=pipe[1])
    log.emit(record("\udcff"))
    assert json.loads(os.read(pipe[0], 1 << 16))["message"] == "\\udcff"
    for filler in ("y\n", "红", "\x01"):
        log.emit(record("first\n" + filler * 9000 + "last"))
        read = os.read(pipe[0], 1 << 16)
        assert len(read) <= select.PIPE_BUF
        message = json.loads(read)["message"]
        assert (message[:5], message[-4:]) == ("first", "last")


def test_a_terminal_gets_text_and_anything_else_json(pipe: tuple[int, int]) -> None:
    master, terminal = pty.openpty()
    RequestLog("auto", descriptor=terminal).request(*line())
    assert re.fullmatch(
        rb"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d \[\d+\] \[INFO\] 200 /v1/match 1.2 ms replayed b{16}-a{8} 0{32}\r\n",
        os.read(master, 4096),
    )
    reading, writing = pipe
    for log_format in ("auto", "text"):
        RequestLog(log_format, descriptor=writing).request(*line())
    as_json, as_text, _ = os.read(reading, 4096).split(b"\n")
    assert json.loads(as_json)["durationMs"] == 1.234
    assert b"the-idempotency-key" not in as_json
    assert as_text.endswith(b"0" * 32)
    request_id, _, *_ = asked = line()
    wrong = error("invalid_rgb", pointer="/colors/1/g")
    RequestLog("text", descriptor=writing).request(request_id, wrong, *asked[2:])
    assert b" 422 /v1/match 1.2 ms invalid_rgb /colors/1/g bbbb" in os.read(reading, 4096)
    RequestLog("text", descriptor=writing).emit(record("at a time", created=1_804_172_767.0))
    assert os.read(reading, 4096).startswith(b"2027-03-04 15:06:07 [")
    RequestLog("json", requests=False, descriptor=writing).request(*line())
    os.set_blocking(reading, False)
    with pytest.raises(BlockingIOError):
        os.read(reading, 1)
    for descriptor in (master, terminal):
        os.close(descriptor)


_WRITER = """
import sys, time
from sepu.http.replies import Reply
from sepu.server.request_log import RequestLog
log = RequestLog("json", descriptor=int(sys.argv[1]))
log.start(lambda: None)
for number in range(2000):
    log.request(f"{number:032}", Reply(200), "/v1/match", None, 0.001, None)
print(flush=True)
while log._lines:
    time.sleep(0.01)
log.stop()
"""


def test_lines_of_several_processes_do_not_mix() -> None:
    reading, writing = os.pipe()
    command = [sys.executable, "-c", _WRITER, str(writing)]
    with ExitStack() as stack:
        writers = [stack.enter_context(running(command, pass_fds=[writing], stdout=subprocess.PIPE)) for _ in range(2)]
        os.close(writing)
        for writer in writers:
            assert writer.stdout is not None
            with writer.stdout as told:
                assert told.readline() == b"\n"
        time.sleep(0.5)  # lets them fill their shared pipe: each byte read then lets one of them continue
        with os.fdopen(reading, "rb") as read:
            found = Counter(json.loads(written)["requestId"] for written in read)
        assert [writer.wait(30) for writer in writers] == [0, 0]
    assert found == Counter({f"{number:032}": 2 for number in range(2000)})
