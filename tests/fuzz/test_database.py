"""The configuration of the database, odd and hostile, in every place. `make fuzz WHAT=database` plays more.

A command connects, and a worker. Either ends in time: connected if nothing is wrong, or else with our own error, which
names what is wrong and no part of a password. What stands in a service file, or looks like a password, is in
tests/metering/test_hosts.py, too.
"""

import asyncio
import faulthandler
import os
import socket
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from unittest.mock import patch
from urllib.parse import quote

import psycopg
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from psycopg.conninfo import conninfo_to_dict
from tests.fuzz.cases import EXAMPLES, SECONDS

from sepu.cli.database import DatabaseError, connect
from sepu.database.hosts import Hosts

pytestmark = [pytest.mark.slow, pytest.mark.timeout(0 if SECONDS else 600)]

HANG_SECONDS = 60.0  # of one case, which takes far less; the machine may be busy
SECRET = "5ec2e7" * 3
CLOSED = [("127.0.0.1", "1"), ("::1", "1"), ("localhost", "1"), ("/nowhere", "5432"), ("no.such.invalid", "5432")]
GOOD, SILENT = ("good", "5432"), ("127.0.0.1", "silent")  # the test puts an address there
SOUND: dict[str, list[str]] = {
    "password": [SECRET],
    "application_name": ["fuzz"],
    "connect_timeout": ["1", "2", "2.5"],
    "target_session_attrs": ["any", "read-write", "primary", "prefer-standby"],
    "load_balance_hosts": ["random"],
    "keepalives_idle": ["7"],
    "sslmode": ["disable"],
}
# Values that are wrong, and what the error then has to name; nothing where Postgres or a Unix socket does not mind.
WRONG: dict[tuple[str, str], list[str]] = {
    ("port", "port"): ["x", "0", "65536", "-1", "99999999999999999999", "5432,5433,5434,5435,5436", "１"],
    ("connect_timeout", "connect_timeout"): ["x", "1e999", "nan", "2 s"],
    ("keepalives_idle", ""): ["x", "99999999999999999999", "1e9"],
    ("sslmode", ""): ["bogus", "REQUIRE"],
    ("target_session_attrs", "target_session_attrs"): ["bogus", "primary,standby"],
    ("load_balance_hosts", "load_balance_hosts"): ["bogus", "1"],
    ("gssencmode", "gssencmode"): ["bogus"],
    ("host", "name of a host"): ["a" * 64 + ".example", "a..b", "127.0.0.1,a..b"],
    ("host", ""): ["\udc80.example", ""],
}
ODD = st.text("'\"\\\n\t =,%&?#/:@[];-0é中\udc80{}", min_size=1, max_size=8).flatmap(
    lambda text: st.sampled_from([text, text, text * 1000, "%00", "%zz"])
)
IN_ENVIRONMENT = {"host", "port", "user", "dbname", "password"}


@dataclass(frozen=True)
class Case:
    """What is set and where, and what the error has to name: nothing if it connects, None if either will do."""

    settings: dict[str, str]
    places: dict[str, str]  # environment, service or string; the rest is in the URL
    names: str | None


@st.composite
def cases(draw: st.DrawFn) -> Case:
    closed = st.lists(st.sampled_from(CLOSED), max_size=1)
    silent = [SILENT] if draw(st.integers(0, 30)) == 30 else []
    hosts = [*draw(closed), *draw(closed), *silent, GOOD, *draw(closed)]
    settings = {"host": ",".join(host for host, _ in hosts), "port": ",".join(port for _, port in hosts)}
    settings |= {"user": "sepu", "dbname": "postgres"}
    for name in draw(st.sets(st.sampled_from(sorted(SOUND)), max_size=3)):
        settings[name] = draw(st.sampled_from(SOUND[name]))
    names: str | None = ""
    match draw(st.sampled_from(["", "wrong", "odd"])):
        case "wrong":
            (name, names), values = draw(st.sampled_from(sorted(WRONG.items())))
            names = names or None
            settings |= {name: draw(st.sampled_from(values)), **({"port": "5432"} if name == "host" else {})}
        case "odd":
            more = ["options", "sslrootcert", "passfile", "client_encoding"]
            settings[draw(st.sampled_from([*settings, *more]))] = draw(ODD)
            names = None
    ways = draw(st.sampled_from([["url"], ["string"], ["service"], ["url", "environment"], ["service", "environment"]]))
    return Case(settings, {name: draw(st.sampled_from(ways)) for name in settings}, names)


def fits(place: str, name: str, value: str) -> bool:
    if place == "environment":
        return name in IN_ENVIRONMENT and "\0" not in value
    return place != "service" or ("\n" not in value and value == value.strip() != "" and len(value) < 200)


@contextmanager
def configured(case: Case) -> Iterator[str]:
    """Sets the environment and writes the service file; yields the connection string."""
    parts: dict[str, dict[str, str]] = {place: {} for place in ("url", "string", "service", "environment")}
    for name, value in case.settings.items():
        place = case.places[name]
        parts[place if fits(place, name, value) else "url"][name] = value
    bare = {name: value for name, value in os.environ.items() if not name.startswith("PG")}
    named = {f"PG{'DATABASE' if name == 'dbname' else name.upper()}": it for name, it in parts["environment"].items()}
    direct = parts["string"] | parts["url"] | ({"service": "sepu"} if parts["service"] else {})
    with tempfile.NamedTemporaryFile(prefix="sepu-fuzz-") as file, patch.dict(os.environ, bare, clear=True):
        lines = [f"{name}={value}" for name, value in parts["service"].items()]
        text = "\n".join(["# the database", "[other]", "host=nowhere", "", "[sepu]", *lines, ""])
        Path(file.name).write_text(text, errors="surrogateescape")
        os.environ.update({**named, "PGSERVICEFILE": file.name})
        yield os.fsencode(string(direct) if parts["string"] else url(direct)).decode("utf-8", "surrogateescape")


def url(settings: dict[str, str]) -> str:
    pairs = [f"{name}={quote(value, safe='', errors='surrogateescape')}" for name, value in settings.items()]
    return f"postgresql:///?{'&'.join(pairs)}"


def string(settings: dict[str, str]) -> str:
    escaped = {name: value.replace("\\", "\\\\").replace("'", "\\'") for name, value in settings.items()}
    return " ".join(f"{name}='{value}'" for name, value in escaped.items())


def command(address: str) -> None:
    with connect(address):
        pass


async def worker(address: str) -> None:
    await (await Hosts(address).connect_async()).close()


@pytest.mark.parametrize("act", [command, lambda address: asyncio.run(worker(address))], ids=["command", "worker"])
@settings(max_examples=EXAMPLES)
@given(case=cases())
def test_it_connects_or_says_what_is_wrong(database_url: str, act: Callable[[str], None], case: Case) -> None:
    good = str(conninfo_to_dict(database_url)["host"])
    faulthandler.dump_traceback_later(HANG_SECONDS, exit=True)
    error = None
    with socket.create_server(("127.0.0.1", 0)) as silent:
        case.settings["host"] = case.settings["host"].replace("good", good)
        case.settings["port"] = case.settings["port"].replace("silent", str(silent.getsockname()[1]))
        with configured(case) as address:
            try:
                act(address)
            except (DatabaseError, psycopg.Error, TimeoutError) as raised:
                error = str(raised)
    faulthandler.cancel_dump_traceback_later()
    assert (error is None) or case.names != "", error
    assert (error is not None) or not case.names
    assert not case.names or case.names in (error or "")
    assert SECRET not in (error or "")
