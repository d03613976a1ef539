"""SQL, nginx and the documents repeat limits, headers and error codes of Python. They must be equal."""

import re
from datetime import timedelta
from pathlib import Path

import pytest

from sepu import limits
from sepu.cli.demo_account import DEMO_LIMITS, DEMO_PLAN, DEMO_REQUESTS_PER_MINUTE
from sepu.console.pages import DAILY_IS_OLD
from sepu.database import statements
from sepu.http.errors import ERRORS
from sepu.http.replies import COMMON_HEADERS
from sepu.metering.batcher import BATCH_SESSIONS, PROBE_SESSIONS, SINGLE_SESSIONS

ROOT = Path(__file__).parents[2]
FUNCTIONS = statements.functions().text
NGINX = (ROOT / "deploy" / "nginx" / "nginx.conf").read_text("utf-8")
UPSTREAM, SERVER = NGINX.split("upstream sepu {")[1].split("}")[0], NGINX.split("\n    server {")[1]
KIB = 1024
SESSIONS = BATCH_SESSIONS + PROBE_SESSIONS + SINGLE_SESSIONS  # of a worker


def nginx_map(name: str) -> dict[int, str]:
    block = NGINX.split(f"map $status ${name} {{")[1].split("}")[0]
    return {int(status): value for status, value in re.findall(r"^\s*(\d+) (.*);", block, re.MULTILINE)}


def directive(block: str, name: str) -> str:
    """The value of nginx's directive, which the block has once."""
    (value,) = re.findall(rf"^\s*{name} ([^;]*);", block, re.MULTILINE)
    return str(value)


def seconds(block: str, name: str) -> float:
    return float(directive(block, name).removesuffix("s"))


def size(text: str) -> int:
    return int(text.removesuffix("k")) * KIB


def test_functions_wait_for_locks_as_long_as_the_ledger_expects() -> None:
    timeout = r"create or replace function sepu\.(\w+)(?:(?!create or replace).)*?set lock_timeout = '(\d+)ms'"
    found = dict(re.findall(timeout, FUNCTIONS, re.DOTALL))
    assert {"admit", "read_usage", "meter_request"} <= found.keys()
    for name, milliseconds in found.items():
        expected = limits.BATCH_LOCK_SECONDS if "_each" in name else limits.LOCK_SECONDS
        assert int(milliseconds) == expected * 1000, name


def test_deadlines_end_one_before_the_other() -> None:
    # Who waits for a lock learns why before the call is given up, and nobody is refused for a migration that waits.
    assert limits.BATCH_LOCK_SECONDS < limits.LOCK_SECONDS < limits.STATEMENT_SECONDS
    assert limits.MIGRATION_LOCK_SECONDS <= limits.BATCH_LOCK_SECONDS / 2
    assert limits.QUEUE_SECONDS + limits.STATEMENT_SECONDS < 2, "an outage is known within two seconds"


def test_nginx_takes_the_head_that_the_service_takes() -> None:
    number, line = directive(SERVER, "large_client_header_buffers").split()
    assert int(number) * size(line) == limits.HEAD_BYTES
    assert size(line) - len("\r\n") == limits.LINE_BYTES


def test_nginx_leaves_it_to_the_service_to_refuse_a_body() -> None:
    most = size(directive(SERVER, "client_max_body_size"))
    assert limits.BODY_BYTES < most <= limits.BODY_BYTES + limits.DISCARDED_BYTES  # whose connection goes on
    assert size(directive(SERVER, "client_body_buffer_size")) == most  # or it would write bodies to its disk


def test_nginx_waits_as_long_as_the_service_and_for_it_longer() -> None:
    assert seconds(SERVER, "client_header_timeout") == limits.REQUEST_SECONDS
    assert seconds(SERVER, "client_body_timeout") == limits.REQUEST_SECONDS
    assert seconds(SERVER, "send_timeout") == limits.ANSWER_SECONDS
    assert seconds(SERVER, "proxy_read_timeout") > limits.QUEUE_SECONDS + limits.STATEMENT_SECONDS
    assert seconds(SERVER, "proxy_send_timeout") < limits.REQUEST_SECONDS
    assert seconds(UPSTREAM, "keepalive_timeout") < limits.IDLE_SECONDS  # of idle connections, nginx closes first


def test_a_worker_may_open_as_many_files_as_it_takes_connections() -> None:
    unit = (ROOT / "deploy" / "systemd" / "sepu@.service").read_text("utf-8")
    (files,) = re.findall(r"^LimitNOFILE=(\d+)$", unit, re.MULTILINE)
    assert limits.CONNECTIONS + SESSIONS < 1024 <= int(files)


def test_nginx_adds_the_headers_of_every_response() -> None:
    assert dict(COMMON_HEADERS)["Content-Type"] == directive(NGINX, "default_type")
    added = dict(re.findall(r"add_header (\S+) (\S+) always;", NGINX.split("location = /refusal {")[1]))
    assert added.keys() - {"Retry-After", "Allow", "X-Request-Id"} == dict(COMMON_HEADERS).keys() - {"Content-Type"}
    assert added["Cache-Control"] == dict(COMMON_HEADERS)["Cache-Control"]


