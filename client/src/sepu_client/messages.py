"""Defines the client's messages: requests, answers, and the loss of an answer."""

import re
from collections.abc import Callable, Generator, Mapping
from functools import cache
from typing import Any, Generic, NoReturn, Self, TypeVar

from msgspec import Struct

T = TypeVar("T")

Conversation = Generator[bytes | memoryview, bytes | None, T]
"""Yields bytes to send, as a memoryview (whose repr does not show them) if they hold a key; takes received bytes, and
returns its result.

b"" comes when the other side has ended the connection, None when the connection broke.
"""

_TOO_SLOW = "the answer came too slowly"
MAX_BODY = 2**20  # bytes of an answer's body; the service sends a few thousand

Headers = Mapping[str, str]
OwnHeaders = Headers | Callable[[], Headers]

_BEARER = re.compile(r"Bearer [!-~]+")
_PRODUCT = r"[A-Za-z0-9._~+-]{1,64}(/[A-Za-z0-9._~+-]{1,64})?"  # RFC 9110, 10.1.5
_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_VALUE = re.compile(r"([!-~]([\t -~]*[!-~])?)?")
# If one of these occurs twice, two servers could parse the request differently; or the client sets it.
_RESERVED = {
    "accept-encoding", "authorization", "connection", "content-encoding", "content-length", "content-type", "expect",
    "host", "idempotency-key", "proxy-authorization", "te", "trailer", "transfer-encoding", "upgrade", "user-agent",
}  # fmt: skip


class Request(Struct, frozen=True):
    """The HTTP request of one attempt.

    `timeout` is the number of seconds that the attempt may take. `headers` contains the API key.
    """

    method: str
    url: str
    headers: Headers
    body: bytes
    timeout: float

    def __repr__(self) -> str:
        """Returns method and URL without the API key: tools print the variables of a traceback's frames."""
        return f"Request({self.method!r}, {self.url!r})"


class Answer(Struct, frozen=True):
    """A complete, uncompressed HTTP response. The names in `headers` may be in upper or lower case."""

    status: int
    headers: Headers
    body: bytes

    def __repr__(self) -> str:
        """Returns only the status: the other side might echo the request."""
        return f"Answer({self.status})"


class Attempt(Struct):
    """One of a call's attempts, as passed to `observe`.

    `path` is the path below the base URL, such as `/v1/search`. `number` is 1 for the first attempt. The fields from
    `seconds` on are set when the attempt ends. `seconds` is its duration. `status` and `request_id` are those of the
    response. If no response came, `reason` says why.
    """

    method: str
    path: str
    number: int
    seconds: float = 0.0
    status: int | None = None
    request_id: str | None = None
    reason: str | None = None


class Lost(ConnectionError):  # noqa: N818  (callers see a ConnectionError)
    """The loss of an answer. A retry is useless if it is `final`.

    `unanswered`: a kept connection broke before the first byte of an answer. `unsent`: the service cannot have read a
    request. `unknown_name`: the resolver knows no address of the host. `retry_after` is in seconds.
    """

    def __init__(
        self,
        reason: str,
        *,
        final: bool = False,
        unanswered: bool = False,
        unsent: bool = False,
        unknown_name: bool = False,
        retry_after: int | None = None,
    ) -> None:
        super().__init__(reason)
        self.reason = reason
        self.final = final
        self.unanswered = unanswered
        self.unsent = unsent
        self.unknown_name = unknown_name
        self.retry_after = retry_after


def lost_by(failure: OSError) -> Lost:
    """Returns the loss of an attempt that ran out of time, or failed otherwise."""
    if isinstance(failure, TimeoutError):
        return Lost(_TOO_SLOW)
    return Lost(f"{type(failure).__name__}: {failure}")


def lost_elsewhere(failure: OSError) -> Lost:
    """Returns the loss of an attempt by the caller's function. Its cause is what that raised."""
    name = type(failure).__name__  # without the text, which might quote the request
    lost = Lost(_TOO_SLOW if isinstance(failure, TimeoutError) else name)
    lost.__cause__ = failure
    return lost


