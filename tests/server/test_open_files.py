"""Open files: the service raises its limit as far as it needs, and warns if the system does not allow that."""

import resource
from pathlib import Path

import pytest
from tests.harness.serving import SEPU, serving

from sepu import limits

NEEDED = limits.connections.OF_A_WORKER + 100


@pytest.mark.parametrize(("soft", "hard", "warns"), [(256, 4096, False), (256, 512, True)])
def test_a_worker_takes_the_files_that_it_needs_or_says_what_to_allow(
    database_url: str, soft: int, hard: int, warns: bool
) -> None:
    limited: list[str | Path] = ["sh", "-c", f'ulimit -Sn {soft} && ulimit -Hn {hard} && exec "$@"', "sh", SEPU]
    with serving("uvloop", database_url, workers=1, program=limited) as server:
        (worker,) = server.workers()
        assert resource.prlimit(worker, resource.RLIMIT_NOFILE) == (min(NEEDED, hard), hard)
        places = limits.connections.OF_A_WORKER
        told = f"a worker needs {NEEDED} open files for {places} connections, and the system allows {hard}"
        assert (told in server.log.read_text()) is warns
