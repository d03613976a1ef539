"""Two hosts, however they are named, and the first of them gone in any way: the second serves in time.

The pairs of what matters are tried; `make failover` tries all combinations.
"""

import itertools
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
from tests.cli.running import printed
from tests.console.running import Console
from tests.faults.fronts import Front, fronts
from tests.faults.history import History
from tests.faults.standby import Replicated, replicated
from tests.faults.verdict import contradictory
from tests.metering.conftest import Customer
from tests.processes import completed, running, until
from tests.serving import SEPU, free_port, serving

from sepu.admin import accounts
from sepu.admin.audit import audit
from sepu.admin.plans import set_plan
from sepu.cli.database import connect
from sepu.metering.key_format import credential

pytestmark = pytest.mark.slow
START_SECONDS = 10 + 10  # the promise, and what a busy machine may add
BACK_SECONDS = 5 + 5

Environment = Mapping[str, str]
# Whether what bears the name was served.
Ask = Callable[[str], bool]


# --- how the hosts are named


def _service_file(directory: Path, hosts: tuple[Front, Front]) -> str:
    file = directory / "service.conf"
    addresses, ports = ",".join(one.address for one in hosts), ",".join(str(one.port) for one in hosts)
    file.write_text(f"[sepu]\nhost={addresses}\nport={ports}\nuser=sepu\ndbname=postgres\n")
    return str(file)


def _by_url(_: Path, hosts: tuple[Front, Front]) -> Environment:
    named = ",".join(f"{one.address}:{one.port}" for one in hosts)
    return {"SEPU_DATABASE_URL": f"postgresql://sepu@{named}/postgres"}


def _by_service_in_url(directory: Path, hosts: tuple[Front, Front]) -> Environment:
    file = _service_file(directory, hosts)
    return {"SEPU_DATABASE_URL": "postgresql:///?service=sepu", "PGSERVICEFILE": file}


def _by_pgservice(directory: Path, hosts: tuple[Front, Front]) -> Environment:
    return {**_by_service_in_url(directory, hosts), "SEPU_DATABASE_URL": "postgresql://", "PGSERVICE": "sepu"}


def _by_pghost(_: Path, hosts: tuple[Front, Front]) -> Environment:
    named = {"PGHOST": ",".join(one.address for one in hosts), "PGPORT": ",".join(str(one.port) for one in hosts)}
    return {"SEPU_DATABASE_URL": "postgresql://sepu@/postgres", **named}


def _by_hostaddr(_: Path, hosts: tuple[Front, Front]) -> Environment:
    # The names are only for certificates.
    url = "postgresql://sepu@/postgres?host=one.invalid,two.invalid"
    named = {"PGHOSTADDR": ",".join(one.address for one in hosts), "PGPORT": ",".join(str(one.port) for one in hosts)}
    return {"SEPU_DATABASE_URL": url, **named}


NAMES = {
    "URL": _by_url,
    "service in URL": _by_service_in_url,
    "PGSERVICE": _by_pgservice,
    "PGHOST": _by_pghost,
    "hostaddr": _by_hostaddr,
}

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
    console, log = Console(f"127.0.0.1:{free_port()}", ""), directory / "console.log"
    issued = accounts.create_account(primary, "standard")

    def ask(_: str) -> bool:
        try:
            return console.get(f"/accounts/{issued.account_id}").status == 200
        except (OSError, HTTPException):
            return False

    command: list[str | Path] = [SEPU, "console", "--port", console.address.rpartition(":")[2]]
    with log.open("w") as output, running(command, env={**os.environ, **environment}, stdout=output, stderr=output):
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
            held = credential(issued.api_key)
            assert held is not None
            customer = Customer(issued.account_id, "one", issued.key_id, held)
            assert customer.meter(primary, at=datetime.now(UTC)).outcome == "charged"
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


# With "all" each combination is tried, otherwise so many that each pair of any two is among them.
ALL = os.environ.get("SEPU_TEST_FAILOVER") == "all"
AT_ONCE = 1 if ALL else 3  # they mostly wait; but two deliverers would take each other's events


@pytest.fixture(scope="module")
def stage() -> Iterator[Replicated]:
    with replicated() as made:
        yield made


def played(stage: Replicated, named: str, fault: str, served: str, directory: Path) -> str:
    """Plays one case; says what was wrong with it, if anything."""
    first, (second, _), _, _, _ = stage
    primary_url = f"postgresql://sepu@/postgres?host={quote(str(first / 'socket'), safe='')}"
    later = fault.startswith("becomes")
    directory.mkdir()
    try:
        with fronts(first) as hosts, connect(primary_url) as primary:
            if not later:
                FAULTS[fault](hosts[0], second)
            began = time.monotonic()
            with SERVED[served](NAMES[named](directory, hosts), primary, directory) as ask:
                until(lambda: ask("before-1"), why=lambda: "never served")
                assert time.monotonic() - began < START_SECONDS
                if later:
                    FAULTS[fault](hosts[0], second)
                    until(lambda: ask("after-01"), seconds=BACK_SECONDS, why=lambda: "not served again")
    except (AssertionError, pytest.fail.Exception) as error:
        return f"{served}, hosts by {named}: {error}"
    return ""


@pytest.mark.timeout(1800 if ALL else 120)
@pytest.mark.parametrize("fault", FAULTS)
def test_the_second_host_serves_in_time(stage: Replicated, fault: str, tmp_path: Path) -> None:
    row = list(FAULTS).index(fault)
    cases = [
        (named, served)
        for (column, named), (place, served) in itertools.product(enumerate(NAMES), enumerate(SERVED))
        if ALL or (row + column + place) % len(SERVED) == 0
    ]

    def play(case: tuple[str, str]) -> str:
        named, served = case
        return played(stage, named, fault, served, tmp_path / f"{served}, {named}")

    with ThreadPoolExecutor(AT_ONCE) as threads:
        assert [wrong for wrong in threads.map(play, cases) if wrong] == []
