"""Holds what both clients share, without I/O: requests, the meaning of answers, and retries."""

import asyncio
import json
import logging
import random
import re
import ssl
import uuid
from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from http.cookiejar import CookieJar, DefaultCookiePolicy
from importlib.metadata import version
from itertools import count
from operator import index
from typing import Any, Generic, Self, TypeVar
from urllib.parse import quote, urlencode

import httpx

from sepu_client import results
from sepu_client.colors import MOST_COLORS, ColorLike, read_colors
from sepu_client.errors import ApiError, Error, InvalidAnswerError, NoAnswerError, error_class
from sepu_client.results import Unreadable

log = logging.getLogger("sepu_client")

T = TypeVar("T")

USER_AGENT = f"sepu-client/{version('sepu-client')} httpx/{httpx.__version__}"
TIMEOUT = 10.0
DEADLINE = 60.0

MOST_TOP = 3
MOST_LIMIT = 10
# What the service trims.
_WHITE_SPACE = (
    "\t\n\v\f\r \xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
    "\u2028\u2029\u202f\u205f\u3000\ufeff"
)

FIRST_BACK_OFF = 0.25
DOUBLINGS = 5  # of the back-off: up to 8 seconds

_IDEMPOTENCY_KEY = re.compile(r"[A-Za-z0-9._:-]{8,128}")
_BEARER = re.compile(r"Bearer [!-~]+")
_SECONDS = re.compile(r"[0-9]{1,9}")
# Read only these forms from an error, because the other side might echo the request.
_CODE = re.compile(r"[a-z_]{1,64}")
_POINTER = re.compile(r"(/[a-z]{1,32}|/[0-9]{1,4}){1,8}")
_REQUEST_ID = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")


class Bearer(httpx.Auth):
    """Puts the API key into each request, and shows it nowhere."""

    def __init__(self, api_key: str) -> None:
        self._header = f"Bearer {api_key}" if isinstance(api_key, str) else ""  # perhaps None

    def checked(self) -> Self:
        """Returns itself, or raises for a key that cannot be sent, without a frame that has the key."""
        if not _BEARER.fullmatch(self._header):
            raise ValueError("the API key is empty or has characters that no key has")
        return self

    def auth_flow(self, request: httpx.Request) -> Generator[httpx.Request, httpx.Response, None]:
        """Adds the header; httpx calls it."""
        request.headers["Authorization"] = self._header
        yield request


_DAY_SECONDS = 86_400
LONGEST = 2**20  # bytes of an answer that are read; the service sends a few thousand


@dataclass(frozen=True, slots=True)
class Answer:
    """Holds a response; the names of its headers may have any case."""

    status: int
    # The other side might echo the request, and tools print the variables of a traceback's frames.
    headers: Mapping[str, str] = field(repr=False)
    body: bytes = field(repr=False)

    @property
    def request_id(self) -> str | None:
        """Returns the value of the header."""
        found = self.headers.get("X-Request-Id", "")
        return found if _REQUEST_ID.fullmatch(found) else None


@dataclass(frozen=True, slots=True)
class Lost:
    """Says that no answer came: a time-out or a broken connection. A retry is useless if it is `final`."""

    reason: str
    final: bool = False


TOO_SLOW = Lost("the answer came too slowly")
CLOSED = Lost("the client is closed", final=True)

_LOST: tuple[type[BaseException], ...] = (httpx.RequestError,)
with suppress(ImportError):  # an extra of httpx
    from socksio.exceptions import SOCKSError

    _LOST += (SOCKSError,)

_BROKEN_OFF = (ssl.SSLEOFError, ssl.SSLZeroReturnError, ssl.SSLSyscallError)


def _distrusted(error: BaseException | None) -> bool:
    """Returns whether TLS failed and would fail again, for instance by a wrong certificate."""
    while error is not None and not isinstance(error, ssl.SSLError):
        error = error.__cause__ or error.__context__
    return error is not None and not isinstance(error, _BROKEN_OFF)


def lost(ended: BaseException) -> Lost:
    """Returns what became of an attempt that raised; raises what is no fault of a connection, such as a cancellation.

    Of httpx's messages it quotes only a failure to connect, which has nothing of the request.
    """
    if not isinstance(ended, _LOST):
        raise bare(ended) from None
    if isinstance(ended, httpx.TimeoutException):
        return TOO_SLOW
    name = type(ended).__name__
    if isinstance(ended, httpx.ConnectError):
        return Lost(f"{name}: {ended}", _distrusted(ended))
    return Lost(name)


