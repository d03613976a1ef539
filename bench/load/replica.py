"""The embedded Postgres with a synchronous standby on the same machine, and what both hold in the end."""

import asyncio
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import psycopg
from bench.load.stage import EMPTY, Cluster
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from tests.harness.accounts import SPENT_NUMBER, account_id
from tests.harness.injection import start, stop_at_once
from tests.harness.standby import await_replay, make_synchronous, standby_of, until_replicated

from sepu.admin.audit import audit
from sepu.database.opening import connect

_CONNECTIONS = 300  # pgbench's, the nodes', and ours


@contextmanager
def replicated(made: Cluster, accounts: int) -> Iterator[tuple[str, str]]:
    """Adds a standby that each commit waits for; yields the URLs of the service's role, and of the standby."""
    primary_dir = Path(str(conninfo_to_dict(made.url)["host"])).parent
    with connect(made.url) as root:
        root.execute(f"alter system set max_connections = {_CONNECTIONS}".encode())
    asyncio.run(stop_at_once(primary_dir))
    start(primary_dir)
    url = made.make_empty(accounts)
    with standby_of(primary_dir) as (_, standby_url):
        with connect(made.url) as primary, connect(standby_url) as standby:
            make_synchronous(primary, standby)
        try:
            until_replicated(made.url, standby_url)
            yield url, make_conninfo(standby_url, dbname=EMPTY)
        finally:  # or the next commit would wait for ever
            with connect(made.url) as primary:
                primary.execute("alter system reset synchronous_standby_names")
                primary.execute("select pg_reload_conf()")


def wrong(owner: psycopg.Connection, standby_url: str, answered: Mapping[str, int]) -> dict[str, int]:
    """Counts faults in both; `answered` has the number of answered keys of each run."""

    def of(connection: psycopg.Connection, query: str, *values: str) -> int:
        ((count,),) = connection.execute(query.encode(), values).fetchall()
        return int(count)

    stored = "select count(*) from sepu.stored_result where idempotency_key like %s"
    with connect(standby_url) as standby:
        await_replay(owner, standby)
        missing = [least - of(one, stored, f"{run}-%") for one in (owner, standby) for run, least in answered.items()]
    deadlocks = of(owner, "select deadlocks from pg_stat_database where datname = current_database()")
    spent = account_id(SPENT_NUMBER)  # its usage was made without results
    doubled = sum(difference.account_id != spent for difference in audit(owner).differences)
    return {"lost": sum(max(0, count) for count in missing), "doubled": doubled, "deadlocks": deadlocks}
