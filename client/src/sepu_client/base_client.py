"""Provides the common part of both clients: the options, and the objects made from them."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from sepu_client.address import find_route
from sepu_client.connections import C, Connections
from sepu_client.messages import Call, OwnHeaders, Request, Requests, Secret
from sepu_client.retries import DEADLINE, TIMEOUT, checked_seconds

if TYPE_CHECKING:
    import ssl

A = TypeVar("A")  # what `send` returns: an answer, or an awaitable of one


class BaseClient(Generic[A, C]):
    """Holds what a client is made with; `Client` describes the options."""

    def __init__(
        self,
        base_url: str,
        api_key: str,
        *,
        timeout: float = TIMEOUT,
        deadline: float = DEADLINE,
        ssl_context: "ssl.SSLContext | None" = None,
        proxy: str | None = None,
        headers: OwnHeaders | None = None,
        send: Callable[[Request], A] | None = None,
    ) -> None:
        # From here on, no variable shows a secret: tools print the variables of a traceback's frames.
        authorization, api_key = Secret(f"Bearer {api_key}" if isinstance(api_key, str) else ""), ""
        proxy = proxy and Secret(proxy)
        self._timeout = checked_seconds("timeout", timeout)
        self._deadline = checked_seconds("deadline", deadline)
        self._route = find_route(base_url, ssl_context, proxy, is_used=send is None)
        self._requests = Requests(self._route.base, self._route.authority, authorization, headers)
        self._send_elsewhere = send
        self._connections = Connections[C]()

    def _request(self, call: Call[Any], left: float) -> Request | None:
        """Returns the request of an attempt, or None if no seconds are left of the call."""
        return self._requests.of(call, min(self._timeout, left)) if left > 0 else None
