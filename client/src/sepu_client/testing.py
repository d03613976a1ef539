"""Provides an in-memory service for tests of programs that call the service."""

import threading
import uuid
from collections import deque
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from itertools import islice
from typing import Any
from urllib.parse import parse_qs, urlsplit

from msgspec.json import decode, encode
from msgspec.structs import fields

from sepu_client import RGB, Answer, AsyncClient, Client, Color, ColorName, Match, Request

_NAME = ColorName("绯红", "Scarlet Silk", "fēi hóng")
SCARLET = Match("fei-hong", _NAME, "#C83C23", "verified", delta_e=0.0, similarity=1.0)
"""A match to copy and change: `msgspec.structs.replace(SCARLET, delta_e=1.5)`."""

_LIBRARY = {
    "version": "1.0.0",
    "recordCount": 161,
    "valueMismatchCount": 0,
    "sourceProjectionVersion": "1.0.0",
    "sourceProjectionSha256": "0" * 64,
    "rightsManifestSha256": "0" * 64,
    "librarySha256": "0" * 64,
    "mode": "commercial",
}


class FakeService:
    """An in-memory service with one account. It charges, replays and enforces quotas like the real one.

    `match` takes an input colour and returns its matches, nearest first. `search` takes the search text and returns
    colours. By default, both return only SCARLET. `match_limit` and `search_limit` are the account's units per month.

    `requests` lists the requests that arrived. `charged` has the units charged to each meter.
    """

    def __init__(
        self,
        *,
        match: Callable[[RGB], Iterable[Match]] = lambda _: [SCARLET],
        search: Callable[[str], Iterable[Color]] = lambda _: [SCARLET],
        match_limit: int = 2000,
        search_limit: int = 1000,
    ) -> None:
        self.requests: list[Request] = []
        self.charged = {"color_match": 0, "color_search": 0}
        self._limits = {"color_match": match_limit, "color_search": search_limit}
        self._match, self._search = match, search
        self._faults = deque[Answer | None]()
        self._stored: dict[str, tuple[tuple[str, bytes], bytes]] = {}
        self._lock = threading.Lock()

    def client(self, **options: Any) -> Client:  # noqa: ANN401
        """Returns a `Client` for this service. Takes the options of `Client`, except `send`."""
        return Client("http://sepu.test", "a-key", send=self.send, **options)

    def async_client(self, **options: Any) -> AsyncClient:  # noqa: ANN401
        """Returns an `AsyncClient` for this service. Takes the options of `Client`, except `send`."""

        async def send(request: Request, network: object) -> Answer:
            return self.send(request, network)

        return AsyncClient("http://sepu.test", "a-key", send=send, **options)

    def refuse(self, status: int, code: str, *, times: int = 1, retry_after: int | None = None) -> None:
        """Refuses the next `times` requests with an error such as 503 `usage_commit_failed`.

        `retry_after` is in seconds.
        """
        headers = {} if retry_after is None else {"Retry-After": str(retry_after)}
        self._faults.extend(_refusal(status, code, headers) for _ in range(times))

    def lose_answers(self, times: int = 1) -> None:
        """Charges for the next `times` requests but loses their responses. The client sees a timeout."""
        self._faults.extend([None] * times)

    def send(self, request: Request, _: object) -> Answer:
        """Answers a request. Pass this method to a `Client` as `send`. Raises TimeoutError for a lost response."""
        with self._lock:
            self.requests.append(request)
            is_lost = False
            if self._faults:
                fault = self._faults.popleft()
                if fault:
                    return fault
                is_lost = True
            answer = self._answer(request)
        if is_lost:
            raise TimeoutError
        return answer

    def _answer(self, request: Request) -> Answer:
        url = urlsplit(request.url)
        match url.path:
            case "/v1/match":
                given = decode(request.body)
                results = [
                    {"input": one, "matches": [*islice(self._match(RGB(**one)), given["top"])]}
                    for one in given["colors"]
                ]
                return self._charge(request, "color_match", len(results), {"results": results})
            case "/v1/search":
                query = parse_qs(url.query)
                first = islice(self._search(query["q"][0]), int(query["limit"][0]))
                colors = [Color(**{each.name: getattr(one, each.name) for each in fields(Color)}) for one in first]
                return self._charge(request, "color_search", 1, {"count": len(colors), "results": colors})
            case "/v1/usage":
                usage = [self._usage(meter) for meter in self._limits]
                account = {"accountId": "a", "planId": "standard", "status": "active"}
                return _answer(200, {"outcome": "ok", **account, "usage": usage})
            case "/v1/library":
                return _answer(200, _LIBRARY)
            case _:
                return _refusal(404, "not_found")

    def _charge(self, request: Request, meter: str, units: int, content: dict[str, Any]) -> Answer:
        key, fingerprint = request.headers["Idempotency-Key"], (request.url, request.body)
        if key in self._stored:
            stored, body = self._stored[key]
            if stored != fingerprint:
                return _refusal(409, "idempotency_conflict")
            headers = self._usage_headers(meter) | {"Idempotency-Replayed": "true"}
            return Answer(200, _with_request_id(headers), body)
        if self.charged[meter] + units > self._limits[meter]:
            return _refusal(429, "quota_exceeded", {"Retry-After": "86400", **self._usage_headers(meter)})
        self.charged[meter] += units
        answer = _answer(200, {"datasetVersion": _LIBRARY["version"], **content}, self._usage_headers(meter))
        self._stored[key] = fingerprint, answer.body
        return answer

    def _usage(self, meter: str) -> dict[str, Any]:
        limit, committed = self._limits[meter], self.charged[meter]
        return {
            "period": f"{datetime.now(UTC):%Y-%m}",
            "meter": meter,
            "limit": limit,
            "committed": committed,
            "reserved": 0,
            "remaining": limit - committed,
        }

    def _usage_headers(self, meter: str) -> dict[str, str]:
        return {f"X-Usage-{name.title()}": str(value) for name, value in self._usage(meter).items()}


def _answer(status: int, content: Any, headers: dict[str, str] | None = None) -> Answer:  # noqa: ANN401
    return Answer(status, _with_request_id(headers or {}), encode(content))


def _refusal(status: int, code: str, headers: dict[str, str] | None = None) -> Answer:
    named = _with_request_id(headers or {})
    return Answer(status, named, encode({"error": code, "requestId": named["X-Request-Id"]}))


def _with_request_id(headers: dict[str, str]) -> dict[str, str]:
    return {"Content-Type": "application/json", "X-Request-Id": str(uuid.uuid4()), **headers}
