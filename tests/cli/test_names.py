"""What operators call accounts and keys: shown and found wherever they look, and never by customers."""

import csv
import io
import json
from datetime import UTC, datetime
from typing import Any

import pytest
from tests.cli.running import Run, failed, fields, printed
from tests.processes import until
from tests.serving import serving

from sepu.admin import accounts
from sepu.admin.keys import name_key
from sepu.cli.database import connect
from sepu.metering import key_format

NAME = "Silk & Co. 丝绸"


def lines(text: str) -> list[Any]:
    return [json.loads(line) for line in text.splitlines()]


@pytest.fixture
def run(run: Run, own_url: str) -> Run:
    """On a database of the test's own."""
    return lambda *arguments, **environment: run(*arguments, SEPU_DATABASE_URL=own_url, **environment)


def test_an_account_is_found_by_its_external_id(run: Run) -> None:
    account_id = printed(run("account", "create", "--name", NAME, "--external-id", "cus_8812", "--json"))["accountId"]
    for given in (account_id, "cus_8812"):
        shown = printed(run("account", "show", given, "--json"))
        assert (shown["accountId"], shown["externalId"], shown["name"]) == (account_id, "cus_8812", NAME)
    assert printed(run("usage", "cus_8812", "--json"))["name"] == NAME
    assert fields(run("account", "suspend", "cus_8812"))["accountId"] == account_id
    assert printed(run("key", "issue", "cus_8812", "--json"))["accountId"] == account_id
    assert len(lines(run("key", "list", "cus_8812", "--json").stdout)) == 2


def test_a_name_is_changed_and_taken_away(run: Run) -> None:
    account_id = printed(run("account", "create", "--name", "A", "--external-id", "a-1", "--json"))["accountId"]

    def changed(*options: str) -> tuple[str | None, str | None]:
        shown = printed(run("account", "set", account_id, *options, "--json"))
        return shown["name"], shown["externalId"]

    assert changed("--name", "B") == ("B", "a-1")
    assert changed("--external-id", "b-1") == ("B", "b-1")
    assert changed("--name", "", "--external-id", "") == (None, None)
    failed(run("account", "show", "b-1"), "there is no account 'b-1'")


def test_an_external_id_is_one_accounts(run: Run) -> None:
    first = printed(run("account", "create", "--external-id", "cus_1", "--json"))["accountId"]
    failed(run("account", "create", "--external-id", "cus_1"), f"'cus_1' is that of account {first}")
    second = printed(run("account", "create", "--json"))["accountId"]
    failed(run("account", "set", second, "--external-id", "cus_1"), f"'cus_1' is that of account {first}")
    assert printed(run("account", "set", first, "--external-id", "cus_1", "--json"))["externalId"] == "cus_1"
    assert len(run("account", "list", "--json").stdout.splitlines()) == 2


@pytest.mark.parametrize("name", [" silk", "silk ", "a\nb", "a\x1b[2J", "a\u202eb", "n" * 201])
def test_a_name_that_cannot_be_shown_is_refused(run: Run, name: str) -> None:
    failed(run("account", "create", "--name", name), "a name has 1 to 200 characters")
    assert run("account", "list").stdout == ""


@pytest.mark.parametrize("external_id", ["two words", "-x", "a" * 16, "x" * 129, "né"])
def test_an_external_id_of_another_form_is_refused(run: Run, external_id: str) -> None:
    failed(run("account", "create", f"--external-id={external_id}"), "an external id has 1 to 128")


def test_accounts_are_searched(run: Run) -> None:
    run("plan", "set", "gold", "--match-limit", "1", "--search-limit", "1", "--requests-per-minute", "1")
    silk = printed(run("account", "create", "--name", NAME, "--external-id", "cus_silk", "--json"))["accountId"]
    tea = printed(run("account", "create", "--name", "Tea 50%_", "--plan", "gold", "--json"))["accountId"]
    run("account", "suspend", tea)

    def found(*filters: str) -> set[str]:
        return {each["accountId"] for each in lines(run("account", "list", *filters, "--json").stdout)}

    assert found() == {silk, tea}
    assert found("--search", "SILK") == found("--search", "cus_") == found("--search", "丝") == {silk}
    assert found("--search", tea[3:12]) == found("--search", "%_") == {tea}
    assert found("--plan", "gold") == found("--status", "suspended") == {tea}
    assert found("--plan", "gold", "--status", "active") == set()
    rows = list(csv.DictReader(io.StringIO(run("account", "list", "--csv").stdout)))
    assert {(row["accountId"], row["name"]) for row in rows} == {(silk, NAME), (tea, "Tea 50%_")}


