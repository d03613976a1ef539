"""SQL, nginx and the documents repeat limits, headers and error codes of Python. They must be equal."""

import re
from datetime import timedelta
from ipaddress import ip_address
from pathlib import Path

import pytest
from tests.harness.processes import completed

from sepu import limits
from sepu.cli.demo_account import DEMO_LIMITS, DEMO_PLAN, DEMO_REQUESTS_PER_MINUTE
from sepu.cli.events import _COUNT_SECONDS
from sepu.console.pages import DAILY_IS_OLD
from sepu.database import statements
from sepu.http.errors import ERRORS
from sepu.http.replies import COMMON_HEADERS
from sepu.limits import batches, connections, database, embedded, images, probes, requests, webhooks, workers
from sepu.metering.queues import SINGLE_SESSIONS, make_queues
from sepu_client import connections as of_client
from sepu_client import retries

ROOT = Path(__file__).parents[2]
FUNCTIONS = statements.functions().text
NGINX = (ROOT / "deploy" / "nginx" / "nginx.conf").read_text("utf-8")
UPSTREAM, SERVER = NGINX.split("upstream sepu {")[1].split("}")[0], NGINX.split("\n    server {")[1]
KIB = 1024
SESSIONS = max(sum(len(queue.slots) for queue in make_queues(batches=each)) for each in (False, True))  # per worker


def nginx_map(name: str) -> dict[int, str]:
    block = NGINX.split(f"map $status ${name} {{")[1].split("}")[0]
    return {int(status): value for status, value in re.findall(r"^\s*(\d+) (.*);", block, re.MULTILINE)}


def directive(block: str, name: str) -> str:
    """The value of an nginx directive that occurs once in the block."""
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
        expected = database.BATCH_LOCK_SECONDS if "_batch" in name else database.LOCK_SECONDS
        assert int(milliseconds) == expected * 1000, name


def test_deadlines_end_one_before_the_other() -> None:
    # A call that waits for a lock learns why before it times out, and a waiting migration causes no refusals.
    assert database.BATCH_LOCK_SECONDS < database.LOCK_SECONDS < database.STATEMENT_SECONDS
    assert database.MIGRATION_LOCK_SECONDS <= database.BATCH_LOCK_SECONDS / 2
    call = database.QUEUE_SECONDS + database.STATEMENT_SECONDS
    assert batches.REFUSED_SECONDS <= 1, "docs/accounts.md: a refused key may stay refused for a second"
    assert call < 2, "an outage is known within two seconds"
    # A worker that stops still reads, charges and answers the slowest request.
    assert requests.REQUEST_SECONDS + call + requests.ANSWER_SECONDS < workers.GRACEFUL_SECONDS
    # Each of these outlasts a webhook, a recovery, a back-off or a call.
    assert webhooks.ANSWER_SECONDS < webhooks.CLAIM_SECONDS / 2
    assert embedded.REPORT_SECONDS < 3 < embedded.START_SECONDS < embedded.LOCK_SECONDS
    assert retries.FIRST_BACK_OFF * 2**retries.DOUBLINGS < batches.UNANSWERED_SECONDS
    assert 2 * limits.console.STATEMENT_SECONDS < requests.REQUEST_SECONDS, "a page with two slow reads tells why"
    assert limits.retention.RESULTS <= 5000, "a prune's transaction takes less than a call waits for it"
    assert 2 * (probes.NODES_SECONDS + probes.LOOK_SECONDS) <= probes.NODES_LOOKED_SECONDS, "two looks may be missed"
    assert 10 * call < database.LOCK_HOLDER_SECONDS <= 60, "operators learn within a minute who blocks calls"


def test_nginx_takes_heads_as_the_service_and_leaves_it_to_the_service_to_refuse_bodies() -> None:
    number, line = directive(SERVER, "large_client_header_buffers").split()
    assert int(number) * size(line) == requests.HEAD_BYTES
    assert size(line) - len("\r\n") == requests.LINE_BYTES
    most = size(directive(SERVER.split("location")[0], "client_max_body_size"))
    assert requests.BODY_BYTES < most <= requests.BODY_BYTES + requests.DISCARDED_BYTES  # keeps the connection
    assert size(directive(SERVER, "client_body_buffer_size")) == most  # otherwise it would write bodies to disk


