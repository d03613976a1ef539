"""Sends webhooks, signed by the rules of Standard Webhooks."""

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
# Each message has its own connection: otherwise bytes after an answer would be read as the next message's answer.
_HEADERS = {"content-type": "application/json", "user-agent": "sepu", "connection": "close"}
# Date formats (RFC 9110, 5.6.7): the one that senders use, and two obsolete ones that recipients must accept.
_INSTANTS = ("%a, %d %b %Y %H:%M:%S GMT", "%A, %d-%b-%y %H:%M:%S GMT", "%a %b %d %H:%M:%S %Y")


def read_secrets(given: bytes) -> list[Webhook]:
    """Reads secrets, one per line. All of them sign each message, so that an endpoint can change to a new one.

    Raises:
        SepuError: there is none, or one is malformed.
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
        """Yields a function that sends a message and returns a future; messages unanswered at the end are cancelled.

        The function takes the message's id, which stays the same in a retry, and the body before JSON encoding. It
        sends in its own thread, so that the caller's waits delay no answer. Its futures have an answer within
        `limits.webhooks.ANSWER_SECONDS`, and no exception.

        Raises:
            SepuError: a proxy or certificate set in the environment cannot be used.
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
        except Exception as error:  # one endpoint's fault must not affect other messages
            return EndpointAnswer(f"not reached: {type(error).__name__}")

    def headers(self, message_id: str, content: bytes) -> dict[str, str]:
        """Returns the headers with which the endpoint verifies a message: id, time, and a signature by each secret."""
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
    """Neither reads nor keeps cookies."""

    def extract_cookies(self, response: object, request: object) -> None:
        """Reads nothing."""


def _answer(response: httpx2.Response) -> EndpointAnswer:
    status = response.status_code
    if response.is_success:
        return EndpointAnswer(status=status)
    wait = _seconds(response.headers.get("retry-after", ""))
    return EndpointAnswer(f"HTTP {status}", wait, final=status == _GONE, status=status)


def _seconds(retry_after: str) -> float:
    """Reads Retry-After (RFC 9110, 10.2.3): seconds, which may be infinite, or a date."""
    if re.fullmatch("[0-9]+", retry_after):
        return float(retry_after)
    for form in _INSTANTS:
        with suppress(ValueError):
            at = datetime.strptime(retry_after, form).replace(tzinfo=UTC)
            return max(0.0, (at - datetime.now(UTC)).total_seconds())
    return 0.0
