"""The configuration of the database, odd and hostile: `make fuzz WHAT=database`.

A case names hosts and settings by a URL, a string of keywords, a service file, the environment, or several of these,
and may spoil some. Then a command connects, and a worker. Either must end in time: connected if nothing is spoilt, or
else with our own error, which names what is wrong and no part of a password. The cases run in another process: only so
a connection that hangs can be ended. `make fuzz WHAT=database SECONDS=0 SEED=…` repeats one case.
"""

import asyncio
import json
import os
import socket
import sys
import tempfile
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import count, takewhile
from pathlib import Path
from random import Random
from urllib.parse import quote

import psycopg
from psycopg.conninfo import conninfo_to_dict
from tests.fuzz import apart
from tests.fuzz.outcome import Outcome

from sepu.cli.database import DatabaseError, connect, database
from sepu.database.hosts import Hosts

_ODD = [*"'\"\\\n\t =,%&?#/:@[];-0é中\udc80", "%00", "%zz", "{}"]


@dataclass
class Case:
    """What is configured, and what its error has to name; nothing if it has to connect; None if either will do."""

    url: str = ""
    environment: dict[str, str] = field(default_factory=dict)
    service: str | None = None  # the file's text
    names: str | None = ""
    secrets: list[str] = field(default_factory=list)


def _hosts(rng: Random, good: str, silent: int) -> tuple[list[str], list[str]]:
    """Names and ports: some that refuse, perhaps one that says nothing, and one that serves."""
    closed = [("127.0.0.1", "1"), ("::1", "1"), ("localhost", "1"), ("/nowhere", "5432"), ("no.such.invalid", "5432")]
    hosts = [rng.choice(closed) for _ in range(rng.choice([0, 0, 1, 2]))]
    if rng.random() < 0.02:
        hosts.append(("127.0.0.1", str(silent)))
    hosts.append((good, "5432"))
    if rng.random() < 0.2:
        hosts.append(rng.choice(closed))
    return [host for host, _ in hosts], [port for _, port in hosts]


def _odd_text(rng: Random) -> str:
    parts = [
        rng.choice([rng.choice(_ODD), rng.choice(_ODD), f"{rng.getrandbits(20):x}"]) for _ in range(rng.randint(1, 8))
    ]
    return "".join(parts) * rng.choice([1, 1, 1, 1000])


