"""What the log says of a database that does not answer: why, without a row or a password."""

import asyncio

import psycopg
import pytest

from sepu.database.hosts import Hosts
from sepu.metering.failure import report_failure
from sepu.metering.observer import LedgerObserver
from sepu.metering.session import SessionLost

ESCAPE = "a password in SEPU_DATABASE_URL or --database-url has to have @ as %40 and / as %2F"


def logged(caplog: pytest.LogCaptureFixture, error: Exception) -> str:
    report_failure(error, LedgerObserver())
    (record,) = caplog.records
    return record.getMessage()


@pytest.mark.parametrize(
    ("url", "cause"),
    [
        (
            "postgresql://sepu:s3cret@127.0.0.1:1/sepu",
            ': connection to server at "127.0.0.1", port 1 failed: Connection refused',
        ),
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
        # What was meant as a password's end is taken for the host, or for the port.
        ("postgresql://sepu:p@s3cret@nowhere.invalid/sepu", f": {ESCAPE}"),
        ("postgresql://127.0.0.1:s3cret/sepu", ": a port is not a number from 1 to 65535"),
    ],
)
def test_a_database_that_is_not_reached(caplog: pytest.LogCaptureFixture, url: str, cause: str) -> None:
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


@pytest.mark.parametrize("error", [SessionLost(), TimeoutError()])
def test_what_says_nothing_itself(caplog: pytest.LogCaptureFixture, error: Exception) -> None:
    assert " in time" in logged(caplog, error)


def test_an_unknown_text_is_not_told(caplog: pytest.LogCaptureFixture) -> None:
    assert logged(caplog, psycopg.OperationalError("s3cret")) == "ledger unavailable: OperationalError"
