"""The cost of a third meter: edits of a few files, after which everything with a part for each meter has it."""

import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
from psycopg import Connection
from tests.harness.serving import Server, free_port, serving
from tests.metrics import samples
from tests.package import Package, edited

from sepu.admin import accounts
from sepu.admin.plans import set_plan
from sepu.admin.usage import show_usage
from sepu.database.opening import connect
from sepu.database.opening import service_url as as_service

pytestmark = pytest.mark.slow

EDITS = tomllib.loads(Path(__file__).with_name("third_meter.toml").read_text("utf-8"))
MAX_FILES = 10
LIMITS = ("--match-limit", "5", "--search-limit", "6", "--list-limit", "2", "--requests-per-minute", "99")


@pytest.fixture
def package(tmp_path: Path) -> Package:
    return edited(tmp_path, EDITS)


@pytest.fixture(params=["uvloop", "gthread"])
def server(request: pytest.FixtureRequest, package: Package, own_url: str) -> Iterator[tuple[Server, str]]:
    """Yields a server of the edited copy, on an upgraded database with an older account, and its metrics' address."""
    with connect(own_url) as connection:
        set_plan(connection, "before", {"color_match": 1, "color_search": 1}, requests_per_minute=1)
    package.run("db", "migrate", url=own_url)
    metrics = f"127.0.0.1:{free_port()}"
    options = ["--metrics-bind", metrics]
    with serving(request.param, as_service(own_url), program=package.program, options=options) as served:
        yield served, metrics


def test_it_is_few_files() -> None:
    changed = {place.partition("::")[0] for place in EDITS}
    assert "sepu/metering/meters.py" in changed
    assert len(changed) <= MAX_FILES


def test_it_is_charged_shown_and_counted(
    server: tuple[Server, str], package: Package, own_url: str, connection: Connection
) -> None:
    served, metrics = server
    plan = package.json("plan", "set", "three", *LIMITS, url=own_url)
    limits = {"matchLimit": 5, "searchLimit": 6, "listLimit": 2, "requestsPerMinute": 99}
    assert plan == {"planId": "three", **limits, "thresholds": "80,95,100", "accounts": 0}
    account = package.json("account", "create", "--plan", "three", url=own_url)
    bearer = {"Authorization": f"Bearer {account['apiKey']}"}

    def ask(key: str) -> tuple[int, str, str]:
        answer = served.request("GET", "/v1/list", {**bearer, "Idempotency-Key": key})
        return answer.status, answer.headers["x-usage-meter"], answer.headers["x-usage-remaining"]

    assert [ask(f"list-000{n}") for n in (1, 1, 2, 3)] == [
        (200, "color_list", "1"),
        (200, "color_list", "1"),
        (200, "color_list", "0"),
        (429, "color_list", "0"),
    ]

    expected = [("color_match", 5, 0), ("color_search", 6, 0), ("color_list", 2, 2)]
    for usage in (
        served.request("GET", "/v1/usage", bearer).json,
        package.json("usage", account["accountId"], url=own_url),
    ):
        assert [(used["meter"], used["limit"], used["committed"]) for used in usage["usage"]] == expected
    shown = package.json("account", "show", account["accountId"], url=own_url)
    assert list(shown)[7:11] == ["matchLimit", "searchLimit", "listLimit", "requestsPerMinute"]
    used = [f"{operation}{what}" for what in ("Committed", "LastMonth") for operation in ("match", "search", "list")]
    assert list(shown)[11:] == [*used, "lastUsedOn"]
    assert shown["listLimit"] == 2
    ((month,),) = connection.execute("select distinct period from sepu.usage").fetchall()
    lines = package.run("export-usage", "--draft", month, url=own_url).splitlines()
    bill = f"{account['accountId']},three,active,{month},color_list,2,2,0,0,0,2,,,,false,"
    assert any(line.startswith(bill) for line in lines)
    assert package.json("audit", url=own_url)["differences"] == []

    counted = samples(metrics)
    assert counted["sepu_units_charged_total", (("meter", "color_list"),)] == 2
    assert counted["sepu_replays_total", (("meter", "color_list"),)] == 1


def test_plans_of_before_have_a_limit_for_it(package: Package, own_url: str, connection: Connection) -> None:
    package.run("db", "migrate", url=own_url)
    account = accounts.create_account(connection, "standard").account_id
    assert package.json("account", "show", account, url=own_url)["listLimit"] == 500
    # The earlier release still works: it leaves out unknown meters.
    assert [used.meter for used in show_usage(connection, account).usage] == ["color_match", "color_search"]