def bare(ended: BaseException) -> BaseException:
    """Returns the end of an attempt, to raise without the frames of httpx: their variables have the API key.

    The cancellations that it followed stay: by them anyio knows whether it is its own.
    """
    before = ended.__context__
    ended.__context__ = bare(before) if isinstance(before, asyncio.CancelledError) else None
    return ended.with_traceback(None)


def options(base_url: str, bearer: Bearer) -> dict[str, Any]:
    """Returns the arguments of every httpx client."""
    return {
        "base_url": checked_url(base_url),
        "auth": bearer.checked(),
        "headers": {"User-Agent": USER_AGENT, "Accept-Encoding": "identity"},
        "verify": httpx.create_ssl_context(),  # one for all: it takes milliseconds
        "limits": httpx.Limits(max_connections=1),
    }


def no_cookies() -> CookieJar:
    """Returns a jar for one httpx client that reads and keeps none."""
    return CookieJar(DefaultCookiePolicy(netscape=False, rfc2965=False))


def forget_location(response: httpx.Response) -> None:
    """Keeps httpx from parsing the target of a redirect, which can fail and is never used."""
    response.headers.pop("Location", None)


@dataclass(frozen=True, slots=True)
class Attempt:
    """Says how long to wait before sending, and when to give up, in seconds."""

    wait: float
    seconds: float


@dataclass(frozen=True, slots=True)
class Call(Generic[T]):
    """Holds one intent of the caller: every attempt sends exactly this."""

    method: str
    target: str
    form: type[T]
    idempotency_key: str | None = None
    content: bytes | None = None

    @property
    def request(self) -> dict[str, Any]:
        """Returns the arguments of the httpx request."""
        headers = {}
        if self.idempotency_key is not None:
            headers["Idempotency-Key"] = self.idempotency_key
        if self.content is not None:
            headers["Content-Type"] = "application/json"
        return {"method": self.method, "url": self.target, "headers": headers, "content": self.content}


def checked_url(base_url: str) -> str:
    """Returns the service's address, if it is valid."""
    try:
        url = httpx.URL(base_url)
        url.host.encode("idna")  # as connecting does it; `host` raises UnicodeError, too
    except (httpx.InvalidURL, UnicodeError):
        url = httpx.URL()
    if (
        url.scheme not in {"http", "https"}
        or not url.host
        or (url.port or 0) > 65_535
        or url.userinfo  # httpx would log it
        or url.query
        or url.fragment
        or url.path.rstrip("/").endswith("/v1")  # the calls add it
    ):
        raise ValueError("the base URL is not of the form https://HOST: no user, no query, and no /v1")
    return base_url


def checked_seconds(name: str, seconds: float) -> float:
    """Returns a time-out or deadline, if it is valid."""
    if not isinstance(seconds, int | float) or not 0 < seconds <= _DAY_SECONDS:
        raise ValueError(f"{name} is more than 0 seconds, and at most a day")
    return seconds


def new_idempotency_key() -> str:
    """Returns a random key for one new match or search."""
    return str(uuid.uuid4())


def match(
    colors: Iterable[ColorLike], top: int, idempotency_key: str | None, scale: int | None = None
) -> Call[results.MatchResponse]:
    """Makes a match, with a new key unless one is given."""
    return _match(read_colors(colors, scale, most=MOST_COLORS), top, _checked(idempotency_key))


def match_many(
    colors: Iterable[ColorLike], top: int, idempotency_key: str | None, scale: int | None = None
) -> list[Call[results.MatchResponse]]:
    """Makes matches of as many colours as a request takes, the first with the key KEY.1, the second with KEY.2."""
    key = _checked(idempotency_key)
    rgb = read_colors(colors, scale)
    parts = [rgb[start : start + MOST_COLORS] for start in range(0, len(rgb), MOST_COLORS)]
    return [_match(part, top, _checked(f"{key}.{number}")) for number, part in enumerate(parts, 1)]


def _match(rgb: list[results.RGB], top: int, key: str) -> Call[results.MatchResponse]:
    document = {"colors": [color._asdict() for color in rgb], "top": _whole("top", top, MOST_TOP)}
    return Call("POST", "/v1/match", results.MatchResponse, key, json.dumps(document, allow_nan=False).encode())


def search(q: str, limit: int, idempotency_key: str | None) -> Call[results.SearchResponse]:
    """Makes a search, with a new key unless one is given."""
    key = _checked(idempotency_key)
    if not isinstance(q, str):
        raise TypeError(f"the text of a search is a string, and not {q!r}")
    text = q.strip(_WHITE_SPACE)
    if not 2 <= len(text) <= 64:
        raise ValueError(
            f"the text of a search has 2 to 64 characters, and not {len(text)}; "
            "write a name of one character in pinyin or in English"
        )
    query = urlencode({"q": text, "limit": _whole("limit", limit, MOST_LIMIT)}, quote_via=quote)
    return Call("GET", f"/v1/search?{query}", results.SearchResponse, key)


