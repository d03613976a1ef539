"""A client that a third party's generator makes from the OpenAPI document, driven against the running service."""

import asyncio
import importlib
import os
import sys
import sysconfig
import uuid
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from tests.client.conftest import where
from tests.openapi.document import PATH, answer, operations
from tests.processes import completed
from tests.serving import Server

from sepu.metering import accounts, keys

SCRIPTS = sysconfig.get_path("scripts")
PACKAGE = "generated_colors"


@pytest.fixture(scope="module")
def generated(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """The generated package, imported: nothing in it is edited."""
    directory = tmp_path_factory.mktemp("generated")
    done = completed(
        [
            Path(SCRIPTS) / "openapi-python-client",
            "generate",
            "--fail-on-warning",
            "--meta=none",
            f"--path={PATH}",
            f"--output-path={directory / PACKAGE}",
        ],
        env={**os.environ, "PATH": f"{SCRIPTS}:{os.environ['PATH']}"},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    sys.path.insert(0, str(directory))
    try:
        names = ["client", "models", "types", "api.account.get_usage"]
        names += [f"api.colors.{name}" for name in ("get_library", "match_colors", "search_colors")]
        yield SimpleNamespace(
            **{name.rpartition(".")[2]: importlib.import_module(f"{PACKAGE}.{name}") for name in names}
        )
    finally:
        sys.path.remove(str(directory))
        for name in [name for name in sys.modules if name.split(".")[0] == PACKAGE]:
            del sys.modules[name]


def connect(generated: Any, server: Server, api_key: str, kind: str = "sync") -> Any:
    at = where(server, kind)
    own = {"transport": at["transport"]()} if "transport" in at else {}
    return generated.client.AuthenticatedClient(at["base_url"], api_key, httpx_args=own)


@pytest.fixture
def client(generated: Any, server: Server, issued: accounts.IssuedKey) -> Iterator[Any]:
    with connect(generated, server, issued.api_key) as found:
        yield found


def colors(generated: Any, *channels: tuple[float, float, float]) -> Any:
    return generated.models.MatchRequest(colors=[generated.models.RGB(r, g, b) for r, g, b in channels], top=2)


def test_it_has_the_four_operations_and_no_other(generated: Any) -> None:
    home = Path(generated.client.__file__).parent / "api"
    made = {path.stem for path in home.rglob("*.py") if path.stem != "__init__"}
    assert made == {"get_library", "get_usage", "match_colors", "search_colors"}


def test_library_and_usage(generated: Any, client: Any, issued: accounts.IssuedKey) -> None:
    library = generated.get_library.sync(client=client)
    assert isinstance(library, generated.models.Library)
    assert (library.record_count, library.mode) == (161, "commercial")
    usage = generated.get_usage.sync(client=client)
    assert isinstance(usage, generated.models.UsageResponse)
    assert (usage.outcome, usage.account_id, usage.status) == ("ok", issued.account_id, "active")
    assert [(one.meter, one.limit, one.remaining) for one in usage.usage] == [
        ("color_match", 2000, 2000),
        ("color_search", 1000, 1000),
    ]


def test_a_match_and_its_replay(generated: Any, client: Any) -> None:
    body, key = colors(generated, (200, 60, 36.5), (0, 0, 0)), str(uuid.uuid4())
    first = generated.match_colors.sync_detailed(client=client, body=body, idempotency_key=key)
    assert first.status_code == 200
    assert isinstance(first.parsed, generated.models.MatchResponse)
    assert len(first.parsed.results) == 2
    nearest, second = first.parsed.results[0].matches
    assert (nearest.slug, nearest.name.zh, nearest.hex_, nearest.delta_e) == ("fei-hong", "绯红", "#C83C23", 0.352)
    assert (second.slug, second.reliability, second.similarity) == ("tuo-hong", "attributed", 0.963)
    assert first.parsed.results[0].input_.b == 36.5
    assert "idempotency-replayed" not in first.headers
    again = generated.match_colors.sync_detailed(client=client, body=body, idempotency_key=key)
    assert again.headers["idempotency-replayed"] == "true"
    assert again.content == first.content
    assert again.parsed == first.parsed
    assert again.headers["x-usage-committed"] == "2"


def test_a_search(generated: Any, client: Any) -> None:
    found = generated.search_colors.sync(client=client, q="桃红", limit=3, idempotency_key=str(uuid.uuid4()))
    assert isinstance(found, generated.models.SearchResponse)
    assert (found.count, [color.name.zh for color in found.results]) == (1, ["桃红"])
    unlimited = generated.search_colors.sync(client=client, q="hong", idempotency_key=str(uuid.uuid4()))
    assert unlimited.count == 10


def test_its_asynchronous_side(generated: Any, server: Server, issued: accounts.IssuedKey) -> None:
    async def ask() -> Any:
        async with connect(generated, server, issued.api_key, "async") as client:
            body = colors(generated, (200, 60, 35))
            return await generated.match_colors.asyncio(client=client, body=body, idempotency_key=str(uuid.uuid4()))

    assert asyncio.run(ask()).results[0].matches[0].slug == "fei-hong"


def test_errors(generated: Any, client: Any, server: Server, issued: accounts.IssuedKey) -> None:
    key = str(uuid.uuid4())
    for body, status, code in (
        (colors(generated, (256, 0, 0)), 422, "invalid_rgb"),
        (colors(generated, (1, 2, 3)), 200, None),
        (colors(generated, (3, 2, 1)), 409, "idempotency_conflict"),
    ):
        answer = generated.match_colors.sync_detailed(client=client, body=body, idempotency_key=key)
        assert answer.status_code == status
        if code:
            assert isinstance(answer.parsed, generated.models.Error)
            assert answer.parsed.error == code
            assert isinstance(answer.parsed.request_id, uuid.UUID)
            assert str(answer.parsed.request_id) == answer.headers["x-request-id"]
    with connect(generated, server, keys.new_key(issued.account_id)) as stranger:
        refused = generated.get_library.sync(client=stranger)
    assert isinstance(refused, generated.models.Error)
    assert refused.error == "unauthorized"


def test_errors_that_the_document_does_not_list(
    generated: Any, client: Any, server: Server, issued: accounts.IssuedKey
) -> None:
    if server.address.startswith("unix:"):
        pytest.skip("meinheld leaves these to the proxy in front of it")
    long, key = "a" * 9000, str(uuid.uuid4())
    refused = [(generated.search_colors.sync_detailed(client=client, q=long, idempotency_key=key), 414, "uri_too_long")]
    with connect(generated, server, issued.api_key).with_headers({"X-Long": long}) as wordy:
        body = colors(generated, (1, 2, 3))
        refused += [
            (one, 431, "headers_too_large")
            for one in (
                generated.get_library.sync_detailed(client=wordy),
                generated.get_usage.sync_detailed(client=wordy),
                generated.match_colors.sync_detailed(client=wordy, body=body, idempotency_key=key),
            )
        ]
    for one, status, code in refused:
        assert one.status_code == status
        assert isinstance(one.parsed, generated.models.Error)
        assert one.parsed.error == code
        assert str(one.parsed.request_id) == one.headers["x-request-id"]


def grown(value: Any) -> Any:
    """The same with a member more in each object."""
    if isinstance(value, list):
        return [grown(item) for item in value]
    return {**{name: grown(item) for name, item in value.items()}, "newMember": 1} if isinstance(value, dict) else value


def test_new_members_and_modes_of_an_answer_do_no_harm(generated: Any) -> None:
    answers = {path: grown(answer(operation)) for path, _, operation in operations()}
    answers["/v1/library"]["mode"] = "new"
    transport = httpx.MockTransport(lambda request: httpx.Response(200, json=answers[request.url.path]))
    client = generated.client.AuthenticatedClient("http://sepu", "key", httpx_args={"transport": transport})
    body, key = colors(generated, (1, 2, 3)), str(uuid.uuid4())
    assert {
        "/v1/match": generated.match_colors.sync(client=client, body=body, idempotency_key=key).to_dict(),
        "/v1/search": generated.search_colors.sync(client=client, q="hong", idempotency_key=key).to_dict(),
        "/v1/library": generated.get_library.sync(client=client).to_dict(),
        "/v1/usage": generated.get_usage.sync(client=client).to_dict(),
    } == answers
