"""Finds the hosts of a database, however they are named, and connects to the one that accepts writes.

A connection string, a service file and the environment can each name several hosts. psycopg tries one address after
another, each with a timeout, but does not read the hosts in a service file. libpq does, but has no timeout while it
connects in the background. So libpq reads the settings, and psycopg gets the hosts in the connection string.
"""

import asyncio
import os
import re
from ipaddress import ip_address
from itertools import zip_longest
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.pq import Conninfo, PGconn

from sepu import limits

C = TypeVar("C", bound=psycopg.Connection[Any])

# The format of values must not depend on the environment, a role or a database. libpq sends these settings in its first
# message, and PgBouncer passes them on. libpq takes the last two only from the environment.
_ENCODING = "UTF8"
os.environ.update(PGDATESTYLE="ISO, MDY", PGTZ="UTC")

# This is not an sslmode, so libpq reads all settings and then stops before it connects.
_STOP = "stop after reading the settings"
_LISTS = ("host", "hostaddr", "port")


class SettingsError(psycopg.OperationalError):
    """A setting of the connection is wrong. The message names it, and does not quote the connection string."""


class _Host(NamedTuple):
    host: str
    hostaddr: str
    port: str

    @property
    def name(self) -> str:
        """Returns the name by which libpq reports the host once it is connected."""
        return self.host or self.hostaddr

    def has_one_address(self) -> bool:
        """Returns whether the host cannot resolve to several addresses."""
        if self.hostaddr or not self.host or self.host.startswith("/"):
            return True
        try:
            ip_address(self.host)
        except ValueError:
            return False
        return True


class Hosts:
    """Connects to one database. Reads the settings for each connection, as libpq does."""

    def __init__(self, database_url: str, *, operator: bool = False) -> None:
        """Takes a connection string, but does not connect yet.

        An operator waits longer than the service, and may read from a standby if it is the only host.
        """
        self._url = database_url
        self._operator = operator
        self._answered: tuple[str, str] | None = None

    def conninfo(self) -> str:
        """Returns a connection string that names every host, beginning with the one that answered last.

        Unless the settings say otherwise, it limits waits for the network, and requires a host that accepts writes.

        Raises:
            SettingsError: there is no such service, or a setting is wrong.
        """
        return self._resolve()[0]

    def connect(self, kind: type[C]) -> C:
        """Connects. Each address may take `connect_timeout`.

        Raises:
            psycopg.OperationalError: no host that accepts writes answers in time.
        """
        # Prepares nothing: behind PgBouncer in transaction mode, another session may have the statement, or its name.
        connection = kind.connect(self.conninfo(), autocommit=True, prepare_threshold=None)
        self._remember(connection)
        return connection

    async def connect_async(self) -> psycopg.AsyncConnection[Any]:
        """Connects for an event loop. A single address may take no longer than a call waits.

        Raises:
            psycopg.OperationalError: no host that accepts writes answers in time.
            TimeoutError: a single address does not answer in time.
        """
        conninfo, seconds = self._resolve()
        async with asyncio.timeout(seconds):
            connection = await psycopg.AsyncConnection.connect(conninfo, autocommit=True)
        self._remember(connection)
        return connection

    def _remember(self, connection: psycopg.Connection[Any] | psycopg.AsyncConnection[Any]) -> None:
        """Remembers a connection's host, so that the next one does not try a dead host first."""
        self._answered = connection.info.host, str(connection.info.port)

    def _resolve(self) -> tuple[str, float | None]:
        """Returns that connection string, and the limit in seconds for the whole connection, if there is one."""
        found = _read(self._url)
        hosts = _hosts(found)
        hosts.sort(key=lambda one: (one.name, one.port) != self._answered)
        patient = self._operator and len(hosts) == 1
        connect = limits.database.OPERATOR_CONNECT_SECONDS if patient else limits.database.CONNECT_SECONDS
        silent = limits.database.OPERATOR_SILENT_SECONDS if self._operator else limits.database.CONNECT_SECONDS
        defaults = {
            "application_name": "sepu",
            "connect_timeout": str(connect),
            "tcp_user_timeout": str(1000 * silent),
            "keepalives_idle": "30",  # before a firewall drops an idle connection
            "target_session_attrs": "any" if patient else "read-write",
        }
        settings = {"client_encoding": _ENCODING} | {
            name: value for name, value in defaults.items() if name not in found
        }
        # psycopg acts on these itself, but does not read a service file.
        for name in ("connect_timeout", "target_session_attrs", "load_balance_hosts"):
            if name in found:
                settings[name] = found[name]
        for name, parts in zip(_LISTS, zip(*hosts, strict=True), strict=True):
            if any(parts):
                settings[name] = ",".join(parts)
        unlimited = len(hosts) > 1 or "connect_timeout" in found or not hosts[0].has_one_address()
        return make_conninfo(self._url, **settings), None if unlimited else limits.database.QUEUE_SECONDS


