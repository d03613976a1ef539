"""Histories that are true: clients and a ledger in plain Python, by the rules of the interface, on simulated time."""

import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import count

from tests.faults.consistency import Ledger, Stored
from tests.faults.crossings import Event, Recorded
from tests.faults.history import UNANSWERED, Change, Counter, History, Outcome, Request, Terms, Told

from sepu.metering.meters import METERS


def terms(match: int = 10**6, search: int = 10**6, per_minute: int = 10**6) -> Terms:
    return Terms(dict(zip(METERS, (match, search), strict=True)), per_minute)


# Of each account what it may be allowed: the first at first, and others when the operator says so.
PLANS = {
    "ample": [terms()],
    "scarce": [terms(40, 15)],
    "slow": [terms(per_minute=20)],
    "varied": [terms(), terms(30, 10), terms(80, 20, 5), terms(per_minute=10)],
}


THRESHOLDS = (1, 10, 33, 80, 95, 100)


@dataclass
class Row:
    """An attempt, as it can be changed."""

    request: Request
    start: float
    end: float
    told: Told


@dataclass
class Scene:
    """What clients saw, and what the ledger holds."""

    rows: list[Row]
    stored: dict[tuple[str, str], Stored]
    committed: dict[Counter, int]
    terms: dict[str, Terms] = field(default_factory=lambda: {name: plans[0] for name, plans in PLANS.items()})
    changes: list[Change] = field(default_factory=list)  # of "varied"
    forgotten: list[tuple[float, float]] = field(default_factory=list)
    events: dict[Counter, set[Event]] = field(default_factory=dict)

    @property
    def recorded(self) -> Recorded:
        return Recorded(self.events, {(name, meter): THRESHOLDS for name in PLANS for meter in METERS})

    @property
    def history(self) -> History:
        history = History()
        for row in self.rows:
            history.add(row.request, row.start, row.end, row.told)
        history.changes["varied"] = self.changes
        history.forgotten = self.forgotten
        return history

    @property
    def ledger(self) -> Ledger:
        return Ledger(self.stored, self.committed, self.terms)


@dataclass
class _Account:
    """What the ledger knows of an account."""

    window: float = float("-inf")
    requests: int = 0
    held: dict[str, Request] = field(default_factory=dict)  # the requests that run, by their keys
    fingerprints: dict[str, int] = field(default_factory=dict)  # of what is stored

    def counts(self, now: float, per_minute: int) -> bool:
        """One request more, if it is within the abuse limit."""
        if now - self.window >= 60:
            if per_minute == 0:
                return False
            self.window, self.requests = now, 0
        if self.requests >= per_minute:
            return False
        self.requests += 1
        return True


