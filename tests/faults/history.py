"""What each attempt sent, when, and what it was told, for `tests.faults.consistency` to check."""

import time
from collections import defaultdict
from collections.abc import Callable, Mapping
from enum import IntEnum
from hashlib import blake2b
from typing import NamedTuple

from tests.harness.serving import ONE_COLOUR, Response, Server

from sepu.admin.keys import IssuedKey


class Outcome(IntEnum):
    """What an attempt came to, by its answer."""

    CHARGED = 0
    REPLAYED = 1
    QUOTA_EXCEEDED = 2
    IN_PROGRESS = 3
    CONFLICT = 4
    RATE_LIMITED = 5
    ADMITTED = 6  # a call of usage or library, answered
    READ = 7  # what such an answer says of a meter: kept beside the attempt, and none itself
    REFUSED = 8  # otherwise: it charged nothing
    UNKNOWN = 9  # no answer, or one that does not tell what happened: it may yet charge, even after the client gave up


CODES = {
    "quota_exceeded": Outcome.QUOTA_EXCEEDED,
    "request_in_progress": Outcome.IN_PROGRESS,
    "idempotency_conflict": Outcome.CONFLICT,
    "rate_limited": Outcome.RATE_LIMITED,
}


class Counter(NamedTuple):
    """One meter of an account in a month."""

    account_id: str
    meter: str
    period: str


class Request(NamedTuple):
    """A logical request; `content` stands for the input, so that two with one key can be told apart.

    A call of usage or library has no unit, its own name for a meter, and a key that is not sent.
    """

    account_id: str
    key: str
    meter: str
    units: int
    content: int


class Told(NamedTuple):
    """What an answer says, or that there is none. `body` is a digest, and 0 if nobody looked at it."""

    outcome: Outcome
    meter: str = ""
    period: str = ""
    limit: int = 0
    committed: int = 0
    reserved: int = 0
    remaining: int = 0
    body: int = 0


class Terms(NamedTuple):
    """What a plan allows."""

    units: Mapping[str, int]  # a month, by meter
    per_minute: int


class Change(NamedTuple):
    """What an account was allowed until an instant between these two, when the operator changed it."""

    start: float
    end: float
    before: Terms


class Adjustment(NamedTuple):
    """Units that the operator granted of a counter, or credited, at an instant between these."""

    start: float
    end: float
    units: int


UNANSWERED = Told(Outcome.UNKNOWN)


def digest(data: bytes) -> int:
    """Sixty-four bits that stand for some bytes."""
    return int.from_bytes(blake2b(data, digest_size=8).digest(), signed=True)


def told_by(request: Request, answer: Response) -> list[Told]:
    """Reads an answer: what it comes to, and of usage what it says of each meter.

    What is missing of a meter's usage is -1, which no ledger says.
    """
    if answer.status >= 500:
        return [UNANSWERED]
    if answer.status != 200:
        outcome = CODES.get(answer.error or "", Outcome.REFUSED)
    elif request.units == 0:
        read = answer.json.get("usage", ())
        return [Told(Outcome.ADMITTED), *(_usage(Outcome.READ, usage) for usage in read)]
    else:
        is_replay = answer.headers.get("idempotency-replayed") == "true"
        outcome = Outcome.REPLAYED if is_replay else Outcome.CHARGED
    if outcome not in {Outcome.CHARGED, Outcome.REPLAYED, Outcome.QUOTA_EXCEEDED}:
        return [Told(outcome)]
    headers = {name.removeprefix("x-usage-"): value for name, value in answer.headers.items()}
    return [_usage(outcome, headers)._replace(body=digest(answer.body))]


def _usage(outcome: Outcome, usage: Mapping[str, str | int]) -> Told:
    limit, committed, reserved, remaining = (
        int(usage.get(name, -1)) for name in ("limit", "committed", "reserved", "remaining")
    )
    meter, period = str(usage.get("meter", "")), str(usage.get("period", ""))
    return Told(outcome, meter, period, limit, committed, reserved, remaining)


class Attempt(NamedTuple):
    """A request as it was sent once: it began before that, and ended when its answer was read or given up."""

    request: Request
    start: float
    end: float
    told: Told


class History:
    """The attempts of one client process, by its monotonic clock, and what an operator did meanwhile."""

    def __init__(self) -> None:
        self.attempts: list[Attempt] = []
        self.changes: defaultdict[str, list[Change]] = defaultdict(list)  # of each account, in order
        self.grants: defaultdict[Counter, list[Adjustment]] = defaultdict(list)  # in order, as the credits
        self.credits: defaultdict[Counter, list[Adjustment]] = defaultdict(list)
        self.forgotten: list[tuple[float, float]] = []  # Postgres crashed, and forgot the requests of the minute

    def add(self, request: Request, start: float, end: float, *all_told: Told) -> None:
        """Keeps an attempt; from any thread."""
        self.attempts += [Attempt(request, start, end, told) for told in all_told]

    def keep(self, request: Request, ask: Callable[[], Response]) -> Response:
        """Asks, and keeps what came of it; from any thread."""
        start, told = time.monotonic(), [UNANSWERED]
        try:
            answer = ask()
            told = told_by(request, answer)
        finally:
            self.add(request, start, time.monotonic(), *told)
        return answer

    def match(self, server: Server, issued: IssuedKey, key: str) -> Response:
        """Matches one colour, and keeps what came of it."""
        request = Request(issued.account_id, key, "color_match", 1, digest(ONE_COLOUR))
        return self.keep(request, lambda: server.match(issued, key))

    def accounts(self) -> list[str]:
        """Those that asked."""
        return sorted({one.request.account_id for one in self.attempts})
