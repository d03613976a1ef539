"""Tools of others against a real service: schemathesis reads the document, slowhttptest keeps connections open.

The seed is another one in each run. A failure prints the command to repeat it, and SEPU_SEED repeats the test.
"""

import os
import secrets
import shlex
import subprocess
from pathlib import Path

import pytest
from psycopg import Connection
from tests.harness.processes import completed, running
from tests.harness.serving import Server
from tests.openapi.document import PATH
from tests.programs import missing, program

from sepu.admin import accounts
from sepu.admin.keys import IssuedKey
from sepu.admin.plans import set_plan

pytestmark = pytest.mark.slow

SCHEMATHESIS = Path(__file__).parents[2] / "build" / "strangers" / "bin" / "schemathesis"
SEED = int(os.environ.get("SEPU_SEED") or secrets.randbelow(2**31))
EXAMPLES = 50  # of each operation and phase
SLOW_CONNECTIONS = 800
MODES = {"-H": "heads", "-B": "bodies", "-X": "reading"}


@pytest.fixture
def issued(connection: Connection) -> IssuedKey:
    """A new account that reaches no limit."""
    most = 2**30
    set_plan(connection, "strangers", {"color_match": most, "color_search": most}, requests_per_minute=most)
    return accounts.create_account(connection, "strangers")


@pytest.mark.timeout(600)
def test_schemathesis_finds_nothing(uvloop: Server, issued: IssuedKey) -> None:
    if not SCHEMATHESIS.exists():
        missing("schemathesis is not installed: make build/strangers/ready")
    command = [
        str(SCHEMATHESIS), "run", str(PATH), "--url", f"http://{uvloop.address}", "--checks", "all",
        "--seed", str(SEED), "--max-examples", str(EXAMPLES), "--continue-on-failure", "--no-color",
    ]  # fmt: skip
    done = completed([*command, "--header", f"Authorization: Bearer {issued.api_key}"], timeout=500)
    repeat = f"{shlex.join(command)} --header 'Authorization: Bearer KEY'"
    assert done.returncode == 0, f"repeat: {repeat}\n{done.stdout[-6000:]}{done.stderr[-1000:]}"


@pytest.mark.parametrize("mode", MODES, ids=MODES.values())
def test_slow_connections_keep_no_customer_waiting(uvloop: Server, issued: IssuedKey, mode: str) -> None:
    command = [
        program("slowhttptest", "slowhttptest"), mode, "-u", f"http://{uvloop.address}/v1/match",
        "-c", str(SLOW_CONNECTIONS), "-r", str(SLOW_CONNECTIONS), "-l", "10", "-i", "5",
    ]  # fmt: skip
    answers: list[int] = []
    with running(command, stdout=subprocess.DEVNULL) as slow:
        while slow.poll() is None:
            answers += [
                uvloop.request("GET", "/healthz").status,
                uvloop.match(issued, f"slow-{len(answers):04}").status,
            ]
    assert answers
    assert set(answers) == {200}, f"repeat: {shlex.join(command)}"
