"""The dashboard that we ship, and its picture."""

from pathlib import Path
from xml.etree import ElementTree

import msgspec
import pytest
from tests.harness.processes import completed
from tests.programs import program
from tools.site.dashboard import PICTURE, dashboard

SVG = "{http://www.w3.org/2000/svg}"


def test_prometheus_takes_each_query(tmp_path: Path) -> None:
    promtool, shown, rules = program("promtool", "prometheus"), dashboard(), tmp_path / "rules.json"
    panels = [each for panel in shown.panels for each in (panel, *panel.panels)]
    queries = [shown.query(target) for panel in panels for target in panel.targets]
    recorded = [{"record": f"query_{number}", "expr": query} for number, query in enumerate(queries)]
    rules.write_bytes(msgspec.json.encode({"groups": [{"name": "dashboard", "rules": recorded}]}))  # JSON is YAML
    done = completed([promtool, "check", "rules", rules])
    assert (done.returncode, done.stderr) == (0, "")
    assert f"{len(queries)} rules found" in done.stdout


@pytest.mark.parametrize(("unit", "seconds"), [("hours", 3600), ("days", 86400)])
def test_hours_and_days_are_divided_seconds(unit: str, seconds: int) -> None:
    shown = [(each, target) for row in dashboard().panels for each in (row, *row.panels) for target in each.targets]
    found = [target.expr for panel, target in shown if unit in f"{panel.title} {target.legend_format}"]
    assert {query.rpartition(" / ")[2] for query in found} == {f"{seconds}"}


def test_the_picture_is_of_this_dashboard() -> None:
    """Run `make dashboard` to draw it again."""
    drawn = ElementTree.parse(PICTURE).getroot().findall(f"{SVG}g")
    assert [(panel.findtext(f"{SVG}title"), panel.findtext(f"{SVG}desc")) for panel in drawn] == [
        (panel.title, "\n".join(target.expr for target in panel.targets)) for panel in dashboard().of_the_service
    ]
