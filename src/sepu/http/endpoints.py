"""The four endpoints: each checks a request in the contract's order, without I/O.

An endpoint answers at once (`Reply`), or names the command for the ledger and how to use its answer (`Pending`).
Invalid input is refused only after the ledger has admitted the request, because the account and the abuse limit come
first.
"""

import re
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, Generic, Protocol, TypeVar

import msgspec

from sepu import limits
from sepu.http.client_address import Peer
from sepu.http.replies import JSON, Reply, error, usage_headers
from sepu.http.throttle import UnknownKeyThrottle
from sepu.metering.commands import Charge, Command, Metered, UsageReport, admit, meter_request, read_usage
from sepu.metering.keys import Credential, credential
from sepu.operations.errors import InputError
from sepu.operations.match import Matcher, MatchInput, parse_match
from sepu.operations.search import Searcher, parse_search

T = TypeVar("T")

_BEARER = re.compile(r"bearer +(\S+)", re.ASCII | re.IGNORECASE)
_IDEMPOTENCY_KEY = re.compile(r"[A-Za-z0-9._:-]{8,128}", re.ASCII)


class Head(Peer, Protocol):
    """Describes the head of a request; Falcon's requests have this form."""

    @property
    def query_string(self) -> str:
        """Returns the query, still percent-encoded."""


class Pending(msgspec.Struct, Generic[T], frozen=True):
    """Has the command for the ledger, the reply to its answer, and the reply if there is no answer."""

    command: Command[T]
    conclude: Callable[[T], Reply]
    unavailable: Reply


# Only a whole Pending is used, so the type of its answer does not matter to others.
Judgement = Reply | Pending[Any]

_UNAUTHORIZED = error("unauthorized")
_RATE_LIMITED = error("rate_limited")
_LEDGER_DOWN = error("internal_error")
_COMMIT_FAILED = error("usage_commit_failed")


def _credential(head: Head) -> Credential | None:
    form = _BEARER.fullmatch(head.header("Authorization") or "")
    return form and credential(form[1])


def _idempotency_key(head: Head) -> str:
    key = head.header("Idempotency-Key")
    if key is None:
        raise InputError("idempotency_key_required")
    if not _IDEMPOTENCY_KEY.fullmatch(key):
        raise InputError("idempotency_key_invalid")
    return key


def _admitted(holder: Credential, reply: Reply, unavailable: Reply) -> Pending[str]:
    """Returns the reply, for when the ledger has admitted the request."""
    return Pending(admit(holder), lambda outcome: reply if outcome == "ok" else error(outcome), unavailable)


def _metered(holder: Credential, key: str, charge: Charge) -> Pending[Metered]:
    """Replies with the body of the charge, when it is charged or replayed."""

    def conclude(metered: Metered) -> Reply:
        usage = () if metered.usage is None else usage_headers(metered.usage)
        if metered.body is None:
            return error(metered.outcome, *usage)
        if metered.outcome == "replayed":
            return Reply(200, (*usage, ("Idempotency-Replayed", "true")), metered.body, replayed=True)
        return Reply(200, usage, metered.body, units=charge.units)

    return Pending(meter_request(holder, key, charge), conclude, _COMMIT_FAILED)


class Endpoint(ABC):
    """Checks the form of the API key and the throttle of unknown keys, which come first for every endpoint."""

    def __init__(self, throttle: UnknownKeyThrottle) -> None:
        self._throttle = throttle

    def judge(
        self, head: Head, body: bytes = b"", is_limited: Callable[[Credential], bool] = lambda _: False
    ) -> Judgement:
        """Returns the reply, or the command for the ledger. Of a too large body, one byte over the limit is enough.

        An account that `is_limited` is refused before anything is computed.
        """
        holder = _credential(head)
        if holder is None:
            return _UNAUTHORIZED
        if is_limited(holder) or self._throttle.refuses(holder, head):
            return msgspec.structs.replace(_RATE_LIMITED, account=holder.account_id)
        pending = self.decide(holder, head, body)

        def conclude(answer: object) -> Reply:
            reply = pending.conclude(answer)
            if reply.status == _UNAUTHORIZED.status:
                self._throttle.key_refused(holder, head)
            else:
                self._throttle.key_accepted(holder)
            return reply

        return Pending(pending.command, conclude, pending.unavailable)

    @abstractmethod
    def decide(self, holder: Credential, head: Head, body: bytes) -> Pending[Any]:
        """Returns the command for the ledger, for a request with a well-formed key."""


