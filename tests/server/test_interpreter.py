"""How Python was built: `sepu serve` warns of a slow build."""

import sysconfig

import pytest
from tests.harness.serving import serving

from sepu.server.interpreter import is_profiled

FLAG = "-fprofile-use -fprofile-correction"


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


def test_a_service_says_once_that_its_python_is_slow(database_url: str) -> None:
    with serving("uvloop", database_url, workers=2) as server:
        said = server.log.read_text().count("built without --enable-optimizations")
    assert said == (not is_profiled())