def test_a_keys_names_and_its_last_use(run: Run, own_url: str) -> None:
    account = printed(run("account", "create", "--external-id", "cus_1", "--json"))
    used = printed(run("key", "issue", "cus_1", "--name", "web shop", "--external-id", "k-1", "--json"))
    failed(run("key", "issue", "cus_1", "--external-id", "k-1"), "'k-1' is that of another key of this account")
    renamed = printed(run("key", "set", used["keyId"], "--name", "shop", "--json"))
    assert (renamed["name"], renamed["externalId"], renamed["lastUsedOn"]) == ("shop", "k-1", None)
    failed(run("key", "set", account["keyId"], "--external-id", "k-1"), "'k-1' is that of another key")
    failed(run("key", "set", "nonsense", "--name", "x"), "there is no key")
    holder = key_format.credential(used["apiKey"])
    assert holder is not None
    with connect(own_url) as connection:
        connection.execute("select from sepu.admit(%s, %s)", (holder.account_id, holder.key_hash))
    first, second = lines(run("key", "list", "cus_1", "--json").stdout)
    assert (first["lastUsedOn"], second["lastUsedOn"]) == (None, f"{datetime.now(UTC):%Y-%m-%d}")
    assert " shop " in run("key", "list", "cus_1").stdout


def test_plans(run: Run) -> None:
    limits = ("--match-limit", "7", "--search-limit", "5", "--requests-per-minute", "30")
    failed(
        run("plan", "set", "tiny", "--match-limit", "7"), "a new one needs --search-limit, --requests-per-minute too"
    )
    run("plan", "set", "tiny", *limits)
    changed = printed(run("plan", "set", "tiny", "--match-limit", "0", "--json"))
    shown = {"matchLimit": 0, "searchLimit": 5, "requestsPerMinute": 30}
    assert changed == {"planId": "tiny", **shown, "thresholds": "80,95,100", "accounts": 0}
    run("account", "create", "--plan", "tiny")
    shown = printed(run("plan", "show", "tiny", "--json"))
    assert shown == {**changed, "accounts": 1}
    assert lines(run("plan", "list", "--json").stdout)[1] == shown
    head, *rows = run("plan", "list").stdout.splitlines()
    assert head.split() == list(shown)
    assert [row.split()[0] for row in rows] == ["standard", "tiny"]
    failed(run("plan", "show", "nope"), "there is no plan 'nope'")


def test_a_table_fits_and_says_what_it_cut(run: Run) -> None:
    account_id = printed(run("account", "create", "--name", "绸" * 60, "--external-id", "c" * 100, "--json"))[
        "accountId"
    ]
    shown = run("account", "list", COLUMNS="80")
    _head, row = shown.stdout.splitlines()
    assert row.startswith(account_id)
    assert "c…" in row
    assert "绸…" in row
    assert len(row) + row.count("绸") <= 80
    assert shown.stderr == "sepu: cut to fit 80 columns: externalId, name; --json or --csv prints all\n"
    whole = run("account", "list", COLUMNS="400")
    assert ("绸" * 60 in whole.stdout, "c" * 100 in whole.stdout, whole.stderr) == (True, True, "")
    assert "\x1b" not in shown.stdout


@pytest.mark.slow
def test_no_customer_sees_a_name(own_url: str) -> None:
    """Neither in an answer nor in the request log, which customers' requests reach."""
    with connect(own_url) as own:
        issued = accounts.create_account(own, "standard", "Hush Textiles", "cus_secret")
        name_key(own, issued.key_id, "secret shop", "k-secret")
    bearer = {"Authorization": f"Bearer {issued.api_key}"}
    with serving("uvloop", own_url, workers=1) as server:
        answers = [
            server.request("GET", "/v1/usage", bearer),
            server.request("GET", "/v1/library", bearer),
            server.request("GET", "/v1/search?q=hong", {**bearer, "Idempotency-Key": "key-0001"}),
            server.request("GET", "/v1/search?q=", {**bearer, "Idempotency-Key": "key-0002"}),
        ]
        assert [answer.status for answer in answers] == [200, 200, 200, 422]
        told = "".join(f"{answer.headers}{answer.body!r}" for answer in answers)
        until(lambda: server.log.read_text().count(issued.account_id) == len(answers))
        log = server.log.read_text()
    for text in ("hush", "secret", "shop"):
        assert text not in (told + log).lower()


def test_an_account_is_erased_when_the_operator_says_so(run: Run) -> None:
    account_id = printed(run("account", "create", "--name", NAME, "--external-id", "cus_1", "--json"))["accountId"]
    done = run("account", "erase", "cus_1", given="n\n")
    assert (done.returncode, "cannot be undone" in done.stdout) == (1, True)
    erased = printed(run("account", "erase", "cus_1", "--yes", "--json"))
    assert erased == {"accountId": account_id, "status": "erased", "keys": 1, "receipts": 0, "results": 0}
    failed(run("account", "show", "cus_1"), "there is no account 'cus_1'")
    shown = printed(run("account", "show", account_id, "--json"))
    assert (shown["status"], shown["name"]) == ("erased", None)
    failed(run("account", "reactivate", account_id), "or it was erased")
