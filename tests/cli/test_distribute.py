"""`sepu db distribute` where there is no Citus; the rest is in tests/citus."""

import subprocess

from tests.serving import SEPU


def test_without_citus_it_says_so(database_url: str) -> None:
    done = subprocess.run(
        [SEPU, "db", "distribute", "--database-url", database_url], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "sepu: this database has no Citus; install it, and: create extension citus\n"
