"""What users of other HTTP clients expect: options of one call, a hook for each attempt, a wrapped transport."""

import asyncio
import itertools
import pickle
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import copy, deepcopy
from typing import Any

import pytest
from tests.client.blocking import Open
from tests.client.hostile import ANSWER, ANSWERED, HEAD, REQUEST_ID, Peer, answering_each, listening, saying

from sepu_client import Answer, AsyncClient, Attempt, Client, NoAnswerError, Request, calls
from sepu_client.async_client import CONNECTIONS
from sepu_client.messages import release

KINDS: list[Any] = [Client, AsyncClient]
SECRET = "sepu_account_thesecret"
BUSY = saying(b"HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n")


def either(kind: str, send: Callable[[Request, Callable[[Request], Any]], Any]) -> Any:
    """A `send` function for this kind of client, of which `network` blocks."""

    async def send_async(request: Request, network: Callable[[Request], Any]) -> Any:
        loop = asyncio.get_running_loop()
        return await asyncio.to_thread(
            send, request, lambda one: asyncio.run_coroutine_threadsafe(network(one), loop).result()
        )

    return send if kind == "sync" else send_async


def test_a_client_with_other_options_uses_the_same_connections() -> None:
    seen: list[bytes] = []

    def answer(peer: Peer) -> None:
        while True:
            seen.append(peer.head())
            peer.send(HEAD + ANSWER)

    with listening("plain", [answer]) as peer, Client(peer.url, SECRET, headers={"a": "1", "b": "1"}) as client:
        client.library()
        other = client.with_options(timeout=1, deadline=2, headers={"a": "2"})
        other.library()
        client.with_options().library()
        client.with_options(headers={}).library()
        assert (other._timeout, other._deadline, client._timeout, client._deadline) == (1, 2, 10, 25)
        assert client.with_options(timeout=86400)._timeout == 86400
        for option, wrong in itertools.product(("timeout", "deadline"), (0, -1, float("nan"), 86400.001, "1")):
            with pytest.raises(ValueError, match=f"^{option} is more than 0 seconds"):
                client.with_options(**{option: wrong})  # type: ignore[arg-type]
        with pytest.raises(ValueError, match="^'Host' is not a header"):
            client.with_options(headers={"Host": "a"})
        other.close()
        with pytest.raises(NoAnswerError, match="the client is closed"):
            client.library()
    assert [(b"a: 1" in head, b"b: 1" in head, b"a: 2" in head) for head in seen] == [
        (True, True, False),
        (False, False, True),
        (True, True, False),
        (False, False, False),
    ]
    assert peer.connections == 1


def test_no_client_guesses_a_scale(open_client: Open) -> None:
    with open_client("http://127.0.0.1:9", SECRET, deadline=0.1) as client:
        for match in (client.match, client.match_many):
            with pytest.raises(ValueError, match="pass scale=1"):
                match([(0.8, 0.2, 0.1)])


def test_async_clients_of_one_have_their_turns_together() -> None:
    async def call(url: str) -> None:
        async with AsyncClient(url, SECRET, timeout=60, deadline=60) as client:
            other = client.with_options(timeout=50)
            calls = [(client, other)[number % 2].library() for number in range(3 * CONNECTIONS)]
            assert {answer.record_count for answer in await asyncio.gather(*calls)} == {161}

    with listening("plain", [answering_each]) as peer:
        asyncio.run(call(peer.url))
    assert peer.connections <= CONNECTIONS


def test_each_attempt_is_observed(open_client: Open) -> None:
    seen: list[Attempt] = []
    within = 0

    @contextmanager
    def observe(attempt: Attempt) -> Iterator[None]:
        nonlocal within
        assert (attempt.status, attempt.seconds, attempt.reason) == (None, 0, None)
        within += 1
        yield
        within -= 1
        seen.append(copy(attempt))  # as it is when the observer ends

    def headers() -> dict[str, str]:
        assert within == 1, "so that they can name the span of the attempt"
        return {}

    found = HEAD + b'{"datasetVersion":"1.0.0","results":[],"count":0}'.ljust(len(ANSWER))
    answers = iter([BUSY, Peer.reset, saying(found)])
    with (
        listening("plain", [Peer.request, lambda peer: next(answers)(peer)]) as peer,
        open_client(peer.url + "/prefix", SECRET, observe=observe, headers=headers) as client,
    ):
        client.search("hong")
    assert within == 0
    assert [(one.method, one.path, one.number, one.status, one.request_id) for one in seen] == [
        ("GET", "/v1/search", 1, 503, None),
        ("GET", "/v1/search", 2, None, None),
        ("GET", "/v1/search", 3, 200, REQUEST_ID),
    ]
    assert [bool(one.reason) for one in seen] == [False, True, False]
    assert all(0 < one.seconds < 20 for one in seen)
    assert "thesecret" not in repr(seen)