def _whole(name: str, value: int, most: int) -> int:
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise TypeError(f"{name} is a whole number from 1 to {most}, and not {value!r}")
    if not 1 <= index(value) <= most:
        raise ValueError(f"{name} is a whole number from 1 to {most}, and not {value!r}")
    return index(value)


def library() -> Call[results.Library]:
    """Makes the request for the library's metadata."""
    return Call("GET", "/v1/library", results.Library)


def usage() -> Call[results.UsageResponse]:
    """Makes the request for the account's meters."""
    return Call("GET", "/v1/usage", results.UsageResponse)


def settle(
    call: Call[T],
    timeout: float,
    deadline: float,
    clock: Callable[[], float],
    uniform: Callable[[float, float], float] = random.uniform,
) -> Generator[Attempt, Answer | Lost, T]:
    """Yields one attempt after the other, takes the outcome of each, and returns the result or raises the error.

    An attempt that failed is repeated if its error is of a kind that is `retried`, after Retry-After and a back-off
    with full jitter, unless the deadline would come first.
    """
    end = clock() + deadline
    wait, left = 0.0, deadline
    for number in count():
        outcome = yield Attempt(wait, min(timeout, left))
        if isinstance(outcome, Answer) and outcome.status == 200:
            return _result(call, outcome)
        error = _error(call, outcome)
        retry_after = error.retry_after if isinstance(error, ApiError) else None
        wait = (retry_after or 0) + uniform(0, FIRST_BACK_OFF * 2 ** min(number, DOUBLINGS))
        left = end - clock() - wait
        if not error.retried or left <= 0:
            raise error
        log.info("%s: %s; it is sent again in %.2f seconds", call.target.partition("?")[0], error, wait)
    raise AssertionError  # count() has no end


def _result(call: Call[T], answer: Answer) -> T:
    try:
        return results.read(call.form, _content(answer), **_header_fields(call, answer))
    except Unreadable as unreadable:
        reason = str(unreadable)
    raise InvalidAnswerError(answer.status, reason, answer.request_id, call.idempotency_key)


def is_plain(headers: Mapping[str, str]) -> bool:
    """Returns whether a body comes as it is: a compressed one, which may expand to any length, is not even read."""
    return headers.get("Content-Encoding", "identity").lower() == "identity"


def _content(answer: Answer) -> bytes:
    if not is_plain(answer.headers):
        raise Unreadable("the body has a content coding, and none was accepted")
    if len(answer.body) > LONGEST:
        raise Unreadable(f"the body has more than {LONGEST} bytes")
    return answer.body


def _error(call: Call[T], outcome: Answer | Lost) -> Error:
    key = call.idempotency_key
    if isinstance(outcome, Lost):
        return NoAnswerError(outcome.reason, key, retried=not outcome.final)
    if outcome.status < 400:
        return InvalidAnswerError(outcome.status, "the status is not of the interface", outcome.request_id, key)
    code = snapshot = None
    with suppress(Unreadable):
        found = results.read_error_code(_content(outcome))
        code = found if isinstance(found, str) and _CODE.fullmatch(found) else None
    with suppress(Unreadable):
        snapshot = results.read_usage_headers(outcome.headers)
    after = outcome.headers.get("Retry-After", "")
    retry_after = int(after) if _SECONDS.fullmatch(after) else None
    pointer = outcome.headers.get("X-Error-Pointer", "")
    place = pointer if _POINTER.fullmatch(pointer) else None
    kind = error_class(outcome.status, code)
    return kind(outcome.status, code, outcome.request_id, retry_after, snapshot, key, place)


def _checked(idempotency_key: str | None) -> str:
    if idempotency_key is None:
        return new_idempotency_key()
    if not isinstance(idempotency_key, str):
        raise TypeError(f"an idempotency key is a string, and not {idempotency_key!r}")
    if not _IDEMPOTENCY_KEY.fullmatch(idempotency_key):
        raise ValueError("an idempotency key has 8 to 128 of A-Z a-z 0-9 . _ : -")
    return idempotency_key


def _header_fields(call: Call[Any], answer: Answer) -> dict[str, Any]:
    """Returns the fields of the result that are not in the body."""
    charge = {}
    if call.idempotency_key is not None:
        charge = {
            "usage": results.read_usage_headers(answer.headers),
            "replayed": answer.headers.get("Idempotency-Replayed") == "true",
            "idempotency_key": call.idempotency_key,
        }
    if answer.request_id is None:
        raise Unreadable("the header X-Request-Id is missing or no UUID")
    return {**charge, "request_id": answer.request_id}
