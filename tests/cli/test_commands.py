"""The commands as processes: their output and exit status."""

import json
import os
import re
import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import get_args

import click
import psycopg
import pytest
from click.shell_completion import ShellComplete
from prometheus_client.parser import text_string_to_metric_families
from tests.charging import charge
from tests.cli.commands import COMMANDS, LEAVES
from tests.cli.running import Run, assert_failed, fields, invoke, printed, process, text
from tests.harness.processes import completed
from tests.harness.serving import SEPU

import sepu
from sepu.admin import accounts
from sepu.admin.audit import Audit
from sepu.admin.keys import IssuedKey
from sepu.cli.commands import commands
from sepu.cli.output import REMEDIES
from sepu.errors import Remedy
from sepu.extras import how_to_install

NOWHERE = "postgresql://127.0.0.1:1/none"
REFUSED = {
    "db distribute": "this database has no Citus; install it, and: create extension citus",
    "usage aaaaaaaaaaaaaaaa": "there is no account 'aaaaaaaaaaaaaaaa'",
    "account show nonsense": "there is no account 'nonsense'",
    "account suspend aaaaaaaaaaaaaaaa": "there is no account",
    "account move aaaaaaaaaaaaaaaa --plan standard": "there is no account",
    "account create --plan golden": "there is no plan 'golden'; see: sepu plan set --help",
    "key issue aaaaaaaaaaaaaaaa": "there is no account",
    "key revoke aaaaaaaaaaaaaaaa-bbbbbbbb": "there is no key",
    "key set nonsense --name x": "there is no key",
    "plan set NoGood --match-limit 7 --search-limit 0 --requests-per-minute 30": "plan 'NoGood'",
    "plan set tiny --match-limit 2147483648 --search-limit 0 --requests-per-minute 30": "2147483647",
    "export-usage 9989-12": "the month 9989-12 has not begun",
}


def test_each_remedy_is_a_command_or_option() -> None:
    assert REMEDIES.keys() == {*get_args(Remedy)}


def test_what_does_not_exist_is_named(run: Run) -> None:
    for command, reason in REFUSED.items():
        assert_failed(run(*command.split()), reason)


@pytest.mark.parametrize(
    "command",
    [
        "plan set tiny --match-limit -1 --search-limit 0 --requests-per-minute 1",
        "plan set tiny --match-limit 1 --search-limit 0 --requests-per-minute 0",
        *(f"key issue a --expires-at {never}" for never in ("2027-01-31T12:00:00", "tomorrow", "2000-01-01T00:00:00Z")),
        *(f"account set a --expires-at {never}" for never in ("2020-01-31T12:00:00Z", "2020-01-31", "367d")),
        *(f"key rotate a --public-key /dev/null --grace {grace}" for grace in ("7", "-1d", "1.5h", "367d", "٣d")),
        *(f"export-usage {month}" for month in ("2026", "2026-13", "2026-00", "0000-01", "2026-01-01", "٢٠٢٦-01")),
        *(f"{command} 9999-12" for command in ("export-usage", "grant add a color_match 1 --reason fair --month")),
        *("charges", "serve --bind unix:s --port 8000", "console --bind unix:s --host ::", "db grant r"),
        *("usage --state-dir somewhere", "db grant r --for everything", "match red --json --format css"),
        *("events deliver --print --url https://a.b", "image tests/core/colours.py --format css --width 60"),
        *("usage --by key", "usage --by month --month 2026-01", "usage cus_1 --by hour", "prune --older-than-days 30"),
        *("serve --port 0", "serve --workers 0", "serve --worker sync", "serve --bind x --trusted-proxies 10.1.2.3/8"),
        *("events retry", "events deliver", "plan set standard --thresholds 80,x"),
        *("match no-colour", "match #12345", "match", "search"),
    ],
)
def test_arguments_that_make_no_sense(command: str, database_url: str) -> None:
    assert_failed(invoke(*command.split(), SEPU_DATABASE_URL=database_url), "Usage:", status=2)


def test_settings_come_from_the_environment_too(run: Run) -> None:
    assert_failed(run("serve", SEPU_WORKER="meinheld"), "--bind unix:PATH")
    assert_failed(run("serve", SEPU_WORKERS="many"), "SEPU_WORKERS", status=2)
    assert_failed(run("serve", SEPU_PORT="http"), "SEPU_PORT", status=2)
    # docs/deploy.md has these idle seconds.
    assert_failed(run("serve", SEPU_BIND="0.0.0.0:80", SEPU_IDLE_SECONDS="620"), "--bind takes unix:PATH")


