"""Calls the sepu service: matches and searches that are charged once, no matter how often they are sent.

`Client` is for plain code and threads, `AsyncClient` for asyncio. Both keep to the service's rules of retrying.
"""

from importlib.metadata import version

from sepu_client.async_client import AsyncClient
from sepu_client.client import Client
from sepu_client.core import new_idempotency_key
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

__all__ = [
    "RGB",
    "AccountUnavailableError",
    "ApiError",
    "AsyncClient",
    "Client",
    "Color",
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

__version__ = version("sepu-client")
