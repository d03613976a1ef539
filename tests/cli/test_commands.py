"""The commands as others call them: processes, their output, their exit status."""

import json
import subprocess
import sys
import time
from pathlib import Path

import psycopg
import pytest
from prometheus_client.parser import text_string_to_metric_families
from tests.cli.running import Run, failed, fields, printed
from tests.processes import completed
from tests.serving import serving

from sepu.cli.database import connect
from sepu.metering import commands, key_format
from sepu.metering.ledger import Ledger


def admitted(database_url: str, api_key: str) -> str:
    holder = key_format.credential(api_key)
    assert holder is not None
    ledger = Ledger(database_url, 1)
    ledger.open()
    try:
        return ledger.run(commands.admit(holder))
    finally:
        ledger.close()


def test_an_account_from_its_plan_to_its_suspension(run: Run, database_url: str) -> None:
    limits = ("--match-limit", "7", "--search-limit", "0", "--requests-per-minute", "30")
    plan = printed(run("plan", "set", "tiny", *limits, "--json"))
    shown = {"matchLimit": 7, "searchLimit": 0, "requestsPerMinute": 30}
    assert plan == {"planId": "tiny", **shown, "thresholds": "80,95,100", "accounts": 0}

    account = printed(run("account", "create", "--plan", "tiny", "--json"))
    assert list(account) == ["accountId", "planId", "keyId", "apiKey"]
    assert admitted(database_url, account["apiKey"]) == "ok"

    usage = printed(run("usage", account["accountId"], "--json"))
    assert (usage["accountId"], usage["planId"], usage["status"]) == (account["accountId"], "tiny", "active")
    assert [(meter["meter"], meter["limit"], meter["remaining"]) for meter in usage["usage"]] == [
        ("color_match", 7, 7),
        ("color_search", 0, 0),
    ]

    assert printed(run("account", "move", account["accountId"], "--plan", "standard", "--json"))["planId"] == "standard"
    assert printed(run("account", "suspend", account["accountId"], "--json"))["status"] == "suspended"
    assert admitted(database_url, account["apiKey"]) == "account_unavailable"
    assert printed(run("usage", account["accountId"], "--json"))["status"] == "suspended"
    assert printed(run("account", "reactivate", account["accountId"], "--json"))["status"] == "active"
    assert admitted(database_url, account["apiKey"]) == "ok"


def test_a_second_key_and_the_revocation_of_the_first(run: Run, database_url: str) -> None:
    account = fields(run("account", "create"))
    assert account["planId"] == "standard"
    second = printed(run("key", "issue", account["accountId"], "--expires-at", "2999-01-31T12:00:00+08:00", "--json"))
    assert second["expiresAt"].startswith("2999-01-31T")

    for _ in range(2):  # revoking twice is revoking once
        assert fields(run("key", "revoke", account["keyId"])) == {"keyId": account["keyId"], "status": "revoked"}
    assert admitted(database_url, account["apiKey"]) == "unauthorized"
    assert admitted(database_url, second["apiKey"]) == "ok"


def test_what_does_not_exist_is_named(run: Run) -> None:
    failed(run("db", "distribute"), "this database has no Citus; install it, and: create extension citus")
    failed(run("usage", "a" * 16), "there is no account 'aaaaaaaaaaaaaaaa'")
    failed(run("usage", "nonsense"), "there is no account 'nonsense'")
    failed(run("account", "suspend", "a" * 16), "there is no account")
    failed(run("account", "move", "a" * 16, "--plan", "standard"), "there is no account")
    failed(run("account", "reactivate", "a" * 16), "there is no account")
    failed(run("account", "create", "--plan", "golden"), "there is no plan 'golden'", "sepu plan set")
    failed(run("key", "issue", "a" * 16), "there is no account")
    failed(run("key", "issue", "nonsense"), "there is no account")
    failed(run("key", "revoke", f"{'a' * 16}-{'b' * 8}"), "there is no key")
    failed(run("key", "revoke", "nonsense"), "there is no key")
    limits = ("--match-limit", "7", "--search-limit", "0", "--requests-per-minute", "30")
    failed(run("plan", "set", "No Good", *limits), "plan 'No Good'")
    failed(run("plan", "set", "tiny", *limits, "--match-limit", str(2**31)), "2147483647")


