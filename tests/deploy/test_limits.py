"""SQL, nginx and the documents repeat limits, headers and error codes of Python. They must be equal."""

import re
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from sepu import limits
from sepu.cli.demo_account import DEMO_LIMITS, DEMO_PLAN, DEMO_REQUESTS_PER_MINUTE
from sepu.console.pages import AUDIT_IS_OLD
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


def lock_timeouts() -> Iterator[tuple[str, float]]:
    for function in FUNCTIONS.split("create or replace function sepu.")[1:]:
        for milliseconds in re.findall(r"set lock_timeout = '(\d+)ms'", function):
            yield function.partition("(")[0], int(milliseconds) / 1000


def nginx_map(name: str) -> dict[int, str]:
    """Read nginx's map from a status to a variable."""
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
    found = dict(lock_timeouts())
    assert {"admit", "read_usage_v2", "meter_request"} <= found.keys()
    for name, timeout in found.items():
        assert timeout == (limits.BATCH_LOCK_SECONDS if "_each" in name else limits.LOCK_SECONDS), name


def test_who_waits_for_a_lock_is_told_why_before_the_call_is_given_up() -> None:
    assert limits.BATCH_LOCK_SECONDS < limits.LOCK_SECONDS < limits.STATEMENT_SECONDS


def test_nobody_is_refused_for_a_migration_that_waits() -> None:
    assert limits.MIGRATION_LOCK_SECONDS <= limits.BATCH_LOCK_SECONDS / 2


def test_an_outage_is_told_within_two_seconds() -> None:
    assert limits.QUEUE_SECONDS + limits.STATEMENT_SECONDS < 2


def test_nginx_takes_the_head_that_the_service_takes() -> None:
    number, line = directive(SERVER, "large_client_header_buffers").split()
    assert int(number) * size(line) == limits.HEAD_BYTES
    assert size(line) - len("\r\n") == limits.LINE_BYTES


def test_nginx_leaves_it_to_the_service_to_refuse_a_body() -> None:
    most = size(directive(SERVER, "client_max_body_size"))
    assert limits.BODY_BYTES < most <= limits.BODY_BYTES + limits.DISCARDED_BYTES  # whose connection goes on
    assert size(directive(SERVER, "client_body_buffer_size")) == most  # or it would write bodies to its disk


def test_nginx_waits_for_clients_as_long_as_the_service() -> None:
    assert seconds(SERVER, "client_header_timeout") == limits.REQUEST_SECONDS
    assert seconds(SERVER, "client_body_timeout") == limits.REQUEST_SECONDS
    assert seconds(SERVER, "send_timeout") == limits.ANSWER_SECONDS


def test_nginx_closes_its_idle_connections_before_the_service_does() -> None:
    assert seconds(UPSTREAM, "keepalive_timeout") < limits.IDLE_SECONDS
    assert f"the service closes idle connections after {limits.IDLE_SECONDS} s" in UPSTREAM


def test_nginx_waits_longer_for_an_answer_than_one_takes() -> None:
    assert seconds(SERVER, "proxy_read_timeout") > limits.QUEUE_SECONDS + limits.STATEMENT_SECONDS
    assert seconds(SERVER, "proxy_send_timeout") < limits.REQUEST_SECONDS


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


def test_the_console_and_the_alert_agree_on_an_old_audit() -> None:
    alerts = (ROOT / "deploy" / "prometheus" / "alerts.yml").read_text("utf-8")
    hours = AUDIT_IS_OLD // timedelta(hours=1)
    assert f"time() - sepu_audit_timestamp_seconds > {hours} * 3600" in alerts
    assert f"older than {hours} hours" in (ROOT / "docs" / "console.md").read_text("utf-8")


def test_documents_have_the_plan_of_the_demo_account() -> None:
    matches, searches, requests = (
        DEMO_LIMITS["color_match"],
        DEMO_LIMITS["color_search"],
        DEMO_REQUESTS_PER_MINUTE,
    )
    text = " ".join((ROOT / "docs" / "api.md").read_text("utf-8").split())
    assert f"In the plan `{DEMO_PLAN}` an account has {matches:,} units of `color_match` and {searches:,} of" in text
    assert f"may send {requests} requests a minute" in text


