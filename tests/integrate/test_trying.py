"""A test account, as docs/keys.md makes it: real answers, and no line in the export for billing."""

import json
import os
import re
import sysconfig
from pathlib import Path

import pytest
from tests.processes import completed
from tests.serving import serving

PAGE = Path(__file__).parents[2] / "docs" / "keys.md"


@pytest.mark.slow
def test_the_units_of_a_test_account_are_not_billed(own_url: str) -> None:
    section = PAGE.read_text("utf-8").partition("## Test accounts\n")[2].partition("\n## ")[0]
    make_plan, make_account, export = re.findall(r"^\$ (sepu .*)$", section, re.MULTILINE)
    path = f"{sysconfig.get_path('scripts')}:{os.environ['PATH']}"

    def run(line: str) -> str:
        done = completed(["bash", "-c", line], env={**os.environ, "SEPU_DATABASE_URL": own_url, "PATH": path})
        assert done.returncode == 0, done.stderr
        return done.stdout

    run("sepu plan set standard --match-limit 9 --search-limit 9 --requests-per-minute 9")
    run(make_plan)
    holders = [json.loads(run(f"{line} --json")) for line in (make_account, "sepu account create --plan standard")]
    with serving("uvloop", own_url, workers=1) as server:
        tried, paid = (
            server.request(
                "GET",
                "/v1/search?q=hong",
                {"Authorization": f"Bearer {holder['apiKey']}", "Idempotency-Key": "order-8812"},
            )
            for holder in holders
        )
    assert (tried.status, tried.body) == (200, paid.body)
    this_month = export.replace("2026-11", tried.headers["x-usage-period"])
    billed = {tuple(line.split(",")) for line in run(this_month).splitlines()}
    assert {(line[1], line[4], line[6]) for line in billed if line[0] != "accountId"} == {
        ("standard", "color_match", "0"),
        ("standard", "color_search", "1"),
    }
    assert run(this_month.partition(" --exclude")[0]).count(",test,") == 2