@pytest.mark.parametrize(("command", "variable"), [("serve", "SEPU_PORT"), ("console", "SEPU_CONSOLE_PORT")])
def test_what_kubernetes_sets_for_a_service_is_not_taken_for_a_port(run: Run, command: str, variable: str) -> None:
    done = run(command, "--bind", "nonsense", **{variable: "tcp://10.96.0.12:80"})
    assert (done.returncode, done.stdout) == (1, "")
    noted, reason = done.stderr.splitlines()
    assert noted.startswith(f"sepu: {variable} is the address of a Kubernetes Service, not a port; using 80")
    assert "--bind takes unix:PATH" in reason
    assert_failed(run("serve", "--port", "tcp://10.96.0.12:80"), "'--port'", status=2)


def test_the_variable_from_which_gunicorn_takes_its_workers_does_nothing() -> None:
    for command, value, said in (
        ("serve", "auto", "WEB_CONCURRENCY does nothing; the number of workers is --workers"),
        ("console", "", ""),
    ):
        done = process(command, "--bind", "nonsense", WEB_CONCURRENCY=value)
        assert (done.returncode, done.stdout) == (1, "")
        assert said in done.stderr
        assert "--bind takes unix:PATH" in done.stderr.splitlines()[-1]


def test_an_unreachable_database() -> None:
    assert_failed(invoke("usage", "a" * 16, SEPU_DATABASE_URL=NOWHERE), "cannot be reached")
    assert_failed(invoke("serve", SEPU_DATABASE_URL=NOWHERE), "cannot be reached")
    secret = invoke("serve", SEPU_DATABASE_URL="hunter2 is my password")
    assert_failed(secret, "not a connection string")
    assert "hunter2" not in secret.stderr


def test_an_external_database_is_migrated_only_when_told(empty_url: str) -> None:
    run = partial(invoke, SEPU_DATABASE_URL=empty_url)
    assert_failed(run("serve"), "lacks 0001_ledger.sql", "sepu db migrate")
    assert_failed(run("account", "create"), "lacks 0001_ledger.sql")
    assert_failed(run("audit"), "sepu db migrate", status=2)
    assert printed(run("db", "migrate", "--json"))["applied"][0] == "0001_ledger.sql"
    assert printed(run("db", "migrate", "--json")) == {"applied": []}
    assert fields(run("account", "create"))["planId"] == "standard"


def with_a_difference(connection: psycopg.Connection) -> str:
    """Returns an account whose counter has units that no result explains."""
    account_id = accounts.create_account(connection, "standard").account_id
    connection.execute("insert into sepu.usage values (%s, '2031-03', 'color_match', 77)", (account_id,))
    return account_id


def test_an_audit(run: Run, connection: psycopg.Connection) -> None:
    nothing = {"counters": 0, "results": 0, "units": 0, "differences": [], "outdatedNodes": []}
    assert printed(run("audit", "--json")) == nothing
    assert text(run("audit")) == "0 counters, 0 stored results, 0 units: it adds up\n"
    account_id = with_a_difference(connection)
    wrong = run("audit", "--json")
    assert (wrong.returncode, wrong.stderr) == (1, "")
    difference = {"accountId": account_id, "period": "2031-03", "meter": "color_match"}
    numbers = {"committed": 77, "pruned": 0, "stored": None, "dated": 0, "days": None, "events": 0, "recorded": None}
    adjusted = {"granted": 0, "grants": None, "credited": 0, "credits": None, "invalid": 0}
    found = {"counters": 1, "units": 77, "differences": [{**difference, **numbers, **adjusted}]}
    assert json.loads(wrong.stdout) == {**nothing, **found}
    shown = run("audit")
    assert (shown.returncode, shown.stderr) == (1, "")
    for part in (account_id, "2031-03", "color_match", "77", "1 differences"):
        assert part in shown.stdout


