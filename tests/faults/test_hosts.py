"""Two hosts, and the first of them gone in any way: the second serves in time.

However hosts are named, each has a time of its own: tests/metering/test_hosts.py.
"""

import json
import os
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from datetime import UTC, datetime
from functools import partial
from http.client import HTTPException
from pathlib import Path
from urllib.parse import quote

import pytest
from psycopg import Connection
from tests.charging import charge
from tests.cli.running import printed
from tests.console.running import Console
from tests.faults.fronts import Front, fronts
from tests.faults.history import History
from tests.faults.verdict import contradictory
from tests.harness.processes import completed, running, until
from tests.harness.serving import SEPU, free_port, serving
from tests.harness.standby import Replicated, replicated

from sepu.admin import accounts
from sepu.admin.audit import audit
from sepu.admin.plans import set_plan
from sepu.database.opening import connect

pytestmark = pytest.mark.slow
START_SECONDS = 10 + 10  # the promise, and what a busy machine may add
BACK_SECONDS = 5 + 5

Environment = Mapping[str, str]
# Whether what bears the name was served.
Ask = Callable[[str], bool]


# --- what happens to the first; before the start unless it becomes so

FAULTS: dict[str, Callable[[Front, Path], None]] = {
    "refuses": lambda host, _: host.refuse(),
    "silent": lambda host, _: host.fall_silent(),
    "drops SYN": lambda host, _: host.drop(),
    "becomes silent": lambda host, _: host.fall_silent(),
    "becomes a standby": lambda host, standby: host.lead_to(standby),
}

# --- who needs the database


@contextmanager
def _worker(worker: str, environment: Environment, primary: Connection, _: Path) -> Iterator[Ask]:
    history = History()
    issued = accounts.create_account(primary, "standard")
    with serving(worker, None, workers=1, environment=environment) as server:
        yield lambda name: history.match(server, issued, name).status == 200
    assert contradictory(primary, history) == []
    assert audit(primary).differences == ()


@contextmanager
def _commands(environment: Environment, primary: Connection, _: Path) -> Iterator[Ask]:
    def ask(name: str) -> bool:
        arguments = ("account", "create", "--external-id", f"{time.time_ns()}-{name}", "--json")
        done = completed([SEPU, *arguments], env={**os.environ, **environment})
        if done.returncode == 0:
            made.add(printed(done)["accountId"])
        return done.returncode == 0

    made: set[str] = set()
    yield ask
    found = primary.execute("select account_id from sepu.account where account_id = any(%s)", [list(made)]).fetchall()
    assert {account for (account,) in found} == made


@contextmanager
def _console(environment: Environment, primary: Connection, directory: Path) -> Iterator[Ask]:
    log, port = directory / "console.log", free_port()
    issued = accounts.create_account(primary, "standard")

    def ask(_: str) -> bool:
        try:
            return console.get(f"/accounts/{issued.account_id}").status == 200
        except (OSError, HTTPException):
            return False

    command: list[str | Path] = [SEPU, "console", "--port", str(port)]
    with (
        log.open("w") as output,
        running(command, env={**os.environ, **environment}, stdout=output, stderr=output) as process,
    ):
        console = Console("console", f"127.0.0.1:{port}", process, log, owner_url="")
        yield ask
        assert "Traceback" not in log.read_text()


@contextmanager
def _deliverer(environment: Environment, primary: Connection, directory: Path) -> Iterator[Ask]:
    log = directory / "deliverer.log"
    made: dict[str, str] = {}

    def told() -> list[str]:
        lines = [line for line in log.read_text().splitlines() if line.startswith("{")]
        return [json.loads(line)["data"]["accountId"] for line in lines]

    def ask(name: str) -> bool:
        if name not in made:
            set_plan(primary, "one", {"color_match": 1, "color_search": 1}, requests_per_minute=10)
            set_plan(primary, "one", thresholds=[100])
            issued = accounts.create_account(primary, "one")
            charge(primary, issued.api_key, "key-0001", 1, datetime.now(UTC))
            made[name] = issued.account_id
        return made[name] in told()

    command: list[str | Path] = [SEPU, "events", "deliver", "--print"]
    with (
        log.open("w") as output,
        running(command, env={**os.environ, **environment}, stdout=output, stderr=output),
    ):
        yield ask
    assert sorted(told()) == sorted(made.values())
    assert "Traceback" not in log.read_text()


SERVED: dict[str, Callable[[Environment, Connection, Path], AbstractContextManager[Ask]]] = {
    "uvloop": partial(_worker, "uvloop"),
    "gthread": partial(_worker, "gthread"),
    "commands": _commands,
    "console": _console,
    "deliverer": _deliverer,
}


@pytest.fixture(scope="module")
def stage() -> Iterator[Replicated]:
    with replicated() as made:
        yield made


@pytest.mark.parametrize("fault", FAULTS)
def test_the_second_host_serves_in_time(stage: Replicated, fault: str, tmp_path: Path) -> None:
    first, (second, _), _, _, _ = stage
    primary_url = f"postgresql://sepu@/postgres?host={quote(str(first / 'socket'), safe='')}"
    later = fault.startswith("becomes")

    def play(served: str) -> None:
        directory = tmp_path / served
        directory.mkdir()
        with fronts(first) as hosts, connect(primary_url) as primary:
            named = ",".join(f"{one.address}:{one.port}" for one in hosts)
            if not later:
                FAULTS[fault](hosts[0], second)
            began = time.monotonic()
            url = {"SEPU_DATABASE_URL": f"postgresql://sepu@{named}/postgres"}
            with SERVED[served](url, primary, directory) as ask:
                until(lambda: ask("before-1"), why=lambda: f"{served} was never served")
                assert time.monotonic() - began < START_SECONDS, served
                if later:
                    FAULTS[fault](hosts[0], second)
                    until(lambda: ask("after-01"), seconds=BACK_SECONDS, why=lambda: f"{served} is not served again")

    with ThreadPoolExecutor(3) as threads:  # they mostly wait
        list(threads.map(play, SERVED))