def _read(database_url: str) -> dict[str, str]:
    """Returns the settings in the connection string, the service file and the environment.

    A setting in a service file that equals libpq's default cannot be told from one that is not set.
    """
    try:
        given = conninfo_to_dict(database_url)
    except (psycopg.ProgrammingError, UnicodeError):  # libpq quotes what it cannot parse, even a password
        reason = _wrong_part(database_url)
        raise SettingsError(f"SEPU_DATABASE_URL or --database-url is not a connection string: {reason}") from None
    login, _, path = database_url.partition("://")[2].partition("?")[0].partition("/")
    if login.count("@") > 1 or ("@" in path and "@" not in login):  # libpq would take a part of the password for a host
        raise SettingsError("a password in SEPU_DATABASE_URL or --database-url must have @ as %40 and / as %2F")
    file = os.environ.get("PGSERVICEFILE")
    if ("service" in given or "PGSERVICE" in os.environ) and file and Path(file).exists() and not Path(file).is_file():
        raise SettingsError("PGSERVICEFILE does not name a plain file")  # libpq would wait forever for a pipe
    pgconn = PGconn.connect_start(make_conninfo(database_url, sslmode=_STOP).encode())
    if _STOP not in (message := pgconn.get_error_message()):
        raise SettingsError(message)
    try:
        found = {
            option.keyword.decode(): option.val.decode()
            for option in pgconn.info
            if option.val is not None
            and (
                option.val != option.compiled
                or option.keyword.decode() in given
                or (option.envvar or b"").decode() in os.environ
            )
        }
        int(float(found.get("connect_timeout", 0)))
    except UnicodeError:
        raise SettingsError("a setting of the connection is not UTF-8") from None
    except (ValueError, OverflowError):
        raise SettingsError(f"connect_timeout is not a number of seconds: {found['connect_timeout']}") from None
    return found


def _wrong_part(database_url: str) -> str:
    """Says which part libpq cannot parse, without quoting anything that may be part of a password."""
    scheme, _, rest = database_url.partition("://")
    if scheme not in {"postgresql", "postgres"}:
        if rest and re.fullmatch(r"[a-z][a-z0-9+.:-]{,40}", scheme, re.ASCII | re.IGNORECASE):
            return f"it begins with {scheme}:// instead of postgresql://"
        return (
            "it is neither like postgresql://USER:PASSWORD@HOST/DATABASE nor like host=HOST dbname=DATABASE, "
            "where a value with spaces has quotes"
        )
    if re.search(r"\s", rest):
        return "a space in it has to be %20"
    if re.search("%(?![0-9A-Fa-f]{2})", rest):
        return "a % in it, such as one of the password, has to be %25"
    query = rest.partition("?")[2]
    known = {option.keyword.decode() for option in Conninfo.get_defaults()}
    names = [] if "@" in query else [part.partition("=")[0] for part in query.split("&")]
    if unknown := [name for name in names if re.fullmatch(r"\w{1,63}", name, re.ASCII) and name not in known]:
        return f"libpq does not know its parameter {unknown[0]}; leave it out"
    return "a part of it is not UTF-8, or its brackets do not match"


def _hosts(found: dict[str, str]) -> list[_Host]:
    """Splits the lists. libpq has checked that they are equally long, except that one port may serve for all hosts."""
    names, addresses, ports = (found.get(name, "").split(",") for name in _LISTS)
    if len(ports) == 1:
        ports *= max(len(names), len(addresses))
    hosts = [_Host(*one) for one in zip_longest(names, addresses, ports, fillvalue="")]
    for host in hosts:
        if host.port and not (re.fullmatch(r"\s*\+?[0-9]{1,5}\s*", host.port) and 0 < int(host.port) < 1 << 16):
            raise SettingsError("a port is not a number from 1 to 65535")
        try:
            _ = host.has_one_address() or host.host.encode("idna")  # as Python does before it looks up a name
        except UnicodeError:
            raise SettingsError(f"{host.host!r} is not the name of a host") from None
    return hosts