@pytest.mark.parametrize(
    "arguments",
    [
        ("plan", "set", "tiny", "--match-limit", "-1", "--search-limit", "0", "--requests-per-minute", "1"),
        ("plan", "set", "tiny", "--match-limit", "1", "--search-limit", "0", "--requests-per-minute", "0"),
        ("key", "issue", "a" * 16, "--expires-at", "2027-01-31T12:00:00"),
        ("key", "issue", "a" * 16, "--expires-at", "tomorrow"),
        ("key", "issue", "a" * 16, "--expires-at", "2000-01-01T00:00:00Z"),
        ("serve", "--port", "0"),
        ("serve", "--workers", "0"),
        ("serve", "--worker", "sync"),
        ("match", "no-colour"),
        ("match", "#12345"),
        ("match",),
        ("search",),
    ],
)
def test_arguments_that_make_no_sense(run: Run, arguments: tuple[str, ...]) -> None:
    done = run(*arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert "Usage:" in done.stderr


def test_settings_come_from_the_environment_too(run: Run) -> None:
    refused = run("serve", SEPU_WORKER="meinheld")
    failed(refused, "--bind unix:PATH")
    assert run("serve", SEPU_WORKERS="many").returncode == 2
    assert run("serve", SEPU_PORT="http").returncode == 2
    failed(run("serve", SEPU_BIND="0.0.0.0:80"), "--bind takes unix:PATH")


def test_a_database_that_cannot_be_had(run: Run) -> None:
    failed(run("usage", "a" * 16, SEPU_DATABASE_URL="postgresql://127.0.0.1:1/none"), "cannot be reached")
    failed(run("serve", SEPU_DATABASE_URL="postgresql://127.0.0.1:1/none"), "cannot be reached")
    secret = run("serve", SEPU_DATABASE_URL="hunter2 is my password")
    failed(secret, "not a connection string")
    assert "hunter2" not in secret.stderr


def test_an_external_database_is_migrated_only_when_told(
    run: Run, connection: psycopg.Connection, database_url: str
) -> None:
    connection.execute("create database foreign_land")
    url = psycopg.conninfo.make_conninfo(database_url, dbname="foreign_land")
    try:
        failed(run("serve", SEPU_DATABASE_URL=url), "lacks 0001_ledger.sql", "sepu db migrate")
        failed(run("account", "create", SEPU_DATABASE_URL=url), "lacks 0001_ledger.sql")
        migrated = printed(run("db", "migrate", "--json", SEPU_DATABASE_URL=url))
        assert migrated["applied"][0] == "0001_ledger.sql"
        assert printed(run("db", "migrate", "--json", SEPU_DATABASE_URL=url)) == {"applied": []}
        assert fields(run("account", "create", SEPU_DATABASE_URL=url))["planId"] == "standard"
    finally:
        connection.execute("drop database foreign_land")


def test_a_role_that_serves(run: Run, connection: psycopg.Connection, own_url: str) -> None:
    connection.execute("create role waiter login")
    url = psycopg.conninfo.make_conninfo(own_url, user="waiter")
    try:
        failed(run("serve", SEPU_DATABASE_URL=url), "permission denied")
        for _ in range(2):
            assert printed(run("db", "grant", "waiter", "--json", SEPU_DATABASE_URL=own_url)) == {"role": "waiter"}
        with serving("uvloop", url, workers=1):
            pass  # it became ready
        failed(run("db", "grant", "waiter", SEPU_DATABASE_URL=url), "only sepu, who owns the schema")
        failed(run("db", "grant", "public", SEPU_DATABASE_URL=own_url), "there is no database role 'public'")
        failed(run("account", "create", SEPU_DATABASE_URL=url), "permission denied")
    finally:
        with connect(own_url) as owner:
            owner.execute("drop owned by waiter")
        connection.execute("drop role waiter")


def test_an_audit(run: Run, own_url: str) -> None:
    account_id = printed(run("account", "create", "--json", SEPU_DATABASE_URL=own_url))["accountId"]
    clean = printed(run("audit", "--json", SEPU_DATABASE_URL=own_url))
    assert clean == {"counters": 0, "results": 0, "differences": []}
    assert run("audit", SEPU_DATABASE_URL=own_url).stdout == "0 counters, 0 stored results: it adds up\n"

    with connect(own_url) as connection:
        connection.execute(
            "insert into sepu.usage (account_id, period, meter, committed) values (%s, '2031-03', 'color_match', 77)",
            (account_id,),
        )
    wrong = run("audit", "--json", SEPU_DATABASE_URL=own_url)
    assert (wrong.returncode, wrong.stderr) == (1, "")
    difference = {"accountId": account_id, "period": "2031-03", "meter": "color_match"}
    numbers = {"committed": 77, "pruned": 0, "stored": None, "dated": 0, "days": None, "events": 0, "recorded": None}
    assert json.loads(wrong.stdout) == {"counters": 1, "results": 0, "differences": [{**difference, **numbers}]}
    shown = run("audit", SEPU_DATABASE_URL=own_url)
    assert (shown.returncode, shown.stderr) == (1, "")
    for text in (account_id, "2031-03", "color_match", "77", "1 differences"):
        assert text in shown.stdout


def test_an_audit_for_prometheus(run: Run, own_url: str, tmp_path: Path) -> None:
    file = tmp_path / "sepu_audit.prom"

    def gauges() -> dict[str, float]:
        families = text_string_to_metric_families(file.read_text())
        return {sample.name: sample.value for family in families for sample in family.samples}

    started = time.time()
    assert run("audit", "--metrics-file", str(file), SEPU_DATABASE_URL=own_url).returncode == 0
    assert gauges()["sepu_audit_differences"] == 0
    assert started <= gauges()["sepu_audit_timestamp_seconds"] <= time.time()
    account_id = printed(run("account", "create", "--json", SEPU_DATABASE_URL=own_url))["accountId"]
    with connect(own_url) as connection:
        connection.execute(
            "insert into sepu.usage (account_id, period, meter, committed) values (%s, '2031-03', 'color_match', 77)",
            (account_id,),
        )
    assert run("audit", "--metrics-file", str(file), SEPU_DATABASE_URL=own_url).returncode == 1
    assert gauges()["sepu_audit_differences"] == 1
    before = file.read_text()
    assert run("audit", "--metrics-file", str(file), SEPU_DATABASE_URL="postgresql://127.0.0.1:1/none").returncode == 2
    assert file.read_text() == before
    absent = run("audit", "--metrics-file", str(tmp_path / "no" / "file"), SEPU_DATABASE_URL=own_url)
    assert (absent.returncode, "1 differences" in absent.stdout) == (1, True)
    assert "No such file or directory" in absent.stderr


def test_an_audit_whose_verdict_cannot_be_stored(run: Run, own_url: str, tmp_path: Path) -> None:
    with connect(own_url) as connection:
        connection.execute("alter table sepu.audit_run add constraint audit_run_full check (false)")
    file = tmp_path / "sepu_audit.prom"
    done = run("audit", "--metrics-file", str(file), SEPU_DATABASE_URL=own_url)
    assert (done.returncode, done.stdout) == (0, "0 counters, 0 stored results: it adds up\n")
    assert done.stderr.startswith("sepu: the verdict cannot be stored, so the console does not show it: ")
    assert "sepu_audit_timestamp_seconds" in file.read_text()
    unwritten = run("audit", "--metrics-file", str(tmp_path / "no" / "file"), SEPU_DATABASE_URL=own_url)
    assert (unwritten.returncode, unwritten.stdout) == (2, done.stdout)


def test_an_audit_that_cannot_check_says_so(run: Run, empty_url: str) -> None:
    absent = run("audit", SEPU_DATABASE_URL="postgresql://127.0.0.1:1/none")
    unmigrated = run("audit", "--json", SEPU_DATABASE_URL=empty_url)
    for done, reason in ((absent, "cannot be reached"), (unmigrated, "sepu db migrate")):
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr.startswith("sepu: ")
        assert reason in done.stderr
        assert "--database-url" not in done.stderr  # others can see arguments, and a connection string has a password


def test_a_prune(run: Run, own_url: str) -> None:
    api_key = printed(run("account", "create", "--json", SEPU_DATABASE_URL=own_url))["apiKey"]
    holder = key_format.credential(api_key)
    assert holder is not None
    with connect(own_url) as connection:
        for days in (10, 40, 80, 100):
            connection.execute(
                "select from sepu.meter_request(%s, %s, %s, %s, 'color_match', 3, '{}', "
                "now() - make_interval(days => %s))",
                (holder.account_id, holder.key_hash, f"{days}-days-old", bytes(32), days),
            )
    pruned = printed(run("prune", "--json", SEPU_DATABASE_URL=own_url))
    assert pruned == {"olderThanDays": 90, "results": 1, "units": 3, "deliveries": 0}
    again = fields(run("prune", "--older-than-days", "31", SEPU_DATABASE_URL=own_url))
    assert again == {"olderThanDays": "31", "results": "2", "units": "6", "deliveries": "0"}
    assert printed(run("audit", "--json", SEPU_DATABASE_URL=own_url))["results"] == 1
    assert run("prune", "--older-than-days", "30", SEPU_DATABASE_URL=own_url).returncode == 2


def test_matching_offline(run: Run, tmp_path: Path) -> None:
    nowhere = str(tmp_path / "no-database")
    found = printed(run("match", "#C83C23", "ffffff", "--top", "2", "--json", SEPU_STATE_DIR=nowhere))
    first, second = found["results"]
    assert (first["input"], first["matches"][0]["slug"], first["matches"][0]["deltaE"]) == ("#C83C23", "fei-hong", 0)
    assert (second["input"], second["matches"][0]["slug"]) == ("#FFFFFF", "jing-bai")
    assert [len(result["matches"]) for result in found["results"]] == [2, 2]
    table = run("match", "#C83C23")
    assert table.returncode == 0
    for text in ("绯红", "fēi hóng", "Scarlet Silk", "#C83C23", "0.0000"):
        assert text in table.stdout
    assert not Path(nowhere).exists()


def test_searching_offline(run: Run) -> None:
    found = printed(run("search", "tao", "hong", "--limit", "1", "--json"))
    assert (found["count"], found["results"][0]["slug"]) == (1, "tao-hong")
    table = run("search", "桃红")
    assert (table.returncode, "Peach Blossom Pink" in table.stdout) == (0, True)
    assert printed(run("search", "qqqqqq", "--json"))["count"] == 0


WITHOUT = """
import sys
for absent in sys.argv.pop(1).split():
    sys.modules[absent] = None
from sepu.cli.main import main
sys.argv[0] = "sepu"
main()
"""


SERVER = ("falcon", "gunicorn", "psycopg", "psycopg_pool")


def without(packages: tuple[str, ...], *arguments: str) -> subprocess.CompletedProcess[str]:
    """Runs `sepu` as if some packages were not installed."""
    program = [sys.executable, "-c", WITHOUT, " ".join(packages)]
    return completed([*program, *arguments])


@pytest.mark.slow
def test_the_offline_commands_need_nothing_of_the_server() -> None:
    absent = (*SERVER, "joserfc")
    assert printed(without(absent, "search", "taohong", "--json"))["count"] == 1
    assert printed(without(absent, "match", "#C83C23", "--json"))["results"][0]["input"] == "#C83C23"
    failed(without(("PIL",), "image", __file__), "Pillow is not installed", "pip install 'sepu[image]'")
    assert "serve" in without(absent, "--help").stdout
    for command in (("serve", "--port", "8000"), ("account", "create", "--json"), ("usage", "a" * 16)):
        failed(without(absent, *command), "is not installed", "pip install 'sepu[server]'")
    failed(without(absent, "events", "list"), "is not installed", "pip install 'sepu[server]'")
    failed(without(absent, "receipt", "open", "--help"), "is not installed", "pip install 'sepu[receipt]'")


@pytest.mark.slow
def test_only_webhooks_need_what_sends_them(own_url: str, tmp_path: Path) -> None:
    secret = tmp_path / "hooks.secret"
    secret.write_text("whsec_" + "A" * 44)
    absent = ("httpx", "standardwebhooks")
    database = ("--once", "--database-url", own_url)
    assert without(absent, "events", "deliver", "--print", *database).returncode == 0
    sending = without(absent, "events", "deliver", "--url", "https://a.b", "--secret-file", str(secret), *database)
    failed(sending, "httpx is not installed", "pip install 'sepu[events]'")


def test_receipts_need_nothing_of_the_server(tmp_path: Path) -> None:
    private = str(tmp_path / "private")
    assert printed(without(SERVER, "receipt", "keypair", private))["kty"] == "RSA"
    failed(without(SERVER, "receipt", "open", private, "eyJ"), "this is not a receipt")