def simulate(seed: int, attempts: int, clients: int = 8, cut: float = 0.08, think: float = 0.05) -> Scene:
    """Has clients ask, retry, race each other, misuse keys and lose connections; the month ends midway.

    An attempt arrives, is looked at, is decided and committed, and is answered, at instants of its own; of one that is
    cut the client learns nothing: it never arrives, its answer is lost, or it goes on when he has given up. Clients
    think for so many seconds between two attempts. Plans change meanwhile, and Postgres crashes.
    """
    rng = random.Random(seed)
    accounts = {name: _Account() for name in PLANS}
    scene = Scene([], {}, {})
    events: list[tuple[float, int, Iterator[float]]] = []
    order = count()
    asked: list[Request] = []
    turn = attempts * think / clients  # the month ends there

    def period(now: float) -> str:
        return "2031-03" if now < turn else "2031-04"

    def read(outcome: Outcome, name: str, meter: str, month: str, limit: int) -> Told:
        committed = scene.committed.get(Counter(name, meter, month), 0)
        return Told(outcome, meter, month, limit, committed, 0, max(0, limit - committed))

    def serve(request: Request, now: float) -> Iterator[tuple[float, Told | None]]:
        """Goes on by steps; each gives how long it takes, and the last the answer."""
        account, name = accounts[request.account_id], (request.account_id, request.key)
        holder = account.held.get(request.key)
        fingerprint = account.fingerprints.get(request.key)
        if not account.counts(now, scene.terms[request.account_id].per_minute):
            yield 0, Told(Outcome.RATE_LIMITED)
        elif request.meter == "library":
            yield 0, Told(Outcome.ADMITTED)
        elif request.meter == "usage":
            yield 0, Told(Outcome.ADMITTED)
            for meter in METERS:
                limit = scene.terms[request.account_id].units[meter]
                yield rng.expovariate(100), None
                yield 0, read(Outcome.READ, request.account_id, meter, period(now), limit)
        elif fingerprint not in {None, request.content} or (holder and holder != request and fingerprint is None):
            yield 0, Told(Outcome.CONFLICT)
        elif fingerprint is not None:
            stored = scene.stored[name]
            limit = scene.terms[request.account_id].units[request.meter]
            told = read(Outcome.REPLAYED, request.account_id, request.meter, stored.period, limit)
            yield 0, told._replace(body=stored.body)
        elif holder:
            yield 0, Told(Outcome.IN_PROGRESS)
        else:
            account.held[request.key] = request
            limit = scene.terms[request.account_id].units[request.meter]
            yield rng.expovariate(50), None
            month = period(now)
            counter = Counter(request.account_id, request.meter, month)
            crossed: list[int] = []
            del account.held[request.key]
            if scene.committed.get(counter, 0) + request.units > limit:
                yield 0, read(Outcome.QUOTA_EXCEEDED, *counter, limit)
            else:
                for _ in range(request.units):
                    scene.committed[counter] = scene.committed.get(counter, 0) + 1
                    # Unit by unit: what a whole percent has just been reached of.
                    reached = [n for n in THRESHOLDS if (scene.committed[counter] - 1) * 100 < limit * n]
                    crossed += [n for n in reached if scene.committed[counter] * 100 >= limit * n]
                for threshold in crossed:
                    event = Event(threshold, limit, scene.committed[counter])
                    scene.events.setdefault(counter, set()).add(event)
                body = hash((request, "body"))
                scene.stored[name] = Stored(request.meter, month, request.units, body)
                account.fingerprints[request.key] = request.content
                yield 0, read(Outcome.CHARGED, *counter, limit)._replace(body=body)

    def serving(request: Request, now: float, told: list[Told]) -> Iterator[float]:
        for pause, answer in serve(request, now):
            if answer is not None:
                told.append(answer)
            else:
                yield pause

    def choose() -> Request:
        if asked and rng.random() < 0.45:
            request = rng.choice(asked[-12:])
            return request._replace(content=rng.randrange(10**6)) if rng.random() < 0.1 else request
        meter = rng.choices((*METERS, "usage", "library"), (6, 3, 1, 1))[0]
        units = {"color_match": rng.randint(1, 5), "color_search": 1}.get(meter, 0)
        name = rng.choice(list(PLANS))
        request = Request(name, f"key-{len(asked):05}", meter, units, rng.randrange(10**6))
        asked.append(request)
        return request

    def client() -> Iterator[float]:
        """Yields how long each of its steps takes."""
        while len(scene.rows) < attempts:
            request = choose()
            start, told = clock, list[Told]()
            lost = rng.choice(["request", "answer", "patience"]) if rng.random() < cut else ""
            yield rng.expovariate(100)
            if lost != "request":
                steps = serving(request, clock, told)
                if lost == "patience":  # it goes on, and nobody waits for it
                    heappush(events, (clock, next(order), steps))
                    yield rng.expovariate(50)
                else:
                    yield from steps
                    yield rng.expovariate(100)
            else:
                yield rng.expovariate(50)
            scene.rows += [Row(request, start, clock, one) for one in ([UNANSWERED] if lost else told)]
            yield rng.expovariate(1 / think)

    def operator() -> Iterator[float]:
        """Changes what an account is allowed, and crashes Postgres."""
        while len(scene.rows) < attempts:
            yield rng.expovariate(1 / (think * 20))
            start, before = clock, scene.terms["varied"]
            yield rng.expovariate(50)
            if rng.random() < 0.8:
                scene.terms["varied"] = rng.choice(PLANS["varied"])
                yield rng.expovariate(50)
                scene.changes.append(Change(start, clock, before))
            else:
                for account in accounts.values():
                    account.window = float("-inf")
                yield rng.expovariate(50)
                scene.forgotten.append((start, clock))

    clock = 0.0
    for steps in (*(client() for _ in range(clients)), operator()):
        heappush(events, (rng.random() * 0.01, next(order), steps))
    while events:
        clock, _, steps = heappop(events)
        if (pause := next(steps, None)) is not None:
            heappush(events, (clock + pause, next(order), steps))
    return scene
