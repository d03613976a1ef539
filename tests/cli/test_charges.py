"""`sepu charges`: explains each request that a customer asks about, by the ledger and by the log."""

import gzip
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psycopg
import pytest
from tests.charging import charge
from tests.cli.running import Run, assert_failed, lines, printed
from tests.keys import holder_of

from sepu.admin import accounts
from sepu.admin.erase import erase_account
from sepu.admin.keys import issue_key
from sepu.cli.demo_account import greet
from sepu.metering.key_format import Credential, idempotency_key_hash

ACCOUNT = "cus_8812"


def request_id(number: int) -> str:
    return f"6f1c0d2e-8a4b-4c1d-9e5f-{number:012}"


@pytest.fixture
def holder(connection: psycopg.Connection, ledger_url: str) -> Credential:  # noqa: ARG001
    return holder_of(accounts.create_account(connection, "standard", external_id=ACCOUNT).api_key)


@pytest.fixture
def charged(connection: psycopg.Connection, holder: Credential) -> Credential:
    """Two charges for one input 3 minutes apart, one for another input between them, and an old one."""
    for number, (fingerprint, minutes) in enumerate(((1, 4), (2, 3), (1, 1), (1, 60 * 24 * 30)), 1):
        connection.execute(
            "select from sepu.meter_one(%s, %s, %s, %s, 'color_match', %s, '{}', %s, "
            "now() - make_interval(mins => %s))",
            (
                holder.account_id, holder.key_hash, f"order-{number:04}", bytes([fingerprint] * 32), number,
                request_id(number), minutes,
            ),
        )  # fmt: skip
    return holder


def entry(holder: Credential, number: int, key: int, **other: Any) -> dict[str, Any]:
    """A line of the request log, by default of a charge."""
    return {
        "time": "2031-01-01T00:00:00Z", "level": "info", "event": "request", "pid": 1, "requestId": request_id(number),
        "account": holder.account_id, "endpoint": "/v1/match", "status": 200, "error": None, "durationMs": 1.0,
        "replayed": False, "keyId": holder.key_id,
        "idempotencyKeyHash": idempotency_key_hash(holder.account_id, f"order-{key:04}"), **other,
    }  # fmt: skip


def test_charges_are_found(run: Run, charged: Credential, connection: psycopg.Connection, ledger_url: str) -> None:
    ((key_id,),) = connection.execute("select key_id from sepu.api_key").fetchall()

    def found(*choice: str) -> list[str]:
        return [charge["requestId"] for charge in lines(run("charges", ACCOUNT, *choice, "--json"))]

    newest = [request_id(number) for number in (3, 2, 1, 4)]
    hashes = [idempotency_key_hash(charged.account_id, f"order-{number:04}") for number in (3, 2, 1, 4)]
    assert [each["idempotencyKeyHash"] for each in lines(run("charges", ACCOUNT, "--json"))] == hashes
    assert found() == found("--key", key_id) == found("--database-url", ledger_url) == newest
    assert found("--idempotency-key", "order-0002") == newest[1:2]
    assert found("--idempotency-key", idempotency_key_hash(charged.account_id, "order-0002")) == newest[1:2]
    ((day,),) = connection.execute(
        "select (min(created_at) at time zone 'UTC')::date from sepu.stored_result"
    ).fetchall()
    assert found("--day", str(day)) == newest[3:]
    assert found("--since", "1d", "--until", "2m") == newest[1:3]
    assert found("--until", "2d") == newest[3:]
    short = run("charges", ACCOUNT, "--limit", "2", "--csv")
    assert (len(short.stdout.splitlines()), short.stderr) == (3, "sepu: the newest 2; --limit 0 shows all\n")
    assert run("charges", ACCOUNT, "--until", "2026-01-01", "--limit", "0").stderr.startswith("sepu: no such charge")
    nothing = run("charges", ACCOUNT, "--idempotency-key", "another-one")
    assert (nothing.returncode, nothing.stdout) == (0, "")
    assert nothing.stderr.startswith("sepu: no such charge; the requests with this key are in the request log")
    assert run("charges", ACCOUNT, "--idempotency-key", "0" * 12).stderr == nothing.stderr
    assert run("charges", ACCOUNT, "--request", "6f1c").returncode == 2