def _keyword(value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def _url(settings: dict[str, str]) -> str:
    def quoted(text: str) -> str:
        return quote(text, safe="", errors="surrogateescape")

    user, password = quoted(settings.pop("user", "")), settings.pop("password", None)
    login = user + (f":{quoted(password)}" if password is not None else "")
    rest = "&".join(f"{name}={quoted(value)}" for name, value in settings.items())
    return f"postgresql://{login}{'@' if login else ''}/?{rest}"


def _string(settings: dict[str, str]) -> str:
    return " ".join(f"{name}={_keyword(value)}" for name, value in settings.items())


# Values that are wrong, and what the error then has to name; None where Postgres or a Unix socket does not mind.
_WRONG: list[tuple[str, list[str], str | None]] = [
    ("port", ["x", "0", "65536", "-1", "99999999999999999999", "5432,5433,5434,5435,5436", "１"], "port"),
    ("connect_timeout", ["x", "1e999", "nan", "2 s"], "connect_timeout"),
    ("keepalives_idle", ["x", "99999999999999999999", "1e9"], None),
    ("sslmode", ["bogus", "REQUIRE"], "sslmode"),
    ("target_session_attrs", ["bogus", "primary,standby"], "target_session_attrs"),
    ("load_balance_hosts", ["bogus", "1"], "load_balance_hosts"),
    ("gssencmode", ["bogus"], "gssencmode"),
    ("host", ["a" * 64 + ".example", "a..b", "127.0.0.1,a..b"], "name of a host"),
    ("host", ["\udc80.example", ""], None),
]


def _spoil(rng: Random, case: Case, settings: dict[str, str]) -> None:
    """One setting that is wrong."""
    name, values, case.names = rng.choice(_WRONG)
    settings[name] = rng.choice(values)
    if name == "host":
        settings["port"] = "5432"


def make(seed: int, good: str, silent: int) -> Case:
    """The case of that seed."""
    rng = Random(seed)
    case = Case()
    secret = f"{rng.getrandbits(40):010x}"
    names, ports = _hosts(rng, good, silent)
    settings = {"host": ",".join(names), "port": ",".join(ports), "user": "sepu", "dbname": "postgres"}
    if len(set(ports)) == 1 and rng.random() < 0.5:
        settings["port"] = ports[0]
    if rng.random() < 0.5:
        case.secrets.append(secret)
        settings["password"] = secret
    optional = {
        "application_name": "fuzz",
        "connect_timeout": rng.choice(["1", "2", "3", "2.5"]),
        "target_session_attrs": rng.choice(["any", "read-write", "primary", "prefer-standby"]),
        "load_balance_hosts": "random",
        "keepalives_idle": "7",
        "sslmode": "disable",
    }
    settings.update({name: value for name, value in optional.items() if rng.random() < 0.15})
    defect = rng.choice(["", "", "setting", "service", "password", "odd", "bytes"])
    if defect == "setting":
        _spoil(rng, case, settings)
    elif defect == "odd":
        settings[rng.choice([*settings, "options", "sslrootcert", "passfile", "client_encoding"])] = _odd_text(rng)
        case.names = None
    _place(rng, case, settings)
    if defect == "service":
        _spoil_service(rng, case)
    elif defect == "password":
        _unquoted(rng, case, secret)
    elif defect == "bytes" and case.url:
        at = rng.randrange(len(case.url))
        case.url = case.url[:at] + _odd_text(rng) + case.url[at + rng.choice([0, 1, 3]) :]
        case.names = None
        if f":{secret}@" not in case.url and f"password='{secret}'" not in case.url:
            case.secrets = []  # it may be a part of another setting now
    return case


def _place(rng: Random, case: Case, settings: dict[str, str]) -> None:
    """Puts each setting into the connection string, a service file or the environment."""
    ways = rng.choice(
        [["url"], ["string"], ["service"], ["pgservice"], ["url", "environment"], ["service", "environment"]]
    )
    parts: dict[str, dict[str, str]] = {way: {} for way in ways}
    for name, value in settings.items():
        in_file = "\n" not in value and value == value.strip() != "" and len(value) < 200
        fitting = [way for way in ways if _fits(way, name, in_file)]
        if fitting:
            parts[rng.choice(fitting)][name] = value
        else:
            parts.setdefault("url", {})[name] = value
    for way in ("service", "pgservice"):
        if way in parts:
            lines = [f"{name}={value}" for name, value in parts[way].items()]
            case.service = "\n".join(["# the database", "[other]", "host=nowhere", "", "[sepu]", *lines, ""])
    for name, value in parts.get("environment", {}).items():
        case.environment[f"PG{ {'dbname': 'DATABASE'}.get(name, name.upper()) }"] = value
    direct = {**parts.get("url", {}), **parts.get("string", {})}
    if "service" in parts:
        direct["service"] = "sepu"
    if "pgservice" in parts:
        case.environment["PGSERVICE"] = "sepu"
    case.url = _string(direct) if "string" in parts and direct else _url(direct)


def _fits(way: str, name: str, in_file: bool) -> bool:
    if way == "environment":
        return name in {"host", "port", "user", "dbname", "password"}
    return in_file if way in {"service", "pgservice"} else True


def _spoil_service(rng: Random, case: Case) -> None:
    case.service = case.service or ""
    case.environment.pop("PGSERVICE", None)
    missing = f"missing{rng.getrandbits(20)}"
    kind = rng.choice(["missing", "no file", "pipe", "device", "syntax", "unknown", "nested", "long"])
    case.url, case.names = f"postgresql:///?service={missing}", missing
    if kind == "missing":
        return
    case.url = "postgresql:///?service=sepu"
    case.names = {"no file": "nowhere.conf", "pipe": "PGSERVICEFILE", "device": "PGSERVICEFILE"}.get(kind, "service")
    if kind in {"no file", "pipe", "device"}:
        case.environment["PGSERVICEFILE"] = {"no file": "/nowhere.conf", "pipe": "pipe", "device": "/dev/zero"}[kind]
    line = {"syntax": "host", "unknown": f"hots={missing}", "nested": "service=sepu", "long": "host=" + "x" * 5000}
    case.service = f"[sepu]\n{line.get(kind, '')}\n"


def _unquoted(rng: Random, case: Case, secret: str) -> None:
    """A password as a person writes it who forgets what is special in a URL."""
    other = f"{rng.getrandbits(40):010x}"
    case.url = f"postgresql://sepu:{secret}{rng.choice('@/?#:')}{other}@127.0.0.1:1/postgres"
    case.environment, case.names, case.secrets = {}, None, [secret, other]


def _connect(case: Case, directory: Path) -> list[str]:
    """What is wrong with how it ends."""
    for name in [name for name in os.environ if name.startswith("PG")]:
        del os.environ[name]
    if case.service is not None:
        (directory / "service.conf").write_text(case.service, errors="surrogateescape")
        os.environ["PGSERVICEFILE"] = str(directory / "service.conf")
    try:
        os.environ.update(case.environment)
        url = os.fsencode(case.url).decode("utf-8", "surrogateescape")
    except (ValueError, UnicodeError):
        return []  # no such environment can be
    if case.environment.get("PGSERVICEFILE") == "pipe":
        os.environ["PGSERVICEFILE"] = str(directory / "pipe")

    def command() -> None:
        with connect(url):
            pass

    async def worker() -> None:
        await (await Hosts(url).connect_async()).close()

    wrong = []
    for who, act in (("a command", command), ("a worker", lambda: asyncio.run(worker()))):
        try:
            act()
            error = None
        except (DatabaseError, psycopg.Error, TimeoutError) as raised:
            error = str(raised)
        except Exception as raised:
            wrong.append(f"{who} failed by {type(raised).__name__}: {raised}")
            continue
        if case.names == "" and error is not None:
            wrong.append(f"{who} did not connect: {error}")
        if case.names and error is None:
            wrong.append(f"{who} connected")
        if case.names and error and case.names not in error:
            wrong.append(f"the error of {who} does not name {case.names}: {error}")
        wrong += [f"the error of {who} has a secret: {error}" for secret in case.secrets if secret in (error or "")]
    return wrong


def child(good: str) -> None:
    """Reads seeds, and answers with what is wrong, and with what the case has to name."""
    with (
        tempfile.TemporaryDirectory(prefix="sepu-fuzz-") as directory,
        socket.create_server(("127.0.0.1", 0)) as silent,
    ):
        os.mkfifo(f"{directory}/pipe")

        def outcome(seed: str) -> str:
            case = make(int(seed), good, silent.getsockname()[1])
            return json.dumps([_connect(case, Path(directory)), case.names])

        apart.answer(outcome)


def run(database_url: str, cases: Iterable[int]) -> Outcome:
    """Tries the cases of these seeds."""
    outcome = Outcome()
    good = str(conninfo_to_dict(database_url)["host"])
    for seed, found in apart.ask("tests.fuzz.database", good, map(str, cases)):
        wrong, names = ([found], None) if found.startswith("FAULT") else json.loads(found)
        outcome.faults += [f"seed {seed}: {one}" for one in wrong]
        outcome.tried["to connect" if names == "" else "to refuse" if names else "either"] += 1
    return outcome


def fuzz(seconds: float, seed: int) -> Outcome:
    with (
        tempfile.TemporaryDirectory(prefix="sepu-fuzz-") as directory,
        database(None, Path(directory), create=True) as url,
    ):
        end = time.monotonic() + seconds
        return run(url, takewhile(lambda number: number == seed or time.monotonic() < end, count(seed)))


if __name__ == "__main__":
    child(sys.argv[1])
