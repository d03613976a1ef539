"""What the walk needs to know of the pages is so; `make walk` walks."""

import re

import pytest
from tests.walk.__main__ import BEFORE, LEFT_OUT, PAGES, READ_AS, steps
from tests.walk.pages import commands

pytestmark = pytest.mark.slow

FOUND = [command for page in PAGES for command in commands(page)]


def test_commands_are_whole() -> None:
    assert all(list(commands(page)) for page in PAGES)
    assert any("<<'SQL'" in command and command.endswith("\nSQL") for command in FOUND)
    assert any(command.startswith("for role") and command.endswith("psql --quiet") for command in FOUND)


def test_every_exception_is_of_a_command() -> None:
    starts = [*BEFORE, *LEFT_OUT]
    assert [start for start in starts if not any(command.startswith(start) for command in FOUND)] == []
    assert [pattern for pattern, _ in READ_AS if not any(re.search(pattern, command) for command in FOUND)] == []


def test_no_name_of_the_pages_is_left_in_a_command() -> None:
    walked = [command for page in PAGES for _, command in steps(page)]
    assert [command for command in walked if re.search(r"…|\$\$|(?<!\$)\b(ACCOUNT|PLAN|KEYID)\b", command)] == []
