"""Decides on requests to four endpoints: each checks a request in the contract's order, without I/O.

An endpoint answers immediately (`Reply`), or with the command for the ledger, whose answer is the reply.
Invalid input is refused only after the ledger has admitted the request, because the account and the abuse limit come
first.
"""

import re
from abc import ABC, abstractmethod

import msgspec

from sepu import limits
from sepu.errors import InputError
from sepu.http.replies import JSON, Reply, error, header_lines, usage_headers
from sepu.http.request import (
    AUTHORIZATION,
    CONTENT_ENCODING,
    CONTENT_LENGTH,
    CONTENT_TYPE,
    IDEMPOTENCY_KEY,
    TimedRequest,
)
from sepu.metering.callers import Callers
from sepu.metering.commands import Charge, Command, Metered, UsageReport, admit, meter_request, read_usage
from sepu.metering.failure import LedgerUnavailable
from sepu.metering.key_format import Credential
from sepu.metering.meters import METERS
from sepu.operations.match import Matcher, MatchInput, parse_match
from sepu.operations.search import Searcher, parse_search

_BEARER = re.compile(r"bearer +(\S+)", re.ASCII | re.IGNORECASE)
_KEY_FORM = re.compile(r"[A-Za-z0-9._:-]{8,128}", re.ASCII)


# An unknown meter fails here, when the service starts.
_MATCH = METERS["color_match"]
_SEARCH = METERS["color_search"]

_REPLAYED = header_lines(("Idempotency-Replayed", "true"))
_UNAUTHORIZED = error("unauthorized")
_LEDGER_DOWN = error("internal_error")
_COMMIT_FAILED = error("usage_commit_failed")


def _api_key(head: TimedRequest) -> str | None:
    form = _BEARER.fullmatch(head.env.get(AUTHORIZATION, ""))
    return form and form[1]


def _idempotency_key(head: TimedRequest) -> str:
    key: str | None = head.env.get(IDEMPOTENCY_KEY)
    if key is None:
        raise InputError("idempotency_key_required")
    if not _KEY_FORM.fullmatch(key):
        raise InputError("idempotency_key_invalid")
    return key


def _metered_reply(metered: Metered) -> Reply:
    """Returns the reply: the body of this charge or of an earlier one, or the refusal."""
    usage = metered.usage
    if usage is None:
        return error(metered.outcome)
    if metered.body is None:
        return error(metered.outcome, usage_headers(usage))
    if metered.outcome == "replayed":
        return Reply(200, usage_headers(usage) + _REPLAYED, metered.body, meter=usage.meter, replayed=True)
    return Reply(200, usage_headers(usage), metered.body, meter=usage.meter, units=metered.units)


class Endpoint(ABC):
    """Decides on requests to one endpoint. Checks the API key; a subclass checks the rest."""

    unavailable = _LEDGER_DOWN

    def decide(self, head: TimedRequest, body: bytes, callers: Callers) -> Reply | Command[Reply]:
        """Returns the reply, or the command whose answer it is. `body` needs at most one byte beyond the limit.

        Computes nothing before the key is recognised, and nothing for a key that the ledger has just refused.
        """
        key = _api_key(head)
        try:
            credential = key and callers.recognise(key)
        except LedgerUnavailable:
            return self.unavailable
        if not credential:
            return _UNAUTHORIZED
        if (code := callers.refusal(credential)) is not None:
            return msgspec.structs.replace(error(code), credential=credential)
        return self._command(credential, head, body)

    @abstractmethod
    def _command(self, credential: Credential, head: TimedRequest, body: bytes) -> Command[Reply]:
        """Returns the command for a request. The ledger has not accepted the key yet."""

    def _admitted(self, credential: Credential, reply: Reply) -> Command[Reply]:
        """Returns the command that admits a request. If the ledger does, the answer is `reply`."""
        return admit(credential, lambda outcome: reply if outcome == "ok" else error(outcome), self.unavailable)


class LibraryEndpoint(Endpoint):
    """Answers GET /v1/library."""

    def __init__(self, metadata: bytes) -> None:
        self._reply = Reply(200, body=metadata)

    def _command(self, credential: Credential, head: TimedRequest, body: bytes) -> Command[Reply]:  # noqa: ARG002
        return self._admitted(credential, self._reply)


class UsageEndpoint(Endpoint):
    """Answers GET /v1/usage."""

    def _command(self, credential: Credential, head: TimedRequest, body: bytes) -> Command[Reply]:  # noqa: ARG002
        def reply(report: UsageReport) -> Reply:
            if report.outcome != "ok":
                return error(report.outcome)
            # The outcome is ok, so the account is active.
            body = {
                "outcome": "ok",
                "accountId": credential.account_id,
                "planId": report.plan_id,
                "status": "active",
                "usage": [meter.as_dict() for meter in report.usage],
            }
            return Reply(200, body=msgspec.json.encode(body))

        return read_usage(credential, reply, self.unavailable)


class MeteredEndpoint(Endpoint):
    """Computes the response, then charges for it."""

    unavailable = _COMMIT_FAILED

    def _command(self, credential: Credential, head: TimedRequest, body: bytes) -> Command[Reply]:
        try:
            key = _idempotency_key(head)
            charge = self._charge(head, body)
        except InputError as refusal:
            return self._admitted(credential, error(refusal.code, pointer=refusal.pointer))
        return meter_request(credential, key, charge, head.request_id, _metered_reply, self.unavailable)

    @abstractmethod
    def _charge(self, head: TimedRequest, body: bytes) -> Charge:
        """Returns what to charge. Raises InputError."""


class MatchEndpoint(MeteredEndpoint):
    """Answers POST /v1/match."""

    def __init__(self, matcher: Matcher) -> None:
        self._matcher = matcher

    def _charge(self, head: TimedRequest, body: bytes) -> Charge:
        request = _match_input(head, body)
        return Charge(_MATCH.name, request.units, request.fingerprint(), self._matcher.answer(request))


class SearchEndpoint(MeteredEndpoint):
    """Answers GET /v1/search."""

    def __init__(self, searcher: Searcher) -> None:
        self._searcher = searcher

    def _charge(self, head: TimedRequest, body: bytes) -> Charge:  # noqa: ARG002
        request = parse_search(head.query_string)
        return Charge(_SEARCH.name, 1, request.fingerprint(), self._searcher.answer(request))


def _match_input(head: TimedRequest, body: bytes) -> MatchInput:
    env = head.env
    media_type = env.get(CONTENT_TYPE, "")
    if (media_type != JSON and media_type.partition(";")[0].strip().lower() != JSON) or CONTENT_ENCODING in env:
        raise InputError("unsupported_media_type")
    if len(body) > limits.requests.BODY_BYTES:
        raise InputError("payload_too_large")
    if len(body) < _declared_length(head):  # incomplete, even if it looks whole: the client has gone
        raise InputError("invalid_json")
    request = parse_match(body)
    if head.query_string:
        raise InputError("unknown_parameter")
    return request


def _declared_length(head: TimedRequest) -> int:
    """Returns the Content-Length; an invalid one counts as longer than any body."""
    length = head.env.get(CONTENT_LENGTH, "0")
    valid = length.isdecimal() and len(length) <= limits.requests.LENGTH_DIGITS
    return int(length) if valid else limits.requests.BODY_BYTES + 1