class LibraryEndpoint(Endpoint):
    """Answers GET /v1/library."""

    def __init__(self, throttle: UnknownKeyThrottle, metadata: bytes) -> None:
        super().__init__(throttle)
        self._reply = Reply(200, body=metadata)

    def decide(self, holder: Credential, head: Head, body: bytes) -> Pending[str]:  # noqa: ARG002
        """Admits the request, then gives everybody the same answer."""
        return _admitted(holder, self._reply, _LEDGER_DOWN)


class UsageEndpoint(Endpoint):
    """Answers GET /v1/usage."""

    def decide(self, holder: Credential, head: Head, body: bytes) -> Pending[UsageReport]:  # noqa: ARG002
        """Admits the request and reads all meters."""

        def conclude(report: UsageReport) -> Reply:
            if report.outcome != "ok":
                return error(report.outcome)
            # Here the account is active.
            body = {
                "outcome": "ok",
                "accountId": holder.account_id,
                "planId": report.plan_id,
                "status": "active",
                "usage": [meter.as_dict() for meter in report.usage],
            }
            return Reply(200, body=msgspec.json.encode(body))

        return Pending(read_usage(holder), conclude, _LEDGER_DOWN)


class MatchEndpoint(Endpoint):
    """Answers POST /v1/match."""

    def __init__(self, throttle: UnknownKeyThrottle, matcher: Matcher) -> None:
        super().__init__(throttle)
        self._matcher = matcher

    def decide(self, holder: Credential, head: Head, body: bytes) -> Pending[Any]:
        """Computes the response, then charges for it."""
        try:
            key = _idempotency_key(head)
            request = _match_input(head, body)
        except InputError as refusal:
            return _admitted(holder, error(refusal.code), _COMMIT_FAILED)
        charge = Charge("color_match", request.units, request.fingerprint(), self._matcher.answer(request))
        return _metered(holder, key, charge)


def _match_input(head: Head, body: bytes) -> MatchInput:
    media_type = (head.header("Content-Type") or "").partition(";")[0].strip().lower()
    if media_type != JSON or head.header("Content-Encoding") is not None:
        raise InputError("unsupported_media_type")
    if len(body) > limits.BODY_BYTES:
        raise InputError("payload_too_large")
    if len(body) < _declared_length(head):  # incomplete: it may look whole, but the client is gone
        raise InputError("invalid_json")
    request = parse_match(body)
    if head.query_string:
        raise InputError("unknown_parameter")
    return request


def _declared_length(head: Head) -> int:
    """Returns the Content-Length; an invalid one counts as longer than any body."""
    length = head.header("Content-Length") or "0"
    return int(length) if length.isdecimal() and len(length) <= limits.LENGTH_DIGITS else limits.BODY_BYTES + 1


class SearchEndpoint(Endpoint):
    """Answers GET /v1/search."""

    def __init__(self, throttle: UnknownKeyThrottle, searcher: Searcher) -> None:
        super().__init__(throttle)
        self._searcher = searcher

    def decide(self, holder: Credential, head: Head, body: bytes) -> Pending[Any]:  # noqa: ARG002
        """Computes the response, then charges for it."""
        try:
            key = _idempotency_key(head)
            request = parse_search(head.query_string)
        except InputError as refusal:
            return _admitted(holder, error(refusal.code), _COMMIT_FAILED)
        charge = Charge("color_search", 1, request.fingerprint(), self._searcher.answer(request))
        return _metered(holder, key, charge)
