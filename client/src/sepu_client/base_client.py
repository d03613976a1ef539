"""Provides the common part of both clients: the options, and the objects made from them."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import cached_property
from typing import TYPE_CHECKING, Any, Generic, NoReturn, Self, TypeVar

from sepu_client.address import Route, find_route, read_address
from sepu_client.connections import C, Connections
from sepu_client.messages import Attempt, Call, OwnHeaders, Request, Requests, Secret
from sepu_client.retries import checked_seconds

if TYPE_CHECKING:
    import ssl

Observe = Callable[[Attempt], AbstractContextManager[object]]
A = TypeVar("A")  # what `send` returns: an answer, or an awaitable of one


class BaseClient(Generic[A, C]):
    """The options of both clients, which `Client` describes."""

    def __init__(
        self,
        base_url: str,
        api_key: str,
        *,
        timeout: float = 10,
        deadline: float = 25,  # gateways give up after 29 or 30 seconds: the caller's error handling runs before that
        ssl_context: "ssl.SSLContext | None" = None,
        proxy: str | None = None,
        headers: OwnHeaders | None = None,
        app_name: str = "",
        observe: Observe | None = None,
        send: Callable[[Request, Callable[[Request], A]], A] | None = None,
    ) -> None:
        # From here on, no variable shows a secret: tools print the variables of a traceback's frames.
        authorization, api_key = Secret(f"Bearer {api_key}" if isinstance(api_key, str) else ""), ""
        self._proxy = proxy = proxy and Secret(proxy)
        self._ssl_context = ssl_context
        self._timeout = checked_seconds("timeout", timeout)
        self._deadline = checked_seconds("deadline", deadline)
        self._address = address = read_address(base_url)
        self._requests = Requests(address.base, address.authority, authorization, app_name, headers)
        self._observe = observe
        self._send = send
        self._connections = Connections[C]()
        if send is None:
            self._route  # noqa: B018  # raises

    @cached_property
    def _route(self) -> Route:
        """The way to the service. Raises ValueError for a wrong setting of the caller or the environment."""
        return find_route(self._address, self._ssl_context, self._proxy)

    def with_options(
        self, *, timeout: float | None = None, deadline: float | None = None, headers: OwnHeaders | None = None
    ) -> Self:
        """Returns a client that shares this client's connections but has different options.

        Options left as None keep this client's values. In the new client, `headers` replaces all the headers that this
        client's `headers` adds. Closing either client closes both. Raises ValueError for an invalid option.
        """
        made = object.__new__(type(self))
        vars(made).update(vars(self))
        if timeout is not None:
            made._timeout = checked_seconds("timeout", timeout)
        if deadline is not None:
            made._deadline = checked_seconds("deadline", deadline)
        if headers is not None:
            made._requests = self._requests.with_headers(headers)
        return made

    def __reduce__(self) -> NoReturn:
        """Raises TypeError."""
        raise TypeError(
            "a client has connections and the API key, and cannot be pickled or copied: make one in each process, or "
            "use with_options"
        )

    def _request(self, call: Call[Any], left: float) -> Request | None:
        """Returns the request of an attempt, or None if no seconds are left of the call."""
        return self._requests.of(call, min(self._timeout, left)) if left > 0 else None
