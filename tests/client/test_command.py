"""The command `sepu-client`, as a process against a real server."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.client.conftest import where
from tests.processes import completed
from tests.serving import Server, serving

import sepu_client
from sepu.metering import accounts

COMMAND = Path(sys.executable).with_name("sepu-client")
Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="module")
def plain_server(service_url: str) -> Iterator[Server]:
    with serving("uvloop", service_url) as server:
        yield server


@pytest.fixture
def run(plain_server: Server, issued: accounts.IssuedKey) -> Run:
    own = {"SEPU_URL": where(plain_server, "sync")["base_url"], "SEPU_API_KEY": issued.api_key}

    def sepu_client(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        return completed([COMMAND, *arguments], env={**os.environ, **own, **environment})

    return sepu_client


def test_a_match(run: Run) -> None:
    done = run("match", "#C83C23", "fff", "--top", "2")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == (
        "rgb(200, 60, 35)\n"
        "  #C83C23  绯红  fēi hóng  Scarlet Silk  ΔE 0.0000\n"
        "  #DC3023  酡红  tuó hóng  Wine Flush Red  ΔE 3.8077\n"
        "rgb(255, 255, 255)\n"
        "  #FFFFFF  精白  jīng bái  Pure White  ΔE 0.0000\n"
        "  #F0F0F4  铅白  qiān bái  Lead White  ΔE 3.6496\n"
    )
    again = [
        json.loads(run("match", "c83c23", "--idempotency-key", "order-4711", "--json").stdout)["replayed"]
        for _ in range(2)
    ]
    assert again == [False, True]
    assert ": 3 of 2000 units, 1997 remain" in run("usage").stdout


def test_a_search(run: Run) -> None:
    assert run("search", "tao", "hong").stdout == "#F47983  桃红  táo hóng  Peach Blossom Pink\n"
    assert run("search", "qqqqqq").stdout.startswith("nothing found")
    found = json.loads(run("search", "hong", "--limit", "3", "--json").stdout)
    assert (found["count"], len(found["results"])) == (3, 3)


@pytest.mark.parametrize(
    ("arguments", "environment", "reason"),
    [
        (("match", "tomato"), {}, "'tomato' is no colour; a colour is '#C83C23'"),
        (("match",), {}, "required: COLOR"),
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


def test_errors_of_the_service(run: Run, issued: accounts.IssuedKey) -> None:
    done = run("match", "#fff", "--top", "4", "--idempotency-key", "order-4711")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("sepu-client: 422 invalid_top (request id ")
    assert done.stderr.endswith("); sepu-client match --help says what it takes\n")
    wrong = issued.api_key[:-1] + ("a" if issued.api_key[-1] != "a" else "b")
    done = run("usage", SEPU_API_KEY=wrong)
    assert done.stderr.startswith("sepu-client: 401 unauthorized")
    assert wrong not in done.stderr


def test_it_knows_its_version(run: Run) -> None:
    assert run("--version").stdout == f"sepu-client {sepu_client.__version__}\n"