def test_nginx_limits_each_network_of_an_ipv6_subscriber() -> None:
    [pattern] = re.findall(r'map \$binary_remote_addr \$network \{\s*"~(\S+)" \$prefix;', NGINX)
    network = re.compile(pattern.replace("?<", "?P<").replace(r"\z", r"\Z").encode())
    subscriber = ip_address("2001:db8:0:a:ffff::a0a").packed
    found = network.search(subscriber)
    assert found is not None
    assert found["prefix"] == subscriber[:8]
    assert network.search(ip_address("192.0.2.1").packed) is None
    assert re.findall(r"limit_\w+_zone (\S+)", NGINX) == ["$network"] * 2


def test_nginx_waits_as_long_as_the_service_and_for_it_longer() -> None:
    assert seconds(SERVER, "client_header_timeout") == requests.REQUEST_SECONDS
    assert seconds(SERVER, "client_body_timeout") == requests.REQUEST_SECONDS
    assert seconds(SERVER, "send_timeout") == requests.ANSWER_SECONDS
    assert seconds(SERVER, "proxy_read_timeout") > database.QUEUE_SECONDS + database.STATEMENT_SECONDS
    assert seconds(SERVER, "proxy_send_timeout") < requests.REQUEST_SECONDS
    assert seconds(UPSTREAM, "keepalive_timeout") < connections.IDLE_SECONDS  # nginx closes idle connections first


def test_the_client_closes_idle_connections_before_anybody_else() -> None:
    firewalls = 60  # seconds, of many of them and of load balancers
    assert of_client.IDLE_SECONDS < firewalls < min(seconds(SERVER, "keepalive_timeout"), connections.IDLE_SECONDS)


def test_a_worker_may_open_as_many_files_as_it_takes_connections() -> None:
    unit = (ROOT / "deploy" / "systemd" / "sepu@.service").read_text("utf-8")
    (files,) = re.findall(r"^LimitNOFILE=(\d+)$", unit, re.MULTILINE)
    assert connections.OF_A_WORKER + SESSIONS < 1024 <= int(files)


def test_nginx_refuses_with_the_contracts_headers_codes_and_retry_after() -> None:
    assert dict(COMMON_HEADERS)["Content-Type"] == directive(NGINX, "default_type")
    added = dict(re.findall(r"add_header (\S+) (\S+) always;", NGINX.split("location = /refusal {")[1]))
    assert added.keys() - {"Retry-After", "Allow", "X-Request-Id"} == dict(COMMON_HEADERS).keys() - {"Content-Type"}
    assert added["Cache-Control"] == dict(COMMON_HEADERS)["Cache-Control"]
    codes = nginx_map("own_error")
    assert codes.pop(503) == "$away"
    assert {code: status for status, code in codes.items()} == {code: ERRORS[code].status for code in codes.values()}
    codes[503] = "usage_commit_failed"
    expected = {status: ERRORS[code].retry_after for status, code in codes.items()}
    assert nginx_map("retry_after") == {status: seconds for status, seconds in expected.items() if seconds}


def kib(number: int) -> str:
    return f"{number // KIB} KiB"