def test_an_audit_for_prometheus(run: Run, connection: psycopg.Connection, tmp_path: Path) -> None:
    file = tmp_path / "sepu_audit.prom"
    audit = ("audit", "--metrics-file", str(file))

    def gauges() -> dict[str, float]:
        families = text_string_to_metric_families(file.read_text())
        samples = (sample for family in families for sample in family.samples)
        return {" ".join((each.name, *map("=".join, each.labels.items()))): each.value for each in samples}

    started = time.time()
    text(run(*audit))
    (first := tmp_path / "first").hardlink_to(file)
    assert gauges()["sepu_audit_differences"] == 0
    ending = [f"sepu_{what}_ending within={within}" for what in ("keys", "accounts") for within in ("7d", "30d")]
    account = printed(run("account", "create", "--expires-at", "20d", "--json"))
    for end in ("6d", "8d", "40d"):
        run("key", "issue", account["accountId"], "--expires-at", end)
    revoked = printed(run("key", "issue", account["accountId"], "--expires-at", "5d", "--json"))
    text(run("key", "revoke", revoked["keyId"]))
    suspended = printed(run("account", "create", "--expires-at", "5d", "--json"))
    run("account", "suspend", suspended["accountId"])
    text(run(*audit))
    assert not file.samefile(first), "nobody reads a file that is half written"
    assert [gauges()[name] for name in ending] == [2, 5, 0, 1], "a key ends with its account"
    assert started <= gauges()["sepu_audit_timestamp_seconds"] <= time.time()
    connection.execute("update sepu.account set expires_at = now()")
    with_a_difference(connection)
    assert run(*audit).returncode == 1
    assert [gauges()[name] for name in ending] == [0, 0, 0, 0]
    assert (gauges()["sepu_audit_differences"], gauges()["sepu_audit_outdated_nodes"]) == (1, 0)
    with pytest.MonkeyPatch.context() as patched:  # as on Citus, which is not here
        patched.setattr("sepu.cli.audit.audited", lambda _connection: Audit(0, 0, 0, (), ("node-1",)))
        shown = run(*audit)
    assert (shown.returncode, "node-1 lacks earlier audits" in shown.stdout) == (1, True)
    assert (gauges()["sepu_audit_differences"], gauges()["sepu_audit_outdated_nodes"]) == (0, 1)
    before = file.read_text()
    absent = run(*audit, SEPU_DATABASE_URL=NOWHERE)
    assert_failed(absent, "cannot be reached", status=2)
    assert "--database-url" not in absent.stderr  # a password in an argument is visible to others
    assert file.read_text() == before
    unwritten = run("audit", "--metrics-file", str(tmp_path / "no" / "file"))
    assert (unwritten.returncode, "1 differences" in unwritten.stdout) == (1, True)
    assert "No such file or directory" in unwritten.stderr


def test_an_audit_whose_verdict_cannot_be_stored(run: Run, connection: psycopg.Connection, tmp_path: Path) -> None:
    connection.execute("alter table sepu.audit_run add constraint audit_run_full check (false)")
    file = tmp_path / "sepu_audit.prom"
    done = run("audit", "--metrics-file", str(file))
    assert (done.returncode, done.stdout) == (0, "0 counters, 0 stored results, 0 units: it adds up\n")
    assert done.stderr.startswith("sepu: the verdict cannot be stored, so the console does not show it: ")
    assert "sepu_audit_timestamp_seconds" in file.read_text()
    unwritten = run("audit", "--metrics-file", str(tmp_path / "no" / "file"))
    assert (unwritten.returncode, unwritten.stdout) == (2, done.stdout)


def test_a_prune(run: Run, connection: psycopg.Connection, issued: IssuedKey) -> None:
    for days in (10, 40, 80, 100):
        charge(connection, issued.api_key, f"{days}-days-old", 3, datetime.now(UTC) - timedelta(days))
    assert printed(run("prune", "--json")) == {"olderThanDays": 90, "results": 1, "units": 3, "deliveries": 0}
    again = fields(run("prune", "--older-than-days", "31"))
    assert again == {"olderThanDays": "31", "results": "2", "units": "6", "deliveries": "0"}
    assert printed(run("audit", "--json"))["results"] == 1


IMPORTED = """
import sys
from sepu.cli.main import main
sys.argv[0] = "sepu"
try:
    main()
finally:
    sys.exit(f"imported {' '.join(sys.modules)}")
"""
HEAVY = {"falcon", "importlib.metadata", "msgspec", "numpy", "psycopg", "rich", "sepu.library.release"}
COMPLETED = {"_SEPU_COMPLETE": "bash_complete", "COMP_CWORD": "2"}


@pytest.mark.parametrize(
    ("arguments", "environment", "unneeded"),
    [
        (["--version"], {}, {*HEAVY, "click"}),
        (["--help"], {}, HEAVY),
        ([], {**COMPLETED, "COMP_WORDS": "sepu ac", "COMP_CWORD": "1"}, {*HEAVY, "sepu.cli.accounts"}),
        ([], {**COMPLETED, "COMP_WORDS": "sepu account cr"}, {*HEAVY, "sepu.cli.accounts"}),
        ([], {**COMPLETED, "COMP_WORDS": "sepu match fei"}, HEAVY),
        ([], {**COMPLETED, "COMP_WORDS": "sepu list --fo"}, HEAVY),
    ],
)
def test_what_is_fast_imports_nothing_slow(
    arguments: list[str], environment: dict[str, str], unneeded: set[str]
) -> None:
    done = completed([sys.executable, "-c", IMPORTED, *arguments], env={**os.environ, **environment})
    assert done.stdout
    assert not unneeded & {*done.stderr.removeprefix("imported ").split()}


def test_the_version_is_that_of_the_package() -> None:
    """Also where click reads it."""
    for arguments in (("--version",), ("--version", "--version")):
        assert text(invoke(*arguments)) == f"sepu, version {version('sepu')}\n"


