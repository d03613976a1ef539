"""Calls the sepu service: matches and searches that are charged once, no matter how often they are sent.

`Client` is for plain code and threads, `AsyncClient` for asyncio. Both follow the service's retry rules.
"""

from typing import TYPE_CHECKING, Any

from sepu_client.calls import new_idempotency_key
from sepu_client.client import Client
from sepu_client.colors import ColorLike
from sepu_client.errors import (
    AccountUnavailableError,
    ApiError,
    Error,
    IdempotencyConflictError,
    InvalidAnswerError,
    InvalidRequestError,
    NoAnswerError,
    QuotaExceededError,
    RateLimitedError,
    RequestInProgressError,
    RequestTimeoutError,
    ServiceError,
    UnauthorizedError,
)
from sepu_client.messages import Answer, Attempt, Request, release
from sepu_client.results import (
    RGB,
    Color,
    ColorName,
    Library,
    Match,
    MatchResponse,
    MatchResult,
    SearchResponse,
    UsageResponse,
    UsageSnapshot,
)

if TYPE_CHECKING:
    from sepu_client.async_client import AsyncClient

    __version__: str

__all__ = [
    "RGB",
    "AccountUnavailableError",
    "Answer",
    "ApiError",
    "AsyncClient",
    "Attempt",
    "Client",
    "Color",
    "ColorLike",
    "ColorName",
    "Error",
    "IdempotencyConflictError",
    "InvalidAnswerError",
    "InvalidRequestError",
    "Library",
    "Match",
    "MatchResponse",
    "MatchResult",
    "NoAnswerError",
    "QuotaExceededError",
    "RateLimitedError",
    "Request",
    "RequestInProgressError",
    "RequestTimeoutError",
    "SearchResponse",
    "ServiceError",
    "UnauthorizedError",
    "UsageResponse",
    "UsageSnapshot",
    "__version__",
    "new_idempotency_key",
]


def __getattr__(name: str) -> Any:  # noqa: ANN401
    """Imports what few programs use: asyncio and the reader of the version take longer than all the rest."""
    if name == "AsyncClient":
        from sepu_client.async_client import AsyncClient

        return AsyncClient
    if name == "__version__":
        return release()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