# The quantities that a document names. "seconds" is read as "s"; the wording is free.
WAITS = [
    min(webhooks.FIRST_RETRY_SECONDS * 4**failed, webhooks.MAX_RETRY_SECONDS) for failed in range(webhooks.ATTEMPTS - 1)
]
NAMED = {
    "docs/api.md": [
        *(kib(size) for size in (requests.BODY_BYTES, requests.FRAMING_BYTES, requests.HEAD_BYTES)),
        *(f"{most:g} s" for most in (requests.REQUEST_SECONDS, requests.ANSWER_SECONDS, database.QUEUE_SECONDS)),
        *(f"{requests.LINE_BYTES} bytes", f"{requests.HEADERS} headers", f"{connections.IDLE_SECONDS} s after"),
        *(f"{connections.OF_A_WORKER} connections", f"{connections.OF_AN_ADDRESS} from your address"),
        *(f"{DEMO_LIMITS['color_match']:,} units", f"{DEMO_LIMITS['color_search']:,} of"),
        *(f"{DEMO_REQUESTS_PER_MINUTE} requests a minute", f"`{DEMO_PLAN}`"),
    ],
    "docs/reliability.md": [
        *(f"{most:g} s" for most in (database.QUEUE_SECONDS, database.STATEMENT_SECONDS, database.LOCK_SECONDS)),
        f"{database.BATCH_LOCK_SECONDS:g} s",
    ],
    "docs/develop/reliability.md": [
        *(f"{requests.LENGTH_DIGITS} digits", f"{database.BATCH_LOCK_SECONDS:g} s"),
        *(f"{batches.CALLS} in one", f"{batches.LIMITED_CALLS} requests", f"{batches.OVERFLOW_SECONDS * 1000:g} ms"),
        *(f"{most * 1000:g} ms" for most in (batches.SLOW_CALL_SECONDS, batches.GATHER_SECONDS)),
    ],
    "docs/develop/architecture.md": [f"{database.LOCK_SECONDS:g} s", f"{database.BATCH_LOCK_SECONDS:g} s"],
    "docs/accounts.md": [f"connection limit {database.ROLE_CONNECTIONS['accounts']}"],
    "docs/deploy.md": [
        f"{connections.OF_AN_ADDRESS} of its {connections.OF_A_WORKER} connections",
        f"{SESSIONS} connections",
    ],
    "docs/events.md": [
        *(f"{webhooks.ANSWER_SECONDS:g} s", f"{webhooks.FIRST_RETRY_SECONDS} s"),
        *(f"{webhooks.MAX_RETRY_SECONDS // 3600} hours", f"{webhooks.ATTEMPTS} attempts"),
        f"{round(sum(WAITS) / 3600)} hours after the first",
    ],
    "docs/observe.md": [
        *(f"{most:g} s" for most in (database.QUEUE_SECONDS, probes.LOOK_SECONDS, probes.LOOKED_SECONDS)),
        *(f"{workers.HEARTBEAT_SECONDS} s", f"{connections.OF_A_WORKER} HTTP connections"),
        f"every {probes.NODES_SECONDS:g} s",
    ],
    "docs/runbook.md": [f"{database.MIGRATION_LOCK_SECONDS:g} s", f"{database.MIGRATION_SECONDS:g} s"],
    "docs/scaling.md": [f"{SINGLE_SESSIONS} for calls"],
    "docs/security.md": [
        *(kib(requests.BODY_BYTES), f"{images.BYTES // KIB**2} MiB", f"{images.PIXELS:,} pixels"),
        *(f"{images.HEADER_READS:,} reads", f"{images.JPEG_SCANS} scans", f"{images.TIFF_NUMBERS:,} numbers"),
    ],
    "docs/library.md": [f"{images.BYTES // KIB**2} MiB", f"{images.PIXELS:,} pixels"],
    "docs/console.md": [f"{DAILY_IS_OLD // timedelta(hours=1)} hours"],
    "deploy/nginx/nginx.conf": [
        kib(requests.BODY_BYTES),
        f"{requests.REQUEST_SECONDS:g} s",
        f"{connections.IDLE_SECONDS} s",
    ],
    "deploy/postgres/sepu.conf": [f"{SESSIONS} connections"],
    "deploy/prometheus/alerts.yml": [
        f"sepu_audit_timestamp_seconds > {DAILY_IS_OLD // timedelta(hours=1)} * 3600",
        f"sepu_events_timestamp_seconds > {10 * _COUNT_SECONDS}",  # ten counts were missed
    ],
}


@pytest.mark.parametrize("file", NAMED)
def test_documents_name_the_limits(file: str) -> None:
    text = re.sub(r"\bseconds?\b", "s", " ".join((ROOT / file).read_text("utf-8").split()))
    assert [named for named in NAMED[file] if not re.search(rf"(?<![\d.,]){re.escape(named)}(?!\w)", text)] == []


def test_scripts_give_each_role_as_many_connections_as_the_command_asks_for() -> None:
    postgres = ROOT / "deploy" / "postgres"
    script = (postgres / "make-role.sh").read_text()
    made = re.findall(r"^    (\w+)\) connections=(\d+) ;;$", script, re.MULTILINE)
    roles = (postgres / "roles.sh").read_text()
    composed = re.findall(r"^create role sepu_(\w+) login connection limit (\d+)", roles, re.MULTILINE)
    purposes = {"console": "read-only"}
    limited = {role: int(limit) for role, limit in made if role != "owner"}
    assert limited == {role: database.ROLE_CONNECTIONS[purposes.get(role, role)] for role in limited}
    assert set(made) <= set(composed)
    (most,) = re.findall(r"^max_connections = (\d+)$", (postgres / "sepu.conf").read_text(), re.MULTILINE)
    reserved = 3  # superuser_reserved_connections
    assert sum(int(limit) for _, limit in composed) + reserved <= int(most)
    # The owner's migrations and audits may sort more.
    files = [f"alter role sepu_{role} set temp_file_limit = '{database.ROLE_TEMP_FILES}'" for role in limited]
    assert re.findall("^(alter role .*);$", roles, re.MULTILINE) == files
    head = script.partition("\n[ ! -e ")[0]
    told = [completed(["/bin/sh", "-c", f'{head}\necho "$files"', "make-role.sh", role]).stdout for role, _ in made]
    assert told == ["\n", *(f"{limit}\n" for limit in files)]