def test_nginx_refuses_with_the_contracts_codes_and_retry_after() -> None:
    codes = nginx_map("own_error")
    assert codes.pop(503) == "$away"
    assert {code: status for status, code in codes.items()} == {code: ERRORS[code].status for code in codes.values()}
    codes[503] = "usage_commit_failed"
    expected = {status: ERRORS[code].retry_after for status, code in codes.items()}
    assert nginx_map("retry_after") == {status: seconds for status, seconds in expected.items() if seconds}


def kib(number: int) -> str:
    return f"{number // KIB} KiB"


# The quantities that a document names; the test reads "seconds" as "s", and leaves the sentences to their authors.
WAITS = [
    min(limits.FIRST_RETRY_SECONDS * 4**failed, limits.LONGEST_RETRY_SECONDS)
    for failed in range(limits.DELIVERY_ATTEMPTS - 1)
]
NAMED = {
    "docs/api.md": [
        *(kib(size) for size in (limits.BODY_BYTES, limits.FRAMING_BYTES, limits.HEAD_BYTES)),
        kib(limits.BODY_BYTES + limits.DISCARDED_BYTES),
        *(f"{most:g} s" for most in (limits.REQUEST_SECONDS, limits.ANSWER_SECONDS, limits.QUEUE_SECONDS)),
        *(f"{limits.LINE_BYTES} bytes", f"{limits.HEADERS} headers", f"{limits.IDLE_SECONDS} s after"),
        *(f"{limits.CONNECTIONS + 1}st", f"{limits.ADDRESS_CONNECTIONS + 1}th", f"{limits.LIMITED_CALLS} of its"),
        *(f"{DEMO_LIMITS['color_match']:,} units", f"{DEMO_LIMITS['color_search']:,} of"),
        *(f"{DEMO_REQUESTS_PER_MINUTE} requests a minute", f"`{DEMO_PLAN}`"),
    ],
    "docs/reliability.md": [
        *(f"{most:g} s" for most in (limits.QUEUE_SECONDS, limits.STATEMENT_SECONDS, limits.LOCK_SECONDS)),
        *(f"{most:g} s" for most in (limits.BATCH_LOCK_SECONDS, limits.REQUEST_SECONDS, limits.ANSWER_SECONDS)),
        *(f"{limits.CONNECT_SECONDS} s", f"{limits.CONNECTIONS} connections"),
        *(kib(limits.BODY_BYTES), kib(limits.HEAD_BYTES), f"{limits.ADDRESS_CONNECTIONS} of them"),
    ],
    "docs/develop/reliability.md": [
        *(f"{limits.RECONNECT_SECONDS:g} s", f"{limits.LENGTH_DIGITS} digits", f"{limits.BATCH_LOCK_SECONDS:g} s"),
        *(f"{limits.BATCH_CALLS} in one", f"{limits.LIMITED_CALLS} requests", f"{limits.RELIEF_SECONDS * 1000:g} ms"),
        kib(limits.BODY_BYTES + limits.DISCARDED_BYTES),
    ],
    "docs/deploy.md": [
        *(kib(limits.BODY_BYTES), f"{limits.REQUEST_SECONDS:g} s", f"{limits.MIGRATION_LOCK_SECONDS:g} s"),
        *(f"{limits.ADDRESS_CONNECTIONS} of its {limits.CONNECTIONS} connections", f"{SESSIONS} connections"),
    ],
    "docs/events.md": [
        *(f"{limits.WEBHOOK_SECONDS:g} s", f"{limits.FIRST_RETRY_SECONDS} s"),
        *(f"{limits.LONGEST_RETRY_SECONDS // 3600} hours", f"{limits.DELIVERY_ATTEMPTS} attempts"),
        f"{round(sum(WAITS) / 3600)} hours after the first",
    ],
    "docs/observe.md": [
        *(f"{most:g} s" for most in (limits.QUEUE_SECONDS, limits.LOOK_SECONDS, limits.LOOKED_SECONDS)),
        *(f"{limits.HEARTBEAT_SECONDS} s", f"{limits.CONNECTIONS} connections"),
    ],
    "docs/runbook.md": [f"{limits.MIGRATION_LOCK_SECONDS:g} s", f"{limits.MIGRATION_SECONDS:g} s"],
    "docs/scaling.md": [f"{SINGLE_SESSIONS} for calls"],
    "docs/security.md": [
        *(kib(limits.BODY_BYTES), f"{limits.IMAGE_BYTES // KIB**2} MiB", f"{limits.IMAGE_PIXELS:,} pixels"),
        *(f"{limits.IMAGE_HEADER_READS:,} reads", f"{limits.JPEG_SCANS} scans", f"{limits.TIFF_NUMBERS:,} numbers"),
    ],
    "docs/library.md": [f"{limits.IMAGE_BYTES // KIB**2} MiB", f"{limits.IMAGE_PIXELS:,} pixels"],
    "docs/console.md": [f"{DAILY_IS_OLD // timedelta(hours=1)} hours"],
    "deploy/postgres/sepu.conf": [f"{SESSIONS} connections"],
    "deploy/prometheus/alerts.yml": [f"sepu_audit_timestamp_seconds > {DAILY_IS_OLD // timedelta(hours=1)} * 3600"],
}


@pytest.mark.parametrize("file", NAMED)
def test_documents_name_the_limits(file: str) -> None:
    text = re.sub(r"\bseconds?\b", "s", " ".join((ROOT / file).read_text("utf-8").split()))
    assert [named for named in NAMED[file] if not re.search(rf"(?<![\d.,]){re.escape(named)}(?!\w)", text)] == []
