"""A server against the document, by schemathesis: its config and hooks lie beside this file.

SEPU_SCHEMA_EXAMPLES asks for so many examples, at random; without it the few are always the same.
"""

import os
import sysconfig
from pathlib import Path

import psycopg
import pytest
from tests.harness.processes import completed
from tests.harness.serving import Server
from tests.openapi.document import PATH

from sepu import limits
from sepu.admin import accounts
from sepu.admin.plans import set_plan
from sepu.admin.usage import show_usage

pytestmark = pytest.mark.slow

HERE = Path(__file__).parent
SCHEMATHESIS = Path(sysconfig.get_path("scripts")) / "schemathesis"
EXAMPLES = os.environ.get("SEPU_SCHEMA_EXAMPLES")
ENDLESS = limits.plans.PLANNED_UNITS


@pytest.mark.timeout(0 if EXAMPLES else 300)  # the few take seconds, but the machine may be busy
def test_schemathesis_finds_nothing(server: Server, connection: psycopg.Connection, tmp_path: Path) -> None:
    if server.address.startswith("unix:"):
        pytest.skip("schemathesis knows no Unix sockets; meinheld has the table of the contract")
    set_plan(connection, "endless", {"color_match": ENDLESS, "color_search": ENDLESS}, requests_per_minute=ENDLESS)
    issued = accounts.create_account(connection, "endless")
    options = [f"--config-file={HERE / 'schemathesis.toml'}", "run", str(PATH), f"--url=http://{server.address}"]
    many = [f"--max-examples={EXAMPLES}"] if EXAMPLES else ["--max-examples=20", "--generation-deterministic"]
    done = completed(
        [SCHEMATHESIS, "--no-color", *options, "--continue-on-failure", *many],
        env={**os.environ, "SEPU_API_KEY": issued.api_key, "SCHEMATHESIS_HOOKS_FILE": str(HERE / "hooks.py")},
        cwd=tmp_path,
        timeout=None if EXAMPLES else 280,
    )
    print(done.stdout, done.stderr)  # noqa: T201  (pytest shows it when the test fails)
    assert done.returncode == 0
    assert "4 selected / 4 total" in done.stdout
    # What was accepted was charged: the run did not shut itself out.
    assert all(meter.committed > 0 for meter in show_usage(connection, issued.account_id).usage)
    assert server.process.poll() is None
    assert "Traceback" not in server.log.read_text()
