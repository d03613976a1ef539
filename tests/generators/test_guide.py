"""The guide tells what the tests do."""

import re

import pytest
from tests.generators.toolchains import OPTIONS, ROOT

GUIDE = re.sub(r" \\\n +", " ", (ROOT / "docs" / "integrate" / "generators.md").read_text("utf-8"))


@pytest.mark.parametrize("language", OPTIONS)
def test_it_has_the_options_that_are_tested(language: str) -> None:
    assert f" {' '.join(OPTIONS[language])}\n" in GUIDE