def test_an_option_that_would_do_nothing_is_refused(run: Run, holder: Credential) -> None:
    one = f"--request {request_id(1)}"
    for options in (
        *(f"{one} --limit 3", f"{one} --since 1d", "--log - --since 1d --until 2d", "--since 1d --day 2031-01-01"),
        *("--until 1d --month 2031-01", "--duplicates --day 2031-01-01 --month 2031-01", "--duplicates --limit 3"),
        *(f"--duplicates --key {holder.key_id}", "--idempotency-key order-0001 --limit 3", "--within 3"),
        *("--key nonsense", "--key bbbbbbbbbbbbbbbb-bbbbbbbb", "--json --csv"),
    ):
        assert_failed(run("charges", ACCOUNT, *options.split()), status=2)


def test_a_request_of_another_account_is_named_as_such(
    run: Run, charged: Credential, connection: psycopg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = accounts.create_account(connection, "standard", external_id="cus_other")
    charge(connection, made.api_key, "order-0001", 1, datetime.now(UTC))
    done = run("charges", "cus_other", "--request", request_id(2), "--json")
    other = json.loads(done.stdout)
    assert (other["requestId"], other["outcome"], other["reason"], other["accountId"]) == (
        request_id(2), "not_charged", "other_account", charged.account_id
    )  # fmt: skip
    assert done.stderr == ""
    found = printed(run("charges", "--request", request_id(2), "--json"))
    assert (found["outcome"], found["accountId"], found["units"]) == ("charged", charged.account_id, 2)
    ((own,),) = connection.execute(
        "select request_id::text from sepu.stored_result where account_id = %s", (made.account_id,)
    ).fetchall()
    both = lines(run("charges", "--request", request_id(2), "--request", own, "--json"))
    assert [(each["requestId"], each["outcome"]) for each in both] == [(request_id(2), "charged"), (own, "charged")]
    monkeypatch.setattr("sepu.admin.erase.time.sleep", lambda _seconds: None)
    erase_account(connection, "cus_other")
    done = run("charges", "--request", request_id(9), "--json")
    assert json.loads(done.stdout)["outcome"] == "not_charged", "although results were erased"
    assert "sepu charges ACCOUNT --request … --log FILE; those of erased accounts are gone" in done.stderr
    for options in ((), ("--log", "-"), ("--duplicates",)):
        assert "give an ACCOUNT" in run("charges", *options).stderr


def test_a_request_is_judged_by_the_ledger_alone(run: Run, charged: Credential, connection: psycopg.Connection) -> None:
    asked = (request_id(2).upper(), request_id(9), request_id(3))
    choice = ("charges", ACCOUNT, *(word for each in asked for word in ("--request", each)), "--json")
    done = run(*choice)
    statuses = [json.loads(line) for line in done.stdout.splitlines()]
    assert [(v["requestId"], v["outcome"], v["reason"], v["units"]) for v in statuses] == [
        (asked[0].lower(), "charged", None, 2), (asked[1], "not_charged", "not_stored", None),
        (asked[2], "charged", None, 3),
    ]  # fmt: skip
    (stored,) = lines(run("charges", ACCOUNT, "--idempotency-key", "order-0002", "--json"))
    assert statuses[0].items() >= {**stored, "accountId": charged.account_id, "chargedBy": None, "time": None}.items()
    assert stored["idempotencyKeyHash"] == idempotency_key_hash(charged.account_id, "order-0002")
    assert stored["period"] == stored["createdAt"][:7]
    assert "--log FILE" in done.stderr
    made = accounts.create_account(connection, "standard")
    charge(connection, made.api_key, "order-0001", 1, datetime.now(UTC))
    told = (made.account_id, "not_charged", "not_stored"), (charged.account_id, "unknown", "pruned")
    for holder, outcome, reason in told:
        connection.execute("update sepu.usage set pruned = 1 where account_id = %s", (holder,))
        pruned = run(*choice)
        judged = json.loads(pruned.stdout.splitlines()[1])
        assert (judged["requestId"], judged["outcome"], judged["reason"]) == (request_id(9), outcome, reason)
    assert pruned.stderr.endswith("were pruned or erased\n")
    assert "charges of some accounts in" in run("charges", *choice[2:]).stderr


def test_a_log_is_judged(
    run: Run, charged: Credential, tmp_path: Path, ledger_url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    replay = entry(charged, 11, 2, replayed=True, more={"of": "a later release"})
    expected = [
        (entry(charged, 2, 2), ("charged", None, None, 2)),
        (entry(charged, 3, 3, status=503, error="usage_commit_failed"), ("charged", "usage_commit_failed", None, 3)),
        (replay, ("replay", None, request_id(2), 2)),
        (entry(charged, 12, 2, status=409, error="idempotency_conflict"),
         ("not_charged", "idempotency_conflict", request_id(2), 2)),
        (entry(charged, 13, 9, status=429, error="quota_exceeded"), ("not_charged", "quota_exceeded", None, None)),
        (entry(charged, 14, 9, endpoint="/v1/usage", keyId=None), ("not_charged", "free", None, None)),
        (entry(charged, 15, 9), ("unknown", "not_stored", None, None)),
        (entry(charged, 16, 9, endpoint="/v1/usage", status=400, error="\x1b[31m"),
         ("not_charged", "unreadable", None, None)),
        (entry(charged, 17, 9, status=422, error="invalid_rgb", errorPointer="/colors/1/g"),
         ("not_charged", "invalid_rgb", None, None)),
    ]  # fmt: skip
    foreign = entry(charged, 1, 1, account="b" * 16)
    log = b"\n".join([
        b"sepu-1  | " + json.dumps(expected[0][0]).encode(),
        *(json.dumps(line).encode() for line, _ in expected[1:]),
        json.dumps(foreign).encode(), b'{"event":"log","message":"x"}', b"\xff\0", b"{" + b"[" * 200_000,
        b'{"event":"request', b"2026-11-25 20:16:31 request 422 POST /v1/match",
    ])  # fmt: skip
    greet(ledger_url, "127.0.0.1:8000", tmp_path)
    log = f"sepu: WEB_CONCURRENCY does nothing\n{capsys.readouterr().out}".encode() + log
    for name, content in (("plain", log), ("packed", gzip.compress(log))):
        (tmp_path / name).write_bytes(content)
        done = run("charges", ACCOUNT, "--log", str(tmp_path / name), "--json")
        statuses = [json.loads(line) for line in done.stdout.splitlines()]
        told = [(v["outcome"], v["reason"], v["chargedBy"], v["units"]) for v in statuses]
        assert told == [status for _, status in expected]
        for name in ("time", "status", "keyId", "idempotencyKeyHash"):
            assert [each[name] for each in statuses] == [line[name] for line, _ in expected]
        assert statuses[-1]["errorPointer"] == "/colors/1/g"
        assert done.stderr == (
            "sepu: lines that are not of a request log in JSON (serve --log-format json), or were cut: 4\n"
        )
    (tmp_path / "cut").write_bytes(gzip.compress(log)[:-40])
    assert "cut or damaged" in run("charges", ACCOUNT, "--log", str(tmp_path / "cut")).stderr
    assert_failed(run("charges", ACCOUNT, "--log", "/dev/zero"), "this is not a request log: a line has more", status=2)
    one = run("charges", ACCOUNT, "--log", "-", "--request", request_id(11), "--json", given=json.dumps(replay))
    assert (printed(one)["outcome"], printed(one)["chargedBy"]) == ("replay", request_id(2))
    (tmp_path / "plain").write_bytes(log)
    for key in ("order-0009", idempotency_key_hash(charged.account_id, "order-0009")):
        done = run("charges", ACCOUNT, "--log", f"{tmp_path}/plain", "--idempotency-key", key, "--json")
        refused = map(json.loads, done.stdout.splitlines())
        assert [each["requestId"] for each in refused] == [request_id(number) for number in (13, 14, 15, 16, 17)]
    assert run("charges", ACCOUNT, "--log", "-", given="").stderr == "sepu: nothing was found\n"
    of_nginx = run("charges", ACCOUNT, "--log", "-", given='{"request_id":"","status":200}')
    assert of_nginx.stderr.startswith("sepu: a log has no request; if it is the proxy's, give that of sepu serve\n")


def test_what_is_known_of_requests_in_a_pruned_month(
    run: Run, charged: Credential, connection: psycopg.Connection
) -> None:
    made = accounts.create_account(connection, "standard")
    charge(connection, made.api_key, "order-0001", 1, datetime.now(UTC))
    codes = {200: None, 499: "a_code", 500: "internal_error", 503: "usage_commit_failed"}
    at = f"{datetime.now(UTC):%Y-%m}-01T00:00:00Z"
    log = "\n".join(json.dumps(entry(charged, 9, 9, time=at, status=each, error=codes[each])) for each in codes)
    for holder, outcomes in (
        (made, ["unknown", "not_charged", "not_charged", "not_charged"]),
        (charged, ["charged", "not_charged", "unknown", "unknown"]),
    ):
        connection.execute("update sepu.usage set pruned = 1 where account_id = %s", (holder.account_id,))
        told = run("charges", ACCOUNT, "--log", "-", "--json", given=log).stdout.splitlines()
        assert [json.loads(line)["outcome"] for line in told] == outcomes


def test_the_logs_of_two_nodes_are_judged_as_one_in_order_of_time(
    run: Run, charged: Credential, tmp_path: Path
) -> None:
    """A retry often reaches another node than its original."""
    logs = {}
    for name, minutes in (("a", (0, 2)), ("b", (1, 3))):
        entries = [entry(charged, 20 + n, 2, replayed=True, time=f"2031-01-01T00:0{n}:00Z") for n in minutes]
        logs[name] = "".join(f"{json.dumps(each)}\n" for each in entries)
        (tmp_path / name).write_text(logs[name])
    options = [word for name in logs for word in ("--log", str(tmp_path / name))]
    expected = [(request_id(20 + n), "replay") for n in range(4)]
    for done in (run("charges", ACCOUNT, *options, "--json"),
                 run("charges", ACCOUNT, "--log", "-", *options[2:], "--json", given=logs["a"])):  # fmt: skip
        assert [(each["requestId"], each["outcome"]) for each in lines(done)] == expected
    assert_failed(run("charges", ACCOUNT, *options[:2], *options[:2]), "twice with the same file", status=2)
    assert_failed(run("charges", ACCOUNT, *options, "--log", f"{tmp_path}/c"), "No such file", status=2)


def test_a_log_is_judged_in_a_range_of_time(run: Run, charged: Credential) -> None:
    times = ["2031-01-01T00:00:00Z", "2031-01-01T12:00:00+12:00", "2031-01-01T00:30:00Z", "2031-01-01T01:00:00Z"]
    times += ["2031-01-02T00:00:00Z", "2031-01-31T23:59:59Z", "2031-02-01T00:00:00Z"]
    no_times = ["2031-01-01T00:30:00", "0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00"]
    wrong = {"error": "invalid_rgb", "status": 422, "errorPointer": "/colors/1/g\x1b[2J"}
    wrong |= {"keyId": "bbbbbbbbbbbbbbbb-bbbbbbbb", "idempotencyKeyHash": "\x1b[2J"}
    log = "\n".join(json.dumps(entry(charged, 20 + n, 9, time=at, **wrong)) for n, at in enumerate(times + no_times))

    def judged(*choice: str) -> list[str]:
        return [
            line["requestId"] for line in lines(run("charges", ACCOUNT, "--log", "-", *choice, "--json", given=log))
        ]

    ids = [request_id(20 + n) for n in range(len(times))]
    assert judged() == ids
    assert (judged("--day", "2031-01-01"), judged("--month", "2031-01")) == (ids[:4], ids[:6])
    assert judged("--since", times[2]) == ids[2:]
    assert judged("--since", times[0], "--until", times[3]) == ids[:3]
    table = run("charges", ACCOUNT, "--log", "-", given=log).stdout
    assert table.splitlines()[1].split()[:5] == [ids[0], times[0], "422", "not_charged", "invalid_rgb"]
    (one,) = lines(run("charges", ACCOUNT, "--log", "-", "--since", times[-1], "--json", given=log))
    assert (one["errorPointer"], one["keyId"], one["idempotencyKeyHash"]) == ("unreadable", None, None)
    assert "\x1b" not in table


def test_duplicates_are_charges_for_one_input_shortly_after_each_other(
    run: Run, charged: Credential, connection: psycopg.Connection
) -> None:
    second = issue_key(connection, charged.account_id).key_id
    connection.execute("update sepu.stored_result set key_id = %s where units = 3", (second,))
    done = run("charges", ACCOUNT, "--duplicates", "--json")
    found = json.loads(done.stdout)
    assert (found["requestId"], found["previousRequestId"], found["units"]) == (request_id(3), request_id(1), 3)
    assert 170 < found["secondsAfter"] < 240
    assert (type(found["secondsAfter"]), found["secondsAfter"]) == (float, round(found["secondsAfter"], 3))
    assert (found["keyId"], found["previousKeyId"]) == (second, charged.key_id)
    assert done.stderr.endswith("units charged for an input again: 3 of color_match\n")
    assert run("charges", ACCOUNT, "--duplicates", "--within", "44640").stderr.endswith(" again: 4 of color_match\n")
    for choice in (("--within", "2"), ("--until", found["createdAt"]), ("--since", "2m")):
        assert run("charges", ACCOUNT, "--duplicates", *choice).stdout == ""
    connection.execute("update sepu.stored_result set created_at = created_at - interval '60 days'")
    assert run("charges", ACCOUNT, "--duplicates", "--until", "59d").stderr.endswith(" again: 3 of color_match\n")