@pytest.mark.parametrize(
    ("file", "phrases"),
    [
        (
            "docs/api.md",
            [
                f"(over {limits.BODY_BYTES // KIB} KiB)",
                f"not whole {limits.REQUEST_SECONDS:g} seconds after its first byte",
                f"more than {limits.FRAMING_BYTES // KIB} KiB around the body",
                f"a request line over {limits.LINE_BYTES} bytes",
                f"over {limits.HEADERS} headers, one of over {limits.LINE_BYTES} bytes",
                f"{limits.HEAD_BYTES // KIB} KiB in all",
                f"a worker's {limits.CONNECTIONS + 1}st connection",
                f"or the {limits.ADDRESS_CONNECTIONS + 1}th of one address",
                f"has {limits.ANSWER_SECONDS:g} seconds to take its answer",
                f"after {limits.REQUEST_SECONDS:g} seconds if there never was a byte",
                f"after {limits.IDLE_SECONDS} between two requests",
                f"with a body over {(limits.BODY_BYTES + limits.DISCARDED_BYTES) // KIB} KiB",
                f"does not come within {limits.QUEUE_SECONDS:g} seconds",
                f"After {limits.REFUSED_KEYS_PER_SECOND} refused keys within a second",
                f"at most {limits.LOOK_UPS_PER_SECOND} keys a second",
                f"At most {limits.LIMITED_CALLS} requests a second",
            ],
        ),
        (
            "docs/reliability.md",
            [
                f"waits {limits.QUEUE_SECONDS:g} s for its turn and a connection, and {limits.STATEMENT_SECONDS:g} s",
                f"waits {limits.LOCK_SECONDS:g} s for a lock",
                f"keeps for over {limits.BATCH_LOCK_SECONDS:g} s",
                f"others up for {limits.BATCH_LOCK_SECONDS:g} s at most",
                f"up to {limits.BATCH_CALLS} in one transaction",
                f"at most {limits.LIMITED_CALLS} requests a second",
                f"takes over {limits.RELIEF_SECONDS * 1000:g} ms",
                f"`connect_timeout` of {limits.CONNECT_SECONDS} s",
                f"A request has {limits.REQUEST_SECONDS:g} seconds from its first byte to its last",
                f"a client {limits.ANSWER_SECONDS:g} seconds to take its answer",
                f"a body has {limits.BODY_BYTES // KIB} KiB, a head {limits.HEAD_BYTES // KIB} KiB",
                f"a worker takes {limits.CONNECTIONS} connections, {limits.ADDRESS_CONNECTIONS} of them from one",
            ],
        ),
        (
            "docs/reliability-details.md",
            [
                f"{limits.RECONNECT_SECONDS:g} seconds pass between two attempts",
                f"at most {limits.LENGTH_DIGITS} digits",
                f"more than {(limits.BODY_BYTES + limits.DISCARDED_BYTES) // KIB} KiB of a body",
            ],
        ),
        (
            "docs/deploy.md",
            [
                f"the service takes {limits.BODY_BYTES // KIB} KiB",
                f"A head has {limits.REQUEST_SECONDS:g} seconds",
                f"at most {limits.ADDRESS_CONNECTIONS} of its {limits.CONNECTIONS} connections from one address",
                f"has up to {SESSIONS} connections",
                f"does not get in {limits.MIGRATION_LOCK_SECONDS:g} s",
            ],
        ),
        (
            "docs/events.md",
            [
                f"any 2xx within {limits.WEBHOOK_SECONDS:g} seconds",
                f"after {limits.FIRST_RETRY_SECONDS} seconds, then after four times as long",
                f"up to {limits.LONGEST_RETRY_SECONDS // 3600} hours",
                f"After {limits.DELIVERY_ATTEMPTS} attempts",
            ],
        ),
        (
            "docs/observe.md",
            [
                f"at most {limits.CONNECTIONS} connections",
                f"longer than {limits.QUEUE_SECONDS:g} s",
                f"stuck for {limits.HEARTBEAT_SECONDS} seconds",
                f"After {limits.REFUSED_KEYS_PER_SECOND} refused keys within a second",
                f"nobody asks for {limits.LOOK_SECONDS:g} seconds",
                f"if that is over {limits.LOOKED_SECONDS:g} s ago",
                f"look-ups of unknown keys to {limits.LOOK_UPS_PER_SECOND} a second",
            ],
        ),
        (
            "docs/runbook.md",
            [
                f"waits for {limits.MIGRATION_LOCK_SECONDS:g} s at a time",
                f"were in use for {limits.MIGRATION_SECONDS:g} seconds",
            ],
        ),
        ("docs/scaling.md", [f"up to {SINGLE_SESSIONS} for calls that go alone"]),
        (
            "docs/security.md",
            [
                f"the body ({limits.BODY_BYTES // KIB} KiB)",
                f"After {limits.REFUSED_KEYS_PER_SECOND} refused keys within a second",
                f"at most {limits.LOOK_UPS_PER_SECOND} well-formed unknown keys a second",
                f"more than {limits.IMAGE_BYTES // KIB**2} MiB, more than {limits.IMAGE_PIXELS:,} pixels",
                f"takes Pillow more than {limits.IMAGE_HEADER_READS:,} reads",
                f"a JPEG of more than {limits.JPEG_SCANS} scans",
                f"a tag of a TIFF with more than {limits.TIFF_NUMBERS:,} numbers",
            ],
        ),
        (
            "docs/library.md",
            [f"may have {limits.IMAGE_BYTES // KIB**2} MiB and {limits.IMAGE_PIXELS:,} pixels"],
        ),
        ("deploy/postgres/sepu.conf", [f"up to {SESSIONS} connections"]),
    ],
)
def test_documents_name_the_limits(file: str, phrases: list[str]) -> None:
    text = " ".join((ROOT / file).read_text("utf-8").split())
    assert [phrase for phrase in phrases if phrase not in text] == []
