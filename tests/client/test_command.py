"""The command `sepu-client` against a real server, and against one that sends control characters."""

import csv
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pytest
from tests.cli.running import invoke
from tests.client.conftest import url_of
from tests.client.hostile import Peer, listening, saying
from tests.harness.processes import completed, running
from tests.harness.serving import Server

import sepu_client
from sepu.admin.keys import IssuedKey
from sepu_client import command
from sepu_client.shell import ROWS

COMMAND = Path(sys.executable).with_name("sepu-client")
Run = Callable[..., CompletedProcess[str]]


@pytest.fixture
def call(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs the command in this process, for speed."""

    def sepu_client(*arguments: str, **environment: str) -> CompletedProcess[str]:
        monkeypatch.setattr(sys, "argv", ["sepu-client", *arguments])
        for name, value in {"COLUMNS": "", **environment}.items():
            monkeypatch.setenv(name, value)
        code: Any = 0
        try:
            command.main()
        except SystemExit as left:
            code = left.code
        return CompletedProcess(arguments, code, *capsys.readouterr())

    return sepu_client


@pytest.fixture
def run(call: Run, uvloop: Server, issued: IssuedKey) -> Run:
    """Runs it for the account, on the real server."""
    own = {"SEPU_URL": url_of(uvloop), "SEPU_API_KEY": issued.api_key}
    return lambda *arguments, **environment: call(*arguments, **{**own, **environment})


def test_a_match(run: Run) -> None:
    done = run("match", "#C83C23", "fff", "--top", "2", COLUMNS="80")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == (
        "#C83C23  input\n"
        "#C83C23  ΔE 0.0000  绯红  fēi hóng  Scarlet Silk  verified\n"
        "#DC3023  ΔE 3.8077  酡红  tuó hóng  Wine Flush Red  attributed\n"
        "#FFFFFF  input\n"
        "#FFFFFF  ΔE 0.0000  精白  jīng bái  Pure White  attributed\n"
        "#F0F0F4  ΔE 3.6496  铅白  qiān bái  Lead White  verified\n"
    )
    for call in (["match", "c83c23"], ["search", "hong"]):
        key = f"of-a-{call[0]}"
        answers = [json.loads(run(*call, "--idempotency-key", key, "--json").stdout) for _ in range(2)]
        assert [(each["replayed"], each["idempotencyKey"]) for each in answers] == [(False, key), (True, key)]
    assert ": 3 of 2000 units, 1997 remain" in run("usage").stdout
    rows = run("match", "#fff", "--top", "3", "--format", "jsonl").stdout.splitlines()
    of_the_answer = {"datasetVersion", "usage", "replayed", "requestId", "idempotencyKey"}
    assert [len(of_the_answer & json.loads(row).keys()) for row in rows] == [5, 0, 0]


def table(text: str, form: str) -> list[dict[str, Any]]:
    """The rows of a format, without the values that only the library or only the service has."""
    if form == "json":
        found = json.loads(text)["colors"]
    elif form == "jsonl":
        found = [json.loads(line) for line in text.splitlines()]
    else:
        found = list(csv.DictReader(text.splitlines(), delimiter="," if form == "csv" else "\t"))
    for row in found:
        if isinstance(row.get("name"), dict):
            del row["name"]["zhHant" if "zhHant" in row["name"] else "zh"]
    of_one = {
        *("zhHant", "attribution", "ordinal", "group", "inSrgb", "similarity", "name"),
        *("datasetVersion", "usage", "replayed", "requestId", "idempotencyKey"),
    }
    return [{name: value for name, value in row.items() if name not in of_one} for row in found]


@pytest.mark.parametrize("form", ROWS)
@pytest.mark.parametrize(
    "arguments", [("match", "#C83C23", "200.5", "60", "35", "oklch(0.6  0.2 30)"), ("search", "hong", "--limit", "3")]
)
def test_it_writes_what_sepu_writes(run: Run, arguments: tuple[str, ...], form: str) -> None:
    """Rows with the same names, order and values."""
    offline, online = (tool(*arguments, "--format", form) for tool in (invoke, run))
    assert (online.returncode, online.stderr) == (0, "")
    expected, found = table(offline.stdout, form), table(online.stdout, form)
    assert found == expected
    if form in ("csv", "tsv"):
        assert [*found[0]] == [*expected[0]]


def test_rows_for_a_pipe_are_those_of_sepu(run: Run) -> None:
    offline = invoke("match", "#C83C23", "tomato", COLUMNS=None).stdout.splitlines()
    without_traditional = ["\t".join(cells[:4] + cells[5:]) for cells in (line.split("\t") for line in offline)]
    assert run("match", "#C83C23", "tomato").stdout.splitlines() == without_traditional


@pytest.mark.parametrize("color", [("200", "60", "35"), ("200,", "60,", "35"), ("(200, 60, 35)",), ("[200, 60, 35]",)])
def test_numbers_are_read_as_sepu_match_reads_them(run: Run, color: tuple[str, ...]) -> None:
    done = run("match", *color)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("#C83C23\t#C83C23\t0.0\t")


def test_a_search(run: Run) -> None:
    found = run("search", "tao", "hong", COLUMNS="80").stdout
    assert found == "#F47983  桃红  táo hóng  Peach Blossom Pink  verified\n"
    assert run("search", "hong").stdout.count("\n") == 10
    missed = run("search", "qqqqqq")
    assert (missed.returncode, missed.stdout) == (0, "")
    assert missed.stderr.startswith("Nothing found by 'qqqqqq'. Try ")
    assert json.loads(run("search", "qqqqqq", "--json").stdout)["colors"] == []


@pytest.mark.parametrize(
    ("arguments", "environment", "reason"),
    [
        (("match", "tomatoe"), {}, "'tomatoe' is not a colour; a colour is '#C83C23'"),
        (("match",), {}, "required: COLOR"),
        (("match", "#fff", "--top", "1", "--top", "2"), {}, "--top is given twice"),
        (("search", "hong", "--limit", "3", "--limit", "3"), {}, "--limit is given twice"),
        (("usage", "--json", "--json"), {}, "--json is given twice"),
        (("match", "#fff", *("--idempotency-key", "order-4711") * 2), {}, "--idempotency-key is given twice"),
        (("match", "200", "60"), {}, "'200 60' has 2 channels"),
        (("match", "200"), {}, "'200' is one number"),
        (("match", "-5", "0", "0"), {}, "'-5 0 0' has a channel that is not a number from 0 to 255"),
        (("match", "#fff", "--json", "--format", "csv"), {}, "--json does nothing with --format"),
        (("match", "photo.jpg"), {}, "'photo.jpg' is not a colour, and there is no such file; check its name; for an"),
        (("match", "colors.csv"), {}, "for the colours in it: sepu match - --column COLUMN < colors.csv"),
        (("match", __file__), {}, f"{__file__!r} is a file"),
        ((), {}, "required: COMMAND"),
        (("match", "#fff", "--idempotency-key", "short"), {}, "an idempotency key has 8 to 128"),
        (("usage",), {"SEPU_URL": ""}, "SEPU_URL is not set"),
        (("usage",), {"SEPU_API_KEY": ""}, "SEPU_API_KEY is not set"),
        (("usage",), {"SEPU_URL": "colors.example"}, "the base URL is not of the form https://HOST"),
    ],
)
def test_wrong_arguments(run: Run, arguments: tuple[str, ...], environment: dict[str, str], reason: str) -> None:
    done = run(*arguments, **environment)
    assert (done.returncode, done.stdout) == (2, "")
    assert reason in done.stderr


def test_errors_of_the_service(run: Run, uvloop: Server, issued: IssuedKey) -> None:
    run("match", "#fff", "--idempotency-key", "order-4711")
    done = run("match", "#000", "--idempotency-key", "order-4711")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("sepu-client: 409 idempotency_conflict (request id ")
    assert done.stderr.endswith(")\n")
    done = run("match", "#fff", SEPU_URL=url_of(uvloop) + "/elsewhere")
    assert done.stderr.startswith("sepu-client: 404 not_found (request id ")
    assert done.stderr.endswith("); sepu-client match --help says what it takes\n")
    busy = b"HTTP/1.1 503 Busy\r\nRetry-After: 600\r\nContent-Length: 0\r\n\r\n"
    with listening("plain", [Peer.request, saying(busy)]) as peer:
        done = run("match", "#fff", "--idempotency-key", "order-4712", SEPU_URL=peer.url)
    assert done.returncode == 1
    assert done.stderr.endswith("; to repeat it, add --idempotency-key order-4712\n")  # it may be charged
    wrong = issued.api_key[:-1] + ("a" if issued.api_key[-1] != "a" else "b")
    done = run("usage", SEPU_API_KEY=wrong)
    assert re.fullmatch(r"sepu-client: 401 unauthorized \(request id \S{36}\)\n", done.stderr)  # no key to repeat
    assert wrong not in done.stderr


EVIL = "=\x1b]0;x\x07\x9b2J\u202e\u2028\x00\r\n紅\U000e0041"
SHOWN = r"=\u001b]0;x\u0007\u009b2J\u202e\u2028\u0000\r\n紅\udb40\udc41"
HEAD = (
    "HTTP/1.1 200 OK\r\nX-Request-Id: 00000000-0000-0000-0000-000000000000\r\nX-Usage-Period: \x9b2J\r\n"
    "X-Usage-Meter: \x9b31m\r\nX-Usage-Limit: 1\r\nX-Usage-Committed: 1\r\nX-Usage-Reserved: 0\r\n"
    "X-Usage-Remaining: 0\r\n\r\n"
)


@pytest.mark.parametrize("form", [None, "tabs", *ROWS])
@pytest.mark.parametrize("what", ["search", "match", "usage"])
def test_what_the_service_says_commands_no_terminal(call: Run, what: str, form: str | None) -> None:
    color = {"slug": "a", "name": {"zh": EVIL, "en": EVIL, "pinyin": EVIL}, "hex": EVIL, "reliability": EVIL}
    match = {"input": {"r": 0, "g": 0, "b": 0}, "matches": [{**color, "deltaE": 0, "similarity": 1}]}
    meter = {"period": EVIL, "meter": EVIL, "limit": 1, "committed": 0, "reserved": 0, "remaining": 1}
    body = {
        "datasetVersion": EVIL, "count": 1, "results": [match if what == "match" else color],
        "accountId": EVIL, "planId": EVIL, "status": EVIL, "usage": [meter],
    }  # fmt: skip
    given = {"search": ["search", "hong"], "match": ["match", "#000"], "usage": ["usage"]}[what]
    with listening("plain", [Peer.request, saying(HEAD.encode("latin-1") + json.dumps(body).encode())]) as peer:
        if form in ROWS:
            given += ["--json"] if form == "json" or what == "usage" else ["--format", form]
        done = call(*given, SEPU_URL=peer.url, SEPU_API_KEY="sepu_key", **({} if form else {"COLUMNS": "80"}))
    assert (done.returncode, done.stderr) == (0, "")
    assert SHOWN in done.stdout
    assert all(char.isprintable() or char == "\t" for line in done.stdout.split("\n") for char in line)
    if form in ("csv", "tsv") and what != "usage":  # which has no rows
        assert done.stdout.count("'=") == done.stdout.count("=") > 4, "no spreadsheet runs it"
    if form == "json":
        assert repr(EVIL)[1:-1] in str(json.loads(done.stdout))


def test_a_terminal_without_chinese(uvloop: Server, issued: IssuedKey) -> None:
    """As a process, for its own encoding. Python itself escapes what goes to stderr."""
    own = {"SEPU_URL": url_of(uvloop), "SEPU_API_KEY": issued.api_key, "PYTHONIOENCODING": "ascii:strict"}
    done = completed([COMMAND, "search", "桃红"], env={**os.environ, **own})
    assert (done.returncode, done.stderr) == (0, "")
    assert "\\u6843\\u7ea2" in done.stdout


def test_ctrl_c_ends_a_pause_without_a_traceback() -> None:
    """The command says what it waits for, and how to repeat the call."""
    busy = b"HTTP/1.1 503 \x1b[2J\r\nRetry-After: 20\r\nContent-Length: 0\r\n\r\n"
    with listening("plain", [Peer.request, saying(busy)]) as peer:
        own = {**os.environ, "SEPU_URL": peer.url, "SEPU_API_KEY": "sepu_key"}
        with running([COMMAND, "search", "hong"], env=own, stderr=subprocess.PIPE, text=True) as process:
            assert process.stderr
            with process.stderr as told:
                first = told.readline()
                process.send_signal(signal.SIGINT)
                last = told.read()
            assert process.wait(60) == 130
    assert re.fullmatch(r"sepu-client: /v1/search: 503.*; it is sent again in 20\.\d\d seconds\n", first)
    key = re.fullmatch(r"sepu-client: interrupted; to repeat it, add --idempotency-key (\S{36})\n", last)
    assert key, last


def test_it_knows_its_version(call: Run) -> None:
    assert call("--version").stdout == f"sepu-client {sepu_client.__version__}\n"
