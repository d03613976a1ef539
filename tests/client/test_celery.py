"""The client in the processes that Celery forks from one in which the client has made calls."""

import os
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.client.conftest import url_of
from tests.harness.processes import completed, running
from tests.harness.serving import Server

from sepu.admin.keys import IssuedKey

TASKS = """
import os

from celery import Celery

from sepu_client import Client

folders = {"data_folder_in": "messages", "data_folder_out": "messages", "control_folder": "control"}
app = Celery(broker="filesystem://", backend="file://results", broker_transport_options=folders)
client = Client(os.environ["SEPU_URL"], os.environ["SEPU_API_KEY"])
client.library()


@app.task(bind=True)
def charged(self):
    answer = client.match(["#C83C23"], idempotency_key=f"task-{self.request.id}")
    return os.getpid(), answer.idempotency_key == f"task-{self.request.id}", answer.usage.committed
"""
ASK = """
from celery import group
from tasks import charged
for answer in group([charged.s()] * 40).delay().get(timeout=60):
    print(*answer)
"""


@pytest.mark.slow
def test_workers_call_the_client_that_was_made_before_they_were_forked(
    tmp_path: Path, uvloop: Server, issued: IssuedKey
) -> None:
    for folder in ("messages", "control", "results"):
        (tmp_path / folder).mkdir()
    (tmp_path / "tasks.py").write_text(TASKS)
    worker = [sys.executable, "-m", "celery", "--app", "tasks", "worker", "--pool", "prefork", "--concurrency", "2"]
    options: dict[str, Any] = {
        "cwd": tmp_path,
        "env": os.environ | {"SEPU_URL": url_of(uvloop), "SEPU_API_KEY": issued.api_key},
    }
    with (
        (tmp_path / "log").open("w") as log,
        running([*worker, "--prefetch-multiplier", "1"], stdout=log, stderr=log, **options),
    ):
        done = completed([sys.executable, "-c", ASK], **options)
    assert done.returncode == 0, done.stderr
    pids, keys, committed = zip(*map(str.split, done.stdout.splitlines()), strict=True)
    assert len({*pids}) == 2
    assert {*keys} == {"True"}
    assert sorted(map(int, committed)) == [*range(1, 41)]
