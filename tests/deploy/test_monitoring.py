"""The alerts and the dashboard that we ship, and its picture. tests/server/test_observe.py gives both to Prometheus."""

import re
from pathlib import Path
from xml.etree import ElementTree

import msgspec
from tests.harness.processes import completed
from tests.programs import program
from tools.site.dashboard import PICTURE, dashboard

from sepu.http.errors import ERRORS
from sepu.server import metrics

SVG = "{http://www.w3.org/2000/svg}"
PROMETHEUS = Path(__file__).parents[2] / "deploy" / "prometheus"
RULES = {
    rule["alert"]: rule["expr"]
    for group in msgspec.yaml.decode((PROMETHEUS / "alerts.yml").read_bytes())["groups"]
    for rule in group["rules"]
}


def test_each_alert_is_tried_while_it_fires_and_while_it_does_not() -> None:
    tried = [
        (case["alertname"], case["exp_alerts"] != [])
        for group in msgspec.yaml.decode((PROMETHEUS / "alerts_test.yml").read_bytes())["tests"]
        for case in group["alert_rule_test"]
    ]
    assert RULES.keys() == {name for name, fires in tried if fires} == {name for name, fires in tried if not fires}


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


def test_prometheus_takes_each_query(tmp_path: Path) -> None:
    promtool, shown, rules = program("promtool", "prometheus"), dashboard(), tmp_path / "rules.json"
    panels = [each for panel in shown.panels for each in (panel, *panel.panels)]
    queries = [shown.query(target) for panel in panels for target in panel.targets]
    recorded = [{"record": f"query_{number}", "expr": query} for number, query in enumerate(queries)]
    rules.write_bytes(msgspec.json.encode({"groups": [{"name": "dashboard", "rules": recorded}]}))  # JSON is YAML
    done = completed([promtool, "check", "rules", rules])
    assert (done.returncode, done.stderr) == (0, "")
    assert f"{len(queries)} rules found" in done.stdout


def test_the_picture_is_of_this_dashboard() -> None:
    """Run `make dashboard` to draw it again."""
    drawn = ElementTree.parse(PICTURE).getroot().findall(f"{SVG}g")
    assert [(panel.findtext(f"{SVG}title"), panel.findtext(f"{SVG}desc")) for panel in drawn] == [
        (panel.title, "\n".join(target.expr for target in panel.targets)) for panel in dashboard().of_the_service
    ]
