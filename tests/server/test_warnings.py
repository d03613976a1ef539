"""What `sepu serve` warns of at its start: a slow build of Python, and too few open files."""

import resource
import sysconfig
from pathlib import Path

import pytest
from tests.harness.processes import until
from tests.harness.serving import SEPU, serving

from sepu import limits
from sepu.server.interpreter import is_profiled

FLAG = "-fprofile-use -fprofile-correction"
NEEDED = limits.connections.OF_A_WORKER + 100


@pytest.mark.parametrize(
    ("arguments", "flag", "profiled"),
    [
        ("'--enable-shared' '--prefix=/usr/local'", FLAG, False),
        ("'--enable-optimizations' '--with-lto'", FLAG, True),
        ("'--enable-shared' '--prefix=/usr'", "", True),  # Debian's
        (None, None, True),  # nothing is known
    ],
)
def test_builds(monkeypatch: pytest.MonkeyPatch, arguments: str | None, flag: str | None, profiled: bool) -> None:
    variables = {"CONFIG_ARGS": arguments, "PGO_PROF_USE_FLAG": flag}
    monkeypatch.setattr(sysconfig, "get_config_var", variables.get)
    assert is_profiled() is profiled


@pytest.mark.parametrize(("soft", "hard", "warns"), [(256, 4096, False), (256, 512, True)])
def test_each_warning_comes_once_and_workers_take_the_files_that_they_need(
    database_url: str, soft: int, hard: int, warns: bool
) -> None:
    limited: list[str | Path] = ["sh", "-c", f'ulimit -Sn {soft} && ulimit -Hn {hard} && exec "$@"', "sh", SEPU]
    with serving("uvloop", database_url, workers=2, program=limited) as server:
        taken = [(min(NEEDED, hard), hard)] * 2
        until(lambda: [resource.prlimit(worker, resource.RLIMIT_NOFILE) for worker in server.workers()] == taken)
        log = server.log.read_text()
    places = limits.connections.OF_A_WORKER
    told = f"a worker needs {NEEDED} open files for {places} connections, and the system allows {hard}"
    assert log.count(told) == warns
    assert log.count("built without --enable-optimizations") == (not is_profiled())
