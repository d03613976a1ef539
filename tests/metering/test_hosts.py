"""How a database's hosts are found, and what the log says of one that does not answer: the reason, but no secret."""

import asyncio
import os
import re
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import psycopg
import pytest
from psycopg import Connection
from psycopg.conninfo import conninfo_to_dict
from psycopg.pq import DiagnosticField
from tests.client.hostile import dropping
from tests.harness.serving import free_port

from sepu import limits
from sepu.database.hosts import Hosts, SettingsError
from sepu.database.opening import DatabaseError, connect, database
from sepu.metering.failure import report_failure
from sepu.metering.observer import LedgerObserver
from sepu.metering.session import SessionLost


@pytest.fixture(autouse=True)
def service(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The service file, without other settings in the environment."""
    for name in [name for name in os.environ if name.startswith("PG")]:
        monkeypatch.delenv(name)
    file = tmp_path / "service.conf"
    monkeypatch.setenv("PGSERVICEFILE", str(file))
    return file


def settings(url: str, *, operator: bool = False) -> dict[str, str]:
    return {name: str(value) for name, value in conninfo_to_dict(Hosts(url, operator=operator).conninfo()).items()}


def test_the_hosts_of_a_service_are_named_and_its_settings_respected(service: Path) -> None:
    service.write_text(
        "[sepu]\nhost=a,b\nport=1,2\npassword=secret\nconnect_timeout=7\napplication_name=shop\n"
        "target_session_attrs=primary\nkeepalives_idle=11\ntcp_user_timeout=900\nload_balance_hosts=random\n"
        "client_encoding=LATIN1\n"
    )
    assert settings("postgresql:///?service=sepu") == {
        "service": "sepu",
        "client_encoding": "UTF8",
        "host": "a,b",
        "port": "1,2",
        "connect_timeout": "7",
        "target_session_attrs": "primary",
        "load_balance_hosts": "random",
    }  # libpq reads the rest itself, the password too


@pytest.mark.parametrize("operator", [False, True])
def test_what_is_not_set_is_limited_and_several_hosts_have_to_take_writes(operator: bool) -> None:
    found = settings("postgresql://a,b/", operator=operator)
    assert found["connect_timeout"] == str(limits.database.CONNECT_SECONDS)
    seconds = limits.database.OPERATOR_SILENT_SECONDS if operator else limits.database.CONNECT_SECONDS
    assert found["tcp_user_timeout"] == str(1000 * seconds), "libpq counts milliseconds"
    assert found["target_session_attrs"] == "read-write"
    assert found["application_name"] == "sepu"
    for hosts in ("host=a,b", "hostaddr=10.0.0.1,10.0.0.2"):
        assert settings(f"postgresql:///?port=6432&{hosts}", operator=operator)["port"] == "6432,6432"
    # Only an operator may look at a standby, and waits longer for a single host.
    alone = settings("postgresql://a/", operator=operator)
    assert (alone["target_session_attrs"] == "any") is operator
    assert (alone["connect_timeout"] == str(limits.database.OPERATOR_CONNECT_SECONDS)) is operator


@pytest.mark.parametrize("host", ["/tmp", "10.0.0.1", "10.0.0.1&connect_timeout=7", "10.0.0.1,10.0.0.2", "a"])
def test_only_a_single_address_without_a_timeout_gets_no_longer_than_a_call(host: str) -> None:
    limit = limits.database.QUEUE_SECONDS if host in {"/tmp", "10.0.0.1"} else None
    assert Hosts(f"postgresql:///?host={host}")._resolve()[1] == limit


def test_the_environment_is_respected_and_a_service_goes_before_it(
    service: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    named = {"HOST": "a,b", "PORT": "1,2", "CONNECT_TIMEOUT": "7", "APPNAME": "shop", "TARGETSESSIONATTRS": "any"}
    for name, value in named.items():
        monkeypatch.setenv(f"PG{name}", value)
    found = settings("postgresql://")
    assert (found["host"], found["port"], found["connect_timeout"]) == ("a,b", "1,2", "7")
    assert found["target_session_attrs"] == "any"
    assert "application_name" not in found
    service.write_text("[sepu]\nhost=c,d\n")
    monkeypatch.setenv("PGSERVICE", "sepu")
    monkeypatch.setenv("PGHOSTADDR", "10.0.0.1,10.0.0.2")
    found = settings("postgresql://")
    assert (found["host"], found["hostaddr"]) == ("c,d", "10.0.0.1,10.0.0.2")


@pytest.mark.parametrize("kind", ["connect", "connect_async"])
def test_the_host_that_answered_last_is_tried_first(database_url: str, kind: str) -> None:
    good = str(conninfo_to_dict(database_url)["host"])
    hosts = Hosts(f"postgresql://sepu@/postgres?host=127.0.0.1,{good}&port={free_port()},5432")

    async def connected() -> None:
        await (await hosts.connect_async()).close()

    if kind == "connect":
        hosts.connect(Connection).close()
    else:
        asyncio.run(connected())
    found = conninfo_to_dict(hosts.conninfo())
    assert str(found["host"]).split(",") == [good, "127.0.0.1"]
    assert str(found["port"]).split(",")[0] == "5432"
    hosts._url, hosts._answered = "postgresql:///?hostaddr=127.0.0.1,127.0.0.2&port=1", ("127.0.0.2", "1")
    assert conninfo_to_dict(hosts.conninfo())["hostaddr"] == "127.0.0.2,127.0.0.1"


@contextmanager
def silent() -> Iterator[int]:
    """The port of a listener that accepts connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield listener.getsockname()[1]


@pytest.mark.slow
@pytest.mark.parametrize("dead", [silent, dropping])
def test_a_host_that_says_nothing_takes_no_time_of_the_next(
    database_url: str, dead: Callable[[], AbstractContextManager[int]]
) -> None:
    """For commands and for the service. Connected sessions have their own statement time-outs."""
    good = conninfo_to_dict(database_url)["host"]
    with dead() as port, asyncio.Runner() as runner:
        url = f"postgresql://sepu@/postgres?host=127.0.0.1,{good}&port={port},5432"
        began = time.monotonic()
        connect(url).close()
        runner.run(runner.run(Hosts(url).connect_async()).close())
    assert time.monotonic() - began < 20


@pytest.mark.parametrize(
    ("url", "named"),
    [
        ("postgresql:///?service=missing", 'definition of service "missing" not found'),
        ("postgresql:///?service=broken", "syntax error in service file"),
        ("postgresql://a,b:1,c:2/?port=1,2", "port"),
        ("postgresql://a:1x/", "port"),
        ("postgresql://a/?connect_timeout=soon", "connect_timeout"),
        ("postgresql://a..b/", "'a..b' is not the name of a host"),
        ("postgresql://a/?application_name=%ff", "not a connection string"),
        ("postgresql://a/?passwrod=s3cret", "libpq does not know its parameter passwrod; leave it out"),
        ("postgresql://sepu:s3cret@a/b?sslmode=require&pgbouncer=true", "its parameter pgbouncer; leave it out"),
        ("postgresql+psycopg://sepu:s3cret@a/", "it begins with postgresql+psycopg:// instead of postgresql://"),
        ("jdbc:postgresql://a/b?password=s3cret", "it begins with jdbc:postgresql:// instead of postgresql://"),
        ("postgresql://sepu:s3cret%@a/", "a % in it, such as one of the password, has to be %25"),
        ("postgresql://sepu:50%s3cret@a/", "has to be %25"),
        ("postgresql://sepu:my s3cret@a/", "a space in it has to be %20"),
        ("postgresql://sepu:p@ss?s3cret=1@a/", "not a connection string: a part of it"),
        ("postgresql://sepu:s3cret@[::1/", "its brackets do not match"),
        ("s3cret", "it is neither like postgresql://USER:PASSWORD@HOST/DATABASE nor like host=HOST"),
        ("host=a password=my s3cret=1", "where a value with spaces has quotes"),
        ("postgresql://sepu:s3cret@s3cret@a/", "%40"),
        ("postgresql://sepu:s3cret/s3cret@a/", "%40"),
        ("postgresql://a/?connect_timeout=inf", "connect_timeout"),
    ],
)
def test_an_error_names_what_is_wrong_and_no_secret(url: str, named: str, service: Path) -> None:
    service.write_text("[broken]\nnonsense\n")
    with pytest.raises(SettingsError, match=re.escape(named)) as raised:
        Hosts(url).conninfo()
    assert "s3cret" not in str(raised.value)
    with pytest.raises(DatabaseError, match=re.escape(named)):
        connect(url)


@pytest.mark.parametrize("url", ["postgresql://u@a/b@c", "postgresql://u@/?host=%2Ftmp%2Fa@b", "host=/tmp/a@b"])
def test_an_at_sign_elsewhere_is_none_of_a_password(url: str) -> None:
    assert "@" in Hosts(url).conninfo()


def test_a_service_file_may_be_where_libpq_looks_and_no_pipe(service: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patched:
        patched.delenv("PGSERVICEFILE")
        patched.setenv("PGSYSCONFDIR", str(service.parent))
        (service.parent / "pg_service.conf").write_text("[sepu]\nhost=a,b\n")
        assert settings("service=sepu")["host"] == "a,b"
    os.mkfifo(service)
    for url in ("postgresql:///?service=sepu", "postgresql://"):
        with pytest.raises(SettingsError, match="PGSERVICEFILE"):
            Hosts(url).conninfo()
        monkeypatch.setenv("PGSERVICE", "sepu")


def test_no_command_waits_for_a_locked_schema(own_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sepu.database.opening._SCHEMA_SECONDS", 0.3)
    with connect(own_url) as holder:
        holder.execute("set idle_in_transaction_session_timeout = '5s'; begin; lock table sepu.migration")
        with pytest.raises(DatabaseError, match="cannot be reached"), database(own_url, tmp_path):
            pass


ESCAPE = "a password in SEPU_DATABASE_URL or --database-url must have @ as %40 and / as %2F"


def logged(caplog: pytest.LogCaptureFixture, error: Exception) -> str:
    report_failure(error, LedgerObserver())
    (record,) = caplog.records
    return record.getMessage()


@pytest.mark.parametrize(
    ("url", "cause"),
    [
        (
            "postgresql://sepu:s3cret@127.0.0.1:1,127.0.0.1:2/sepu",
            ': connection to server at "127.0.0.1", port 2 failed: Connection refused'
            '; connection to server at "127.0.0.1", port 1 failed: Connection refused',
        ),
        (
            "postgresql://sepu:s3cret@/sepu?host=/nowhere",
            ': connection to server on socket "/nowhere/.s.PGSQL.5432" failed: No such file or directory',
        ),
        ("postgresql:///?service=nowhere&password=s3cret", ': definition of service "nowhere" not found'),
        # The end of an unescaped password is taken for the host, or for the port.
        ("postgresql://sepu:p@s3cret@nowhere.invalid/sepu", f": {ESCAPE}"),
        ("postgresql://127.0.0.1:s3cret/sepu", ": a port is not a number from 1 to 65535"),
    ],
)
def test_a_database_that_is_not_reached(caplog: pytest.LogCaptureFixture, service: Path, url: str, cause: str) -> None:
    service.touch()
    with pytest.raises(psycopg.OperationalError) as raised:
        asyncio.run(Hosts(url).connect_async())
    told = logged(caplog, raised.value)
    assert told == f"ledger unavailable: {type(raised.value).__name__}{cause}"
    assert "s3cret" not in told


def test_a_server_may_quote_a_row(caplog: pytest.LogCaptureFixture, database_url: str) -> None:
    with psycopg.connect(database_url) as connection, pytest.raises(psycopg.DataError) as raised:
        connection.execute("select 's3cret'::text::int")
    assert "s3cret" in str(raised.value)
    assert logged(caplog, raised.value) == "ledger unavailable: InvalidTextRepresentation 22P02"


@pytest.mark.parametrize(
    ("message", "cause"),
    [('invalid input: "s3cret"', ""), ("fsync is off instead of on", ": fsync is off instead of on")],
)
def test_a_node_of_a_cluster_is_named_and_its_settings_but_no_row(
    caplog: pytest.LogCaptureFixture, message: str, cause: str
) -> None:
    info: dict[int, bytes | None] = {DiagnosticField.CONTEXT: b"while executing command on w1:5432"}
    info[DiagnosticField.MESSAGE_PRIMARY] = message.encode()
    error = psycopg.errors.InvalidTextRepresentation(message, info=info)
    assert logged(caplog, error) == f"ledger unavailable: InvalidTextRepresentation 22P02 on w1:5432{cause}"


UNRESOLVED = "failed to resolve host '%s': Name or service not known"
CAUSES: dict[Exception, str] = {
    SessionLost(): "the server",
    TimeoutError(): "could not connect",
    psycopg.OperationalError(UNRESOLVED % "sepu.invalid"): UNRESOLVED % "sepu.invalid",
}


@pytest.mark.parametrize(("error", "cause"), CAUSES.items())
def test_what_is_no_secret_is_told(caplog: pytest.LogCaptureFixture, error: Exception, cause: str) -> None:
    assert f": {cause}" in logged(caplog, error)


@pytest.mark.parametrize("text", ["s3cret", UNRESOLVED % "s3cret@sepu.invalid"])
def test_an_unknown_text_is_not_told(caplog: pytest.LogCaptureFixture, text: str) -> None:
    assert logged(caplog, psycopg.OperationalError(text)) == "ledger unavailable: OperationalError"
