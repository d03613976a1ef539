"""Histories that are true: clients and a ledger in plain Python, by the rules of the interface, on simulated time."""

import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import count

from tests.faults.consistency import Ledger, Stored
from tests.faults.history import UNANSWERED, Counter, History, Outcome, Request, Told

from sepu.metering.meters import METERS

PLANS = {"ample": (10**6, 10**6, 10**6), "scarce": (40, 15, 10**6), "slow": (10**6, 10**6, 20)}


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

    @property
    def history(self) -> History:
        history = History()
        for row in self.rows:
            history.add(row.request, row.start, row.end, row.told)
        return history

    @property
    def ledger(self) -> Ledger:
        limits: dict[tuple[str, str], int] = {
            (name, meter): limit for name, plan in PLANS.items() for meter, limit in zip(METERS, plan, strict=False)
        }
        return Ledger(self.stored, self.committed, limits, {name: plan[2] for name, plan in PLANS.items()})


@dataclass
class _Account:
    """What the ledger knows of an account."""

    limits: dict[str, int]
    per_minute: int
    window: float = float("-inf")
    requests: int = 0
    held: dict[str, Request] = field(default_factory=dict)  # the requests that run, by their keys
    fingerprints: dict[str, int] = field(default_factory=dict)  # of what is stored

    def counts(self, now: float) -> bool:
        """One request more, if it is within the abuse limit."""
        if now - self.window >= 60:
            self.window, self.requests = now, 0
        self.requests += 1
        return self.requests <= self.per_minute


def simulate(seed: int, attempts: int, clients: int = 8, cut: float = 0.08, think: float = 0.05) -> Scene:
    """Has clients ask, retry, race each other, misuse keys and lose connections; the month ends midway.

    An attempt arrives, is looked at, is decided and committed, and is answered, at instants of its own; of one that is
    cut the client learns nothing: it never arrives, its answer is lost, or it goes on when he has given up. Clients
    think for so many seconds between two attempts.
    """
    rng = random.Random(seed)
    accounts = {name: _Account(dict(zip(METERS, plan, strict=False)), plan[2]) for name, plan in PLANS.items()}
    scene = Scene([], {}, {})
    events: list[tuple[float, int, Iterator[float]]] = []
    order = count()
    asked: list[Request] = []
    turn = attempts * think / clients  # the month ends there

    def period(now: float) -> str:
        return "2031-03" if now < turn else "2031-04"

    def usage(outcome: Outcome, request: Request, month: str, body: int = 0) -> Told:
        limit = accounts[request.account_id].limits[request.meter]
        committed = scene.committed.get(Counter(request.account_id, request.meter, month), 0)
        return Told(outcome, request.meter, month, limit, committed, 0, max(0, limit - committed), body)

    def serve(request: Request, now: float) -> Iterator[tuple[float, Told | None]]:
        """Goes on by steps; each gives how long it takes, and the last the answer."""
        account, name = accounts[request.account_id], (request.account_id, request.key)
        holder = account.held.get(request.key)
        fingerprint = account.fingerprints.get(request.key)
        if not account.counts(now):
            yield 0, Told(Outcome.RATE_LIMITED)
        elif fingerprint not in {None, request.content} or (holder and holder != request and fingerprint is None):
            yield 0, Told(Outcome.CONFLICT)
        elif fingerprint is not None:
            stored = scene.stored[name]
            yield 0, usage(Outcome.REPLAYED, request, stored.period, stored.body)
        elif holder:
            yield 0, Told(Outcome.IN_PROGRESS)
        else:
            account.held[request.key] = request
            yield rng.expovariate(50), None
            month = period(now)
            counter = Counter(request.account_id, request.meter, month)
            del account.held[request.key]
            if scene.committed.get(counter, 0) + request.units > account.limits[request.meter]:
                yield 0, usage(Outcome.QUOTA_EXCEEDED, request, month)
            else:
                scene.committed[counter] = scene.committed.get(counter, 0) + request.units
                body = hash((request, "body"))
                scene.stored[name] = Stored(request.meter, month, request.units, body)
                account.fingerprints[request.key] = request.content
                yield 0, usage(Outcome.CHARGED, request, month, body)

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
        meter = tuple(METERS)[rng.random() < 0.3]
        units = 1 if meter == "color_search" else rng.randint(1, 5)
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
            scene.rows.append(Row(request, start, clock, UNANSWERED if lost else told[0]))
            yield rng.expovariate(1 / think)

    clock = 0.0
    for _ in range(clients):
        heappush(events, (rng.random() * 0.01, next(order), client()))
    while events:
        clock, _, steps = heappop(events)
        if (pause := next(steps, None)) is not None:
            heappush(events, (clock + pause, next(order), steps))
    return scene
