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
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from urllib.parse import quote

import psycopg
from psycopg.conninfo import conninfo_to_dict
from tests.fuzz import apart
from tests.fuzz.outcome import Played, own_database

from sepu.cli.database import DatabaseError, connect
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


_CLOSED = [("127.0.0.1", "1"), ("::1", "1"), ("localhost", "1"), ("/nowhere", "5432"), ("no.such.invalid", "5432")]


def _hosts(rng: Random, good: str, silent: int) -> dict[str, str]:
    """Some that refuse, perhaps one that says nothing, and one that serves."""
    hosts = [
        *rng.choices(_CLOSED, k=rng.choice([0, 0, 1, 2])),
        *([("127.0.0.1", str(silent))] if rng.random() < 0.02 else []),
        (good, "5432"),
        *rng.choices(_CLOSED, k=rng.choice([0, 0, 0, 0, 1])),
    ]
    ports = [port for _, port in hosts]
    one = len(set(ports)) == 1 and rng.random() < 0.5
    return {"host": ",".join(host for host, _ in hosts), "port": ports[0] if one else ",".join(ports)}


def _odd_text(rng: Random) -> str:
    parts = [*rng.choices(_ODD, k=4), f"{rng.getrandbits(20):x}", f"{rng.getrandbits(20):x}"]
    return "".join(rng.choices(parts, k=rng.randint(1, 8))) * rng.choice([1, 1, 1, 1000])


def _url(settings: dict[str, str]) -> str:
    def quoted(text: str) -> str:
        return quote(text, safe="", errors="surrogateescape")

    password = f":{quoted(settings['password'])}" if "password" in settings else ""
    login = f"{quoted(settings.get('user', ''))}{password}"
    rest = "&".join(f"{name}={quoted(value)}" for name, value in settings.items() if name not in {"user", "password"})
    return f"postgresql://{login}{'@' if login else ''}/?{rest}"


def _string(settings: dict[str, str]) -> str:
    def quoted(text: str) -> str:
        return text.replace("\\", "\\\\").replace("'", "\\'")

    return " ".join(f"{name}='{quoted(value)}'" for name, value in settings.items())


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


def make(number: int, good: str, silent: int) -> Case:
    rng = Random(number)
    case = Case()
    secret = f"{rng.getrandbits(40):010x}"
    settings = {**_hosts(rng, good, silent), "user": "sepu", "dbname": "postgres"}
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
    settings |= {name: value for name, value in optional.items() if rng.random() < 0.15}
    defect = rng.choice(["", "", "setting", "service", "password", "odd", "bytes"])
    if defect == "setting":
        name, values, case.names = rng.choice(_WRONG)
        settings |= {name: rng.choice(values), **({"port": "5432"} if name == "host" else {})}
    elif defect == "odd":
        settings[rng.choice([*settings, "options", "sslrootcert", "passfile", "client_encoding"])] = _odd_text(rng)
        case.names = None
    _place(rng, case, settings)
    if defect == "service":
        _spoil_service(rng, case)
    elif defect == "password":  # as a person writes it who forgets what is special in a URL
        other = f"{rng.getrandbits(40):010x}"
        url = f"postgresql://sepu:{secret}{rng.choice('@/?#:')}{other}@127.0.0.1:1/postgres"
        case = Case(url, names=None, secrets=[secret, other])
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
        fitting = [way for way in ways if _fits(way, name, value)] or ["url"]
        parts.setdefault(rng.choice(fitting), {})[name] = value
    for name, value in parts.get("environment", {}).items():
        case.environment[f"PG{ {'dbname': 'DATABASE'}.get(name, name.upper()) }"] = value
    direct = parts.get("string", {}) | parts.get("url", {})
    for way in {"service", "pgservice"} & parts.keys():
        lines = [f"{name}={value}" for name, value in parts[way].items()]
        case.service = "\n".join(["# the database", "[other]", "host=nowhere", "", "[sepu]", *lines, ""])
        if way == "service":
            direct["service"] = "sepu"
        else:
            case.environment["PGSERVICE"] = "sepu"
    case.url = _string(direct) if "string" in parts and direct else _url(direct)


def _fits(way: str, name: str, value: str) -> bool:
    if way == "environment":
        return name in {"host", "port", "user", "dbname", "password"}
    in_file = "\n" not in value and value == value.strip() != "" and len(value) < 200
    return in_file or way not in {"service", "pgservice"}


# The file that is meant, its text, and what the error then has to name.
_WRONG_SERVICES = [
    ("/nowhere.conf", "", "nowhere.conf"),
    ("pipe", "", "PGSERVICEFILE"),
    ("/dev/zero", "", "PGSERVICEFILE"),
    *((None, line, "service") for line in ("host", "hots=missing", "service=sepu", "host=" + "x" * 5000)),
    (None, "[another]", '"sepu"'),
]


def _spoil_service(rng: Random, case: Case) -> None:
    case.environment.pop("PGSERVICE", None)
    file, line, case.names = rng.choice(_WRONG_SERVICES)
    case.url, case.service = "postgresql:///?service=sepu", f"{'' if line == '[another]' else '[sepu]'}\n{line}\n"
    if file:
        case.environment["PGSERVICEFILE"] = file


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
    """Reads numbers of cases, and answers with what is wrong, and with what the case has to name."""
    with (
        tempfile.TemporaryDirectory(prefix="sepu-fuzz-") as directory,
        socket.create_server(("127.0.0.1", 0)) as silent,
    ):
        os.mkfifo(f"{directory}/pipe")

        def outcome(number: str) -> str:
            case = make(int(number), good, silent.getsockname()[1])
            return json.dumps([_connect(case, Path(directory)), case.names])

        apart.answer(outcome)


def play(database_url: str, numbers: Iterator[int]) -> Iterator[Played]:
    good = str(conninfo_to_dict(database_url)["host"])
    for number, found in apart.ask("tests.fuzz.database", good, numbers):
        wrong, names = ([found], None) if found.startswith("FAULT") else json.loads(found)
        yield number, "to connect" if names == "" else "to refuse" if names else "either", "; ".join(wrong) or None


def play_on_its_own(numbers: Iterator[int]) -> Iterator[Played]:
    with own_database() as url:
        yield from play(url, numbers)


if __name__ == "__main__":
    child(sys.argv[1])