def unsent(failure: Lost | OSError) -> Lost:
    """Returns the loss of an attempt that failed before it sent anything."""
    lost = failure if isinstance(failure, Lost) else lost_by(failure)
    lost.unsent = True
    return lost


def with_lower_case_names(answer: Answer) -> Answer:
    """Returns an answer of a caller's function with the names of its headers in lower case."""
    if not isinstance(answer, Answer):
        raise TypeError(f"`send` returned {type(answer).__name__}, and not an Answer")
    return Answer(answer.status, {name.lower(): value for name, value in answer.headers.items()}, answer.body)


class Call(Struct, Generic[T], frozen=True):
    """One intent of the caller: every attempt sends exactly this."""

    method: str
    target: str
    form: type[T]
    idempotency_key: str | None = None
    content: bytes = b""
    intent_key: str | None = None
    """The key with which the caller repeats its call, if that is not the one sent."""


class Secret(str):
    """A text whose repr does not show it: tools print the variables of frames."""

    __slots__ = ()

    def __repr__(self) -> str:
        """Returns a placeholder."""
        return "'...'"

    def __reduce__(self) -> NoReturn:
        """Raises TypeError."""
        raise TypeError("the API key cannot be pickled or copied; neither can a request, whose headers have it")


class Requests:
    """Makes the requests of one client."""

    def __init__(self, base: str, host: str, authorization: Secret, app_name: str, own: OwnHeaders | None) -> None:
        """Takes the URL's start and the Host header. Raises ValueError for headers that cannot be sent."""
        if not _BEARER.fullmatch(authorization):
            raise ValueError("the API key is empty or has characters that no key has")
        if app_name and not (isinstance(app_name, str) and re.fullmatch(_PRODUCT, app_name)):
            raise ValueError("app_name is not NAME or NAME/VERSION, of ASCII letters, digits and . _ ~ + -")
        self._base = base
        self._own = _checked_unless_function(own)
        self._fixed = {
            "Host": host,
            "User-Agent": f"sepu-client/{release()} {app_name}".rstrip(),
            "Accept-Encoding": "identity",
            "Authorization": authorization,
        }

    def with_headers(self, own: OwnHeaders) -> Self:
        """Returns the maker of the same requests with other headers of the caller."""
        made = object.__new__(type(self))
        vars(made).update(vars(self), _own=_checked_unless_function(own))
        return made

    def of(self, call: Call[Any], timeout: float) -> Request:
        """Returns the request of one attempt. Raises what the caller's function for headers raises."""
        own = _checked(self._own()) if callable(self._own) else self._own  # before the key is in a variable
        headers = self._fixed.copy()
        if call.idempotency_key is not None:
            headers["Idempotency-Key"] = call.idempotency_key
        if call.content:
            headers["Content-Type"] = "application/json"
            headers["Content-Length"] = str(len(call.content))
        if own:
            headers |= own
        return Request(call.method, self._base + call.target, headers, call.content, timeout)


def _checked_unless_function(own: OwnHeaders | None) -> OwnHeaders | None:
    return own if own is None or callable(own) else _checked(own)


def _checked(own: Headers) -> dict[str, str]:
    for name, value in own.items():
        if not (isinstance(name, str) and _NAME.fullmatch(name)) or name.lower() in _RESERVED:
            raise ValueError(f"{name!r} is not a header that a caller may set")
        if not (isinstance(value, str) and _VALUE.fullmatch(value)):
            raise ValueError(f"the value of the header {name!r} is not a string of printable ASCII")
    return dict(own)


@cache
def release() -> str:
    """Returns the version of this package: "unknown" where its metadata is missing, as in a zipped function."""
    from importlib.metadata import PackageNotFoundError, version  # as slow to import as half of this package

    try:
        return version("sepu-client")
    except PackageNotFoundError:
        return "unknown"
