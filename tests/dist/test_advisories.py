"""What `make advisories` says of the embedded Postgres, and of what cannot be asked."""

import json
from typing import Any
from urllib.parse import quote

import pytest
from tools import advisories
from tools.advisories import embedded_version

MAJOR, _ = embedded_version().split(".")


def released(**latest: Any) -> str:
    return "data:," + quote(json.dumps([{"major": "9", "supported": False}, {"major": MAJOR, **latest}]))


@pytest.mark.parametrize(
    ("versions", "told"),
    [
        (released(latestMinor="99", supported=True), f"lacks the fixes of {MAJOR}.99"),
        (released(latestMinor="0", supported=False), "is not supported any more"),
        ("data:,[]", "is not supported any more"),
        ("data:,{}{", "cannot be read"),
        (released(supported=True), "cannot be read"),
        ("http://127.0.0.1:9/", "cannot be read"),
    ],
)
def test_the_embedded_postgres(versions: str, told: str) -> None:
    with pytest.raises(advisories.AdvisoryError, match=told):
        advisories.postgres(versions)


def test_the_latest_embedded_postgres() -> None:
    advisories.postgres(released(latestMinor="0", supported=True))


def test_what_cannot_be_asked_fails_and_the_rest_is_asked(capsys: pytest.CaptureFixture[str]) -> None:
    def silent() -> None:
        raise advisories.AdvisoryError("it does not answer")

    def clean() -> None:
        pass

    with pytest.raises(SystemExit) as ended:
        advisories.main([silent, clean])
    assert ended.value.code == 1
    said = capsys.readouterr()
    assert said.err == "sepu: advisories: silent: it does not answer\n"
    assert said.out == "sepu: advisories: clean: nothing is known\n"
