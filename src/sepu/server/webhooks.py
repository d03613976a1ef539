"""Sends webhooks that are signed by the rules of Standard Webhooks."""

import asyncio
import re
from base64 import b64decode
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from http.cookiejar import CookieJar
from threading import Thread

import httpx2
import msgspec
from standardwebhooks.webhooks import Webhook

from sepu import limits
from sepu.admin.events import EndpointAnswer
from sepu.errors import SepuError
from sepu.outgoing import open_client

Send = Callable[[str, object], Future[EndpointAnswer]]

_PREFIX = b"whsec_"
_GONE = 410
# Each has its own connection: bytes after an answer would be read as the next message's answer.
_HEADERS = {"content-type": "application/json", "user-agent": "sepu", "connection": "close"}
# Forms of an instant (RFC 9110, 5.6.7): the one to send, and two obsolete ones that must still be read.
_INSTANTS = ("%a, %d %b %Y %H:%M:%S GMT", "%A, %d-%b-%y %H:%M:%S GMT", "%a %b %d %H:%M:%S %Y")


def read_secrets(given: bytes) -> list[Webhook]:
    """Reads secrets, one per line. Each of them signs, so that an endpoint can change to a new one.

    Raises:
        SepuError: there is none, or one has another form.
    """
    secrets = []
    for number, line in enumerate(given.split(), 1):
        try:
            key = b64decode(line.removeprefix(_PREFIX), validate=True)
        except ValueError:
            key = b""
        if not line.startswith(_PREFIX) or not 24 <= len(key) <= 64:
            raise SepuError(
                f"secret {number} is not {_PREFIX.decode()} and 24 to 64 bytes in base64 (see docs/events.md)"
            )
        secrets.append(Webhook(key))
    if not secrets:
        raise SepuError("there is no secret to sign with (see docs/events.md)")
    return secrets


class Endpoint:
    """Sends webhooks to one address. The address may contain a secret, so no error repeats it."""

    def __init__(self, url: str, secrets: Sequence[Webhook]) -> None:
        try:
            self._url = httpx2.URL(url)
        except httpx2.InvalidURL:
            self._url = httpx2.URL("")
        if self._url.scheme not in {"https", "http"} or not self._url.host:
            raise SepuError("the address of the endpoint is not like https://example.com/hooks")
        self._secrets = secrets

    @contextmanager
    def sending(self) -> Iterator[Send]:
        """Yields a function that sends a message and does not wait for its answer, which is given up at the end.

        It takes the message's id, which a repetition has too, and what its body is as JSON. It sends in a thread of its
        own, so that an answer is in time whatever the caller waits for. Its futures have an answer within
        `limits.webhooks.ANSWER_SECONDS`, and no exception.

        Raises:
            SepuError: a proxy or a certificate of the environment cannot be used.
        """
        client = open_client(cookies=_NoCookies())
        loop = asyncio.new_event_loop()
        thread = Thread(target=loop.run_forever, daemon=True)
        thread.start()
        try:
            yield lambda *message: asyncio.run_coroutine_threadsafe(self._send(client, *message), loop)
        finally:
            asyncio.run_coroutine_threadsafe(_give_up(client), loop).result()
            loop.call_soon_threadsafe(loop.stop)
            thread.join()
            loop.close()

    async def _send(self, client: httpx2.AsyncClient, message_id: str, body: object) -> EndpointAnswer:
        try:
            content = msgspec.json.encode(body)
            headers = {**_HEADERS, **self.headers(message_id, content)}
            async with (
                asyncio.timeout(limits.webhooks.ANSWER_SECONDS),
                client.stream("POST", self._url, content=content, headers=headers) as response,
            ):
                return _answer(response)  # nobody reads its body
        except TimeoutError:
            return EndpointAnswer("no answer in time")
        except Exception as error:  # the fault of one endpoint, which concerns no other message
            return EndpointAnswer(f"not reached: {type(error).__name__}")

    def headers(self, message_id: str, content: bytes) -> dict[str, str]:
        """Returns the headers by which the endpoint verifies a message: id, time, and a signature by each secret."""
        now = datetime.now(UTC)
        return {
            "webhook-id": message_id,
            "webhook-timestamp": str(int(now.timestamp())),
            "webhook-signature": " ".join(secret.sign(message_id, now, content.decode()) for secret in self._secrets),
        }


async def _give_up(client: httpx2.AsyncClient) -> None:
    if under_way := asyncio.all_tasks() - {asyncio.current_task()}:
        for task in under_way:
            task.cancel()
        await asyncio.wait(under_way)
    await client.aclose()


class _NoCookies(CookieJar):
    """Keeps no cookies, and does not read them."""

    def extract_cookies(self, response: object, request: object) -> None:
        """Reads nothing."""


def _answer(response: httpx2.Response) -> EndpointAnswer:
    status = response.status_code
    if response.is_success:
        return EndpointAnswer(status=status)
    wait = _seconds(response.headers.get("retry-after", ""))
    return EndpointAnswer(f"HTTP {status}", wait, final=status == _GONE, status=status)


def _seconds(retry_after: str) -> float:
    """Reads Retry-After (RFC 9110, 10.2.3): seconds, which may be infinite, or an instant."""
    if re.fullmatch("[0-9]+", retry_after):
        return float(retry_after)
    for form in _INSTANTS:
        with suppress(ValueError):
            at = datetime.strptime(retry_after, form).replace(tzinfo=UTC)
            return max(0.0, (at - datetime.now(UTC)).total_seconds())
    return 0.0