def test_an_observer_that_fails_reaches_the_caller(open_client: Open) -> None:
    def observe(_: Attempt) -> Any:
        raise LookupError("no tracer")

    with (
        open_client("http://127.0.0.1:9", SECRET, observe=observe) as client,
        pytest.raises(LookupError, match="no tracer"),
    ):
        client.search("hong")


def test_a_function_can_wrap_the_network(open_client: Open, kind: str) -> None:
    """Its errors are those of the network, and what it raises after an answer counts as a lost answer."""
    seen: list[object] = []

    def send(request: Request, network: Callable[[Request], Answer]) -> Answer:
        try:
            answer = network(request)
        except ConnectionError as error:
            seen.append(str(error))
            raise
        seen.append(answer.status)
        if seen == [503, 200]:
            raise TimeoutError
        return answer

    answers = iter([BUSY, ANSWERED, ANSWERED])
    with (
        listening("plain", [Peer.request, lambda peer: next(answers)(peer)]) as peer,
        open_client(peer.url, SECRET, send=either(kind, send)) as client,
    ):
        assert client.library().record_count == 161
    assert seen == [503, 200, 200]
    assert peer.connections == 3  # each has one step
    with (
        listening("plain", [Peer.some, BUSY]) as peer,
        open_client(peer.url.replace("http:", "https:"), SECRET, send=either(kind, send)) as client,
        pytest.raises(NoAnswerError, match="WRONG_VERSION") as raised,
    ):
        client.search("hong")
    assert (raised.value.may_be_charged, raised.value.retryable) == (False, False)
    assert "WRONG_VERSION" in str(seen[-1])


@pytest.mark.parametrize("failure", [ConnectionError, TimeoutError])
def test_what_a_function_raises_is_not_quoted(
    open_client: Open, kind: str, failure: type[OSError], caplog: pytest.LogCaptureFixture
) -> None:
    """It may quote a secret of theirs."""
    caplog.set_level(0)

    def send(_request: Request, _network: object) -> Answer:
        raise failure("cannot reach http://user:thesecret@proxy")

    with (
        open_client("http://localhost", SECRET, send=either(kind, send), deadline=0.5) as client,
        pytest.raises(NoAnswerError) as raised,
    ):
        client.search("hong")
    assert caplog.records, "its retries are logged"
    assert "thesecret" not in f"{raised.value} {raised.value!r} {caplog.text}"
    assert isinstance(raised.value.__cause__, failure)
    assert raised.value.may_be_charged


@pytest.mark.parametrize(("name", "shown"), [("", ""), ("shop", " shop"), ("my-shop/1.2+a", " my-shop/1.2+a")])
def test_an_application_is_named_in_the_user_agent(name: str, shown: str) -> None:
    heads: list[bytes] = []
    with (
        listening("plain", [lambda peer: heads.append(peer.head()), ANSWERED]) as peer,
        Client(peer.url, SECRET, app_name=name) as client,
    ):
        client.library()
    assert f"\r\nUser-Agent: sepu-client/{release()}{shown}\r\n".encode() in heads[0]


@pytest.mark.parametrize("name", ["a b", "a\r\nb: c", "a/b/c", "/1", "ä", "a" * 65, 5])
@pytest.mark.parametrize("kind", KINDS)
def test_an_application_has_the_name_of_a_product(kind: Any, name: Any) -> None:
    with pytest.raises(ValueError, match="^app_name is not"):
        kind("http://localhost", SECRET, app_name=name)


@pytest.mark.parametrize("kind", KINDS)
def test_a_client_is_not_copied_and_no_pickle_has_the_key(kind: Any) -> None:
    client = kind("http://localhost", SECRET)
    for duplicate in (pickle.dumps, copy, deepcopy):
        with pytest.raises(TypeError, match="^a client has connections and the API key, and cannot be pickled"):
            duplicate(client)
    request = client._requests.of(calls.library(), 1)
    with pytest.raises(TypeError, match="^the API key cannot be pickled"):
        pickle.dumps(request)
