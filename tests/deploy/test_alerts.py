"""The alerts ask for what there is, also of our jobs and of exporters, and each is tried in alerts_test.yml."""

import os
import re
import socket
import ssl
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import msgspec
import pytest
from prometheus_client.parser import text_string_to_metric_families
from tests.deploy.nginx import certificate
from tests.harness.postgres import Cluster, let_in
from tests.harness.processes import completed, running, until
from tests.harness.proxy import socket_directory
from tests.harness.serving import free_port
from tests.metrics import scrape
from tests.programs import program
from tools.site.dashboard import dashboard

from sepu.database.opening import connect
from sepu.http.errors import ERRORS
from sepu.server import metrics

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
PAGE = (ROOT / "docs" / "observe.md").read_text("utf-8")
DAY = 24 * 3600
RULES = {
    rule["alert"]: rule["expr"]
    for group in msgspec.yaml.decode((DEPLOY / "prometheus" / "alerts.yml").read_bytes())["groups"]
    for rule in group["rules"]
}


def asked(prefix: str) -> set[str]:
    """The metrics of that prefix in alerts."""
    return set(re.findall(rf"\b{prefix}_\w+", (DEPLOY / "prometheus" / "alerts.yml").read_text("utf-8")))


def assert_exported(
    name: str, options: list[str], expected: set[str], environment: dict[str, str] | None = None
) -> None:
    """Waits until an exporter serves these metrics."""
    address = f"127.0.0.1:{free_port()}"
    command = [program(name, name), f"--web.listen-address={address}", *options]

    def told() -> set[str]:
        with suppress(OSError):
            return set(re.findall(r"^\w+", scrape(address), re.MULTILINE))
        return set()

    with running(command, env={**os.environ, **(environment or {})}, stderr=subprocess.DEVNULL):
        until(lambda: expected <= told(), why=lambda: str(expected - told()))


def test_each_alert_is_on_the_page_and_tried_while_it_fires_and_while_it_does_not() -> None:
    assert re.findall(r"(?m)^### (Sepu\w+)$", PAGE) == [*RULES]
    groups = msgspec.yaml.decode((DEPLOY / "prometheus" / "alerts_test.yml").read_bytes())["tests"]
    tried = [(case["alertname"], case["exp_alerts"] != []) for group in groups for case in group["alert_rule_test"]]
    assert RULES.keys() == {name for name, fires in tried if fires} == {name for name, fires in tried if not fires}
    given = {re.split(r"\W", one["series"])[0] for group in groups for one in group.get("input_series", [])}
    assert given == set(re.findall(r"\b(?:sepu|pg|node)_\w+|\bup\b", " ".join(RULES.values())))


def test_a_quantile_is_compared_with_the_bound_of_a_bucket() -> None:
    quantiles = [expression for expression in RULES.values() if "histogram_quantile" in expression]
    compared = [float(expression.rpartition("> ")[2]) for expression in quantiles]
    assert compared
    assert {*compared} <= {*metrics._SECONDS}


def test_alerts_and_panels_select_values_that_there_are() -> None:
    values = {
        "code": ERRORS.keys(),
        "database": {*metrics._DATABASE_STATES},
        "endpoint": {*metrics._ENDPOINTS},
        "status_class": {*metrics._CLASSES},
    }
    shown = dashboard()
    panels = (each for panel in shown.panels for each in (panel, *panel.panels))
    text = "\n".join([*RULES.values(), *(target.expr for panel in panels for target in panel.targets)])
    selected = re.findall(r'\b(\w+)!?=~?"([\w|]+)"', text)
    wrong = [
        (label, value)
        for label, given in selected
        for value in given.split("|")
        if value not in values.get(label, value)
    ]
    assert (wrong, len(selected) > 5) == ([], True)


