"""What a real server imports: not what only builds the release."""

import re

import pytest
from tests.serving import EACH_WORKER, serving

BUILDERS = {"sepu._index_builder", "sepu.library.build", "sepu.library.facts", "sepu.library.reliability"}


@pytest.mark.parametrize("worker", EACH_WORKER)
def test_serving_imports_no_builder(service_url: str, worker: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPROFILEIMPORTTIME", "1")  # makes Python log each import of each process
    with serving(worker, service_url, workers=1) as server:
        assert server.request("GET", "/v1/library").status == 401
        imported = set(re.findall(r"^import time:.*\| +(\S+)$", server.log.read_text(), re.MULTILINE))
    assert {"sepu._palette", "sepu._names", "sepu.library.release"} <= imported
    assert not BUILDERS & imported
