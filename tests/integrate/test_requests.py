"""The Postman collection and the .http file, sent to a real service by newman and httpyac."""

import json
from pathlib import Path
from typing import Any

import pytest
from tests.harness.processes import completed
from tests.harness.serving import Server
from tests.openapi.document import DOCUMENT, answer, operations
from tests.programs import node_program
from tools.site.samples import COLLECTION, HTTP_FILE, collection, http_file

from sepu.admin.keys import IssuedKey

pytestmark = pytest.mark.slow

SUMMARIES = [operation["summary"] for _, _, operation in operations()]


def committed(uvloop: Server, issued: IssuedKey) -> list[int]:
    usage = uvloop.request("GET", "/v1/usage", {"Authorization": f"Bearer {issued.api_key}"}).json["usage"]
    return [meter["committed"] for meter in usage]


@pytest.fixture
def sent_by_newman(uvloop: Server, issued: IssuedKey, tmp_path: Path) -> dict[str, Any]:
    (tmp_path / COLLECTION).write_text(json.dumps(collection(DOCUMENT)), "utf-8")
    variables = {"baseUrl": f"http://{uvloop.address}", "apiKey": issued.api_key}
    given = [text for name, value in variables.items() for text in ("--env-var", f"{name}={value}")]
    report = tmp_path / "report.json"
    done = completed(
        [node_program("newman"), "run", tmp_path / COLLECTION, *given, "-r", "json", "--reporter-json-export", report]
    )
    assert done.returncode == 0, done.stdout + done.stderr + report.read_text("utf-8")
    found: dict[str, Any] = json.loads(report.read_text("utf-8"))["run"]
    return found


def test_the_collection_sends_each_operation_and_a_replay(
    sent_by_newman: dict[str, Any], uvloop: Server, issued: IssuedKey
) -> None:
    sent = sent_by_newman["executions"]
    match, replay, *others = SUMMARIES[0], f"{SUMMARIES[0]}: the same again, replayed", *SUMMARIES[1:]
    assert [one["item"]["name"] for one in sent] == [match, replay, *others]
    bodies = [json.loads(bytes(one["response"]["stream"]["data"])) for one in sent]
    wanted = [answer(operation) for _, _, operation in operations()]
    assert bodies[:4] == [wanted[0], wanted[0], *wanted[1:3]]
    assert {one["response"]["code"] for one in sent} == {200}
    assert sent_by_newman["stats"]["assertions"] == {"total": 8, "pending": 0, "failed": 0}
    first, again, other = (
        header["value"] for one in sent for header in one["request"]["header"] if header["key"] == "Idempotency-Key"
    )
    assert first == again != other
    assert committed(uvloop, issued) == [1, 1]


def test_the_http_file_charges_once_however_often_it_is_sent(uvloop: Server, issued: IssuedKey, tmp_path: Path) -> None:
    text = http_file(DOCUMENT).replace("@baseUrl = http://127.0.0.1:8000\n", f"@baseUrl = http://{uvloop.address}\n")
    file = tmp_path / HTTP_FILE
    file.write_text(text, "utf-8")
    for _ in range(2):
        done = completed(
            [node_program("httpyac"), "send", file, "--all", "--json", "--var", f"apiKey={issued.api_key}"],
            cwd=tmp_path,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        sent = json.loads(done.stdout)["requests"]
        assert [one["response"]["statusCode"] for one in sent] == [200] * 4
        assert committed(uvloop, issued) == [1, 1]
    bodies = [json.loads(one["response"]["body"]) for one in sent]
    assert bodies[:3] == [answer(operation) for _, _, operation in operations()][:3]