@pytest.mark.slow
def test_the_postgres_exporter_tells_what_the_alerts_ask() -> None:
    name = "prometheus-postgres-exporter"
    program(name, name)
    with socket_directory() as directory, socket_directory() as received:
        cluster = Cluster(directory)
        cluster.initialise()
        let_in(received)
        with cluster.running() as url, connect(url) as connection:
            connection.execute("select pg_create_physical_replication_slot('standby')")
            receiver = cluster.programs / "pg_receivewal"  # takes the place of a standby
            with running([receiver, "--dbname", url, "--slot", "standby", "-D", received], stderr=subprocess.DEVNULL):
                source = f"host={directory} user=sepu dbname=postgres"
                assert_exported(name, [], asked("pg"), {"DATA_SOURCE_NAME": source})


@pytest.mark.slow
def test_the_node_exporter_tells_what_the_alerts_ask(tmp_path: Path) -> None:
    compose = msgspec.yaml.decode((ROOT / "compose.yaml").read_bytes())["services"]["node-exporter"]["command"]
    ours = [option.replace("=/jobs", f"={tmp_path}") for option in compose]
    (tmp_path / "one.prom").write_text("sepu_audit_differences 0\n")
    name = "prometheus-node-exporter"
    # On Debian, with the page's option: Debian's own directory and one of a unit.
    [directories] = re.findall(r"ARGS='(--collector\.textfile\.directory=\S+)'", PAGE)
    for path, metric in (("prometheus/node-exporter", "of_debian"), ("sepu/node-exporter-audit", "of_a_unit")):
        (tmp_path / path).mkdir(parents=True)
        (tmp_path / path / "one.prom").write_text(f"{metric} 0\n")
    expected = asked("node") | {"of_debian", "of_a_unit"}
    assert_exported(name, [directories.replace("/var/lib", str(tmp_path))], expected)
    assert_exported(name, ours, asked("node") | {"sepu_audit_differences"})  # with the container's options


def test_the_ends_of_certificates_are_told(tmp_path: Path) -> None:
    pem, real = tmp_path / "certificate.pem", program("timeout", "coreutils")
    certificate(pem, pem, days=5)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(pem)
    with socket.create_server(("127.0.0.1", 0)) as listening, ThreadPoolExecutor() as threads:
        threads.submit(serve_once, context, listening)
        served = f"127.0.0.1:{listening.getsockname()[1]}"
        broken = tmp_path / "broken.pem"
        broken.write_text("none")
        silent = served.replace("127.0.0.1", "localhost")  # only one connection is answered
        places = [pem.name, served, str(broken), "absent", "127.0.0.1:1", silent]
        shorter = tmp_path / "timeout"
        shorter.write_text(f'#!/bin/sh\ncase "$*" in *{silent}*) shift; set -- 0.1 "$@";; esac\nexec {real} "$@"\n')
        shorter.chmod(0o755)
        text = (DEPLOY / "systemd" / "sepu-certificates.service").read_text()
        [script] = re.findall(r"^ExecStart=/bin/sh -ec '(.*?)'$", text, re.MULTILINE | re.DOTALL)
        script = script.replace("\\\n", "").replace("/usr/local/lib/sepu", str(DEPLOY))
        directories = {"CREDENTIALS_DIRECTORY": str(tmp_path), "STATE_DIRECTORY": str(tmp_path)}
        environment = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "PLACES": " ".join(places), **directories}
        told = completed(["/bin/sh", "-ec", script], env=environment)
    assert told.returncode == 0, told.stderr
    metrics = (tmp_path / "sepu_certificates.prom").read_text()
    found = [sample for family in text_string_to_metric_families(metrics) for sample in family.samples]
    assert {sample.name for sample in found} == asked("sepu_certificates?")
    *ends, looked = found
    assert [sample.labels["place"] for sample in ends] == places
    now = time.time()
    assert [round((sample.value - now) / DAY, 1) for sample in ends[:2]] == [5, 5]
    assert [sample.value for sample in ends[2:]] == [0] * 4, "what cannot be read has ended"
    assert abs(looked.value - now) < 60


def serve_once(context: ssl.SSLContext, listening: socket.socket) -> None:
    accepted, _ = listening.accept()
    with suppress(OSError), context.wrap_socket(accepted, server_side=True) as connection:
        connection.recv(1)