def test_help_says_what_each_command_does_as_the_command_itself_does() -> None:
    shown = completed([SEPU, "--help"], env={**os.environ, "COLUMNS": "80"}).stdout
    context = click.Context(commands)
    listed = dict(re.findall(r"^  ([a-z-]+) +([A-Z].*)", shown.partition("Offline:")[2], re.MULTILINE))
    assert list(listed) == commands.list_commands(context)
    for name, about in listed.items():
        command = commands.get_command(context, name)
        assert command is not None
        help_of_command = " ".join((command.help or "").split())
        assert help_of_command.startswith(about.removesuffix(".")), name
    assert max(map(len, shown.splitlines())) <= 80


WITHOUT = """
import sys
for absent in sys.argv.pop(1).split():
    sys.modules[absent] = None
from sepu.cli.main import main
sys.argv[0] = "sepu"
main()
"""
SERVER = ("falcon", "gunicorn", "psycopg")


def without(packages: tuple[str, ...], *arguments: str) -> subprocess.CompletedProcess[str]:
    """Runs `sepu` as if these packages were not installed."""
    program = [sys.executable, "-c", WITHOUT, " ".join(packages)]
    return completed([*program, *arguments])


@pytest.mark.slow
def test_the_offline_commands_need_nothing_of_the_server() -> None:
    absent = (*SERVER, "joserfc")
    assert printed(without(absent, "search", "taohong", "--json"))["colors"][0]["slug"] == "tao-hong"
    assert printed(without(absent, "match", "#C83C23", "--json"))["colors"][0]["input"] == "#C83C23"
    assert_failed(without(("PIL",), "image", __file__), "Pillow is not installed", how_to_install("image"))
    for command in (("serve", "--port", "8000"), ("account", "create", "--json"), ("usage", "a" * 16)):
        assert_failed(without(absent, *command), "is not installed", how_to_install("server"))
    assert_failed(without(absent, "events", "list"), "is not installed", how_to_install("server"))
    assert_failed(without(absent, "receipt", "open", "--help"), "is not installed", how_to_install("receipt"))


@pytest.mark.slow
def test_only_webhooks_need_what_sends_them(ledger_url: str, tmp_path: Path) -> None:
    secret = tmp_path / "hooks.secret"
    secret.write_text("whsec_" + "A" * 44)
    absent = ("httpx2", "standardwebhooks")
    database = ("--once", "--database-url", ledger_url)
    assert without(absent, "events", "deliver", "--print", *database).returncode == 0
    sending = without(absent, "events", "deliver", "--url", "https://a.b", "--secret-file", str(secret), *database)
    assert_failed(sending, "httpx2 is not installed", how_to_install("events"))


def test_receipts_need_nothing_of_the_server(tmp_path: Path) -> None:
    private = str(tmp_path / "private")
    assert printed(without(SERVER, "receipt", "keypair", private))["kty"] == "RSA"
    assert_failed(without(SERVER, "receipt", "open", private, "eyJ"), "this is not a receipt")


def test_a_misspelt_command_is_told_what_is_meant() -> None:
    assert_failed(invoke("mach"), "Did you mean 'match'", status=2)
    assert_failed(invoke("zzz"), "No such command 'zzz'", status=2)


def test_shells_complete_names() -> None:
    for begun in ("fei", "绯"):
        done = process(_SEPU_COMPLETE="bash_complete", COMP_WORDS=f"sepu list {begun}", COMP_CWORD="2")
        names = [name for record in sepu.load() for name in (record.slug, record.name.zh)]
        assert text(done).split() == [f"plain,{name}" for name in names if name.startswith(begun)]
    done = process(_SEPU_COMPLETE="bash_complete", COMP_WORDS="sepu a", COMP_CWORD="1")
    assert text(done).split() == ["plain,audit", "plain,account"]


def test_shells_complete_what_each_command_itself_would() -> None:
    """If not, run `python -m tools.outlines`."""
    whole = click.Group("sepu", {path[0]: COMMANDS[path] for path in COMMANDS if not path[1:]})
    whole.context_settings = commands.context_settings

    def completed_by(group: click.Group, *words: str) -> list[tuple[str, str, str | None]]:
        found = ShellComplete(group, {}, "sepu", "").get_completions([*words[:-1]], words[-1])
        return [(item.type, item.value, item.help) for item in found]

    for path, command in LEAVES.items():
        values = [(option, "") for each in command.params for option in each.opts if option.startswith("-")]
        lines = [(*path, *words) for words in (("",), ("-",), ("--json", "-"), *values)]
        for line in [path, *lines] if path[1:] else lines:
            assert completed_by(commands, *line) == completed_by(whole, *line), line


def test_the_manual_has_every_option() -> None:
    page = text(invoke("--man"))
    assert page.startswith(".TH SEPU 1 ")
    for option in ("sepu account create", r"\-\-within", r"\-\-expires\-at"):  # - alone is a typographic hyphen
        assert option in page
