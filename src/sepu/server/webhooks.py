"""Sends webhooks that are signed by the rules of Standard Webhooks."""

import asyncio
import re
from base64 import b64decode
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

import httpx
from standardwebhooks.webhooks import Webhook

from sepu import limits
from sepu.errors import SepuError

_PREFIX = b"whsec_"
_GONE = 410


@dataclass(frozen=True, slots=True)
class Message:
    """What is sent: the same id each time."""

    message_id: str
    body: bytes


@dataclass(frozen=True, slots=True)
class Answer:
    """What an endpoint answered; without an error it has taken the message."""

    error: str | None
    retry_after: float = 0
    """Seconds that it asked for."""
    final: bool = False
    """It is gone, and wants no messages any more."""


def read_secrets(given: bytes) -> list[Webhook]:
    """Reads secrets, one a line. Each signs, so that an endpoint can change to a new one.

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
    """Where webhooks go. Its address may hold a secret, so no error repeats it."""

    def __init__(self, url: str, secrets: Sequence[Webhook]) -> None:
        try:
            self._url = httpx.URL(url)
        except httpx.InvalidURL:
            self._url = httpx.URL("")
        if self._url.scheme not in {"https", "http"} or not self._url.host:
            raise SepuError("the address of the endpoint is not like https://example.com/hooks")
        self._secrets = secrets

    async def send(self, messages: Sequence[Message]) -> list[Answer]:
        """Sends all at once, and gives the answer to each."""
        async with httpx.AsyncClient(timeout=limits.WEBHOOK_SECONDS, follow_redirects=False) as client:
            return await asyncio.gather(*(self._send(client, message) for message in messages))

    async def _send(self, client: httpx.AsyncClient, message: Message) -> Answer:
        headers = {**self.headers(message), "content-type": "application/json", "user-agent": "sepu"}
        try:
            # httpx's own limits are for each step, and an endpoint that drips takes any number of steps.
            async with (
                asyncio.timeout(limits.WEBHOOK_SECONDS),
                client.stream("POST", self._url, content=message.body, headers=headers) as response,
            ):
                return _judged(response)
        except TimeoutError:
            return Answer("no answer in time")
        except httpx.HTTPError as error:
            return Answer(f"not reached: {type(error).__name__}")

    def headers(self, message: Message) -> dict[str, str]:
        """Gives what lets the endpoint verify a message: its id, the time, and a signature by each secret."""
        now = datetime.now(UTC)
        body = message.body.decode()
        return {
            "webhook-id": message.message_id,
            "webhook-timestamp": str(int(now.timestamp())),
            "webhook-signature": " ".join(secret.sign(message.message_id, now, body) for secret in self._secrets),
        }


def _judged(response: httpx.Response) -> Answer:
    if response.is_success:
        return Answer(None)
    wait = _seconds(response.headers.get("retry-after", ""))
    return Answer(f"HTTP {response.status_code}", wait, final=response.status_code == _GONE)


def _seconds(retry_after: str) -> float:
    """Reads Retry-After: seconds, or an instant."""
    if re.fullmatch("[0-9]{1,9}", retry_after):
        return float(retry_after)
    try:
        return max(0.0, (parsedate_to_datetime(retry_after) - datetime.now(UTC)).total_seconds())
    except (TypeError, ValueError):  # no date, or one without a time zone
        return 0.0
