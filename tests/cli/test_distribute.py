"""`sepu db distribute` where there is no Citus; the rest is in tests/citus."""

from tests.processes import completed
from tests.serving import SEPU


def test_without_citus_it_says_so(database_url: str) -> None:
    done = completed([SEPU, "db", "distribute", "--database-url", database_url])
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "sepu: this database has no Citus; install it, and: create extension citus\n"
