"""Both clients against the real server, on every worker: results, errors, replays, and secrets."""

import asyncio
import logging
import traceback
from collections.abc import Callable
from typing import Any

import pytest
from tests.client.blocking import AnyClient
from tests.client.conftest import Opened, url_of
from tests.client.hostile import Peer, listening
from tests.harness.serving import Server

import sepu
from sepu.admin.keys import IssuedKey
from sepu_client import RGB, AsyncClient, Client, errors

SCARLET = (200, 60, 35)


def test_each_call(at_server: Opened, issued: IssuedKey) -> None:
    client = at_server(issued.api_key)
    answer = client.match([SCARLET, (12.5, 0, 255)], top=3)
    palette, records = sepu.load().palette(), sepu.load().records
    assert [result.input for result in answer.results] == [RGB(200, 60, 35), RGB(12.5, 0, 255)]
    for result in answer.results:
        nearest = palette.nearest(*result.input, 3)
        assert [(match.slug, match.delta_e) for match in result.matches] == [
            (records[place].slug, round(delta_e, 4)) for place, delta_e in nearest
        ]
    charged = answer.usage
    assert charged is not None
    assert (answer.replayed, charged.limit, charged.committed, charged.remaining) == (False, 2000, 2, 1998)
    found = client.search("桃 红 ", limit=3)
    assert (found.count, [color.name.zh for color in found.results]) == (1, ["桃红"])
    assert client.search("a&limit=1#/?+%41 ö").count == 0  # sent unchanged
    assert client.library().record_count == 161
    usage = client.usage()
    assert (usage.account_id, usage.plan_id, usage.status) == (issued.account_id, "standard", "active")
    assert [(meter.meter, meter.remaining) for meter in usage.usage] == [("color_match", 1998), ("color_search", 998)]


def test_the_key_is_shown_nowhere(
    at_server: Opened, server: Server, kind: str, issued: IssuedKey, caplog: pytest.LogCaptureFixture
) -> None:
    """Not in logs at any level, errors, their variables, or the client's repr."""
    api_key = issued.api_key
    secret = api_key.split("_")[2]
    shown: list[str] = []

    def fail(client: AnyClient) -> None:
        calls: list[Callable[[], object]] = [
            lambda: client.match([SCARLET], idempotency_key="of-a-search"),
            lambda: client.match([(1, 2, 3)], idempotency_key="of-a-match"),
        ]
        for call in calls:
            with pytest.raises(errors.Error) as raised:
                call()
            assert raised.value.__cause__ is None
            assert raised.value.__context__ is None
            whole = traceback.TracebackException.from_exception(raised.value, capture_locals=True)
            shown.extend([*whole.format(), repr(raised.value), repr(vars(raised.value))])

    with caplog.at_level(logging.DEBUG), listening("plain", [Peer.silence]) as deaf:
        client = at_server(api_key)
        client.search("hong", idempotency_key="of-a-search")
        client.match([SCARLET], idempotency_key="of-a-match")
        fail(client)
        fail(at_server(api_key + "x"))
        fail(at_server(api_key, base_url=deaf.url, timeout=0.1, deadline=0.5))
    real: type[Any] = Client if kind == "sync" else AsyncClient
    for wrong in ({"base_url": "ftp://x"}, {"base_url": "http://localhost", "api_key": f"{api_key}\n"}):
        with pytest.raises(ValueError, match="base URL|API key") as raised:
            real(**{"api_key": api_key, **wrong})
        own = raised.value.__traceback__
        assert own is not None
        whole = traceback.TracebackException(type(raised.value), raised.value, own.tb_next, capture_locals=True)
        shown.extend(whole.format())
    one = real(url_of(server), api_key)
    shown.extend([repr(one), str(one), repr(vars(one))])
    shown.extend([repr(vars(one._connections)), repr(one._requests), repr(one._route)])
    if isinstance(one, AsyncClient):
        asyncio.run(one.aclose())
    else:
        one.close()
    assert "sepu_client" in "".join(shown)
    assert "it is sent again" in caplog.text
    for text in [*shown, caplog.text]:
        assert secret not in text
