"""The steps of the ledger's functions in every interleaving of two sessions, with a crash after each: a model.

Three requests, of any accounts, keys and inputs, each in a call of its own or two of them in one; so a request may be
the retry of one that crashed. The month turns at any time, and then a prune may run. The steps are those of `meter_one`
and `prune_results` in `sql/functions.sql`: what one statement there does to shared state is one step here. Locks and
rows behave as Postgres's at READ COMMITTED. Events are no steps: a charge writes them under its counter's lock. A crash
after the commit leaves what an answer leaves.
"""

from collections import deque
from collections.abc import Iterable, Iterator
from itertools import permutations, product
from typing import Literal, NamedTuple, TypeVar

import pytest

LIMIT = 2  # units of a month; each request is of one


K = TypeVar("K")
V = TypeVar("V")


class Request(NamedTuple):
    account: str
    key: str
    what: str  # the input


Row = tuple[str, int]  # an account's counter of a month


class Counter(NamedTuple):
    committed: int = 0
    pruned: int = 0


class Stored(NamedTuple):
    what: str
    month: int
    body: int  # the request that was charged


Usage = tuple[tuple[Row, Counter], ...]
Results = tuple[tuple[tuple[str, str], Stored], ...]

Lock = tuple[str, ...]  # an account and a key, and for the first of two an input
Step = Literal["lock input", "lock key", "read", "charge", "look", "open", "store", "commit"]


class Transaction(NamedTuple):
    """A call under way: the requests that it still has, and what it has written and not committed."""

    requests: tuple[int, ...]
    month: int
    step: Step
    begun: frozenset[int] = frozenset()
    input_free: bool = False
    key_free: bool = False
    rivals: frozenset[str] = frozenset()  # inputs that ran with the key when a lock was not had
    found: Stored | None = None
    locks: frozenset[Lock] = frozenset()
    usage: Usage = ()
    stored: Results = ()
    charged: bool = False


class Prune(NamedTuple):
    """A prune of the first account's first month."""

    step: Literal["idle", "lock", "delete", "count", "commit", "done"] = "idle"
    usage: Usage = ()
    gone: Results = ()


class State(NamedTuple):
    usage: Usage = ()
    stored: Results = ()
    month: int = 1
    waiting: frozenset[tuple[int, ...]] = frozenset()
    sessions: tuple[Transaction, ...] = ()
    prune: Prune = Prune()
    gone: frozenset[int] = frozenset()  # requests whose results were pruned
    stuck: frozenset[Lock] = frozenset()  # locks that nobody gives back


class Broken(Exception):  # noqa: N818
    """An invariant does not hold."""


class Blocked(Exception):  # noqa: N818
    """The step waits for another's row."""


class Model:
    """Makes each next state of a state. `fault` names what is done otherwise than in the functions."""

    def __init__(self, requests: tuple[Request, ...], fault: str = "") -> None:
        self.requests = requests
        self.fault = fault
        self._order: tuple[Step, ...] = ("lock input", "lock key", "read")
        if fault == "reads before it locks":
            self._order = ("read", "lock input", "lock key")

    def next_states(self, state: State) -> Iterator[State]:
        """Everything that can happen next, crashes too."""
        active = [*state.sessions] if state.prune.step in ("idle", "done") else [*state.sessions, state.prune]
        moved = False
        for at, transaction in enumerate(state.sessions):
            others = state.sessions[:at] + state.sessions[at + 1 :]
            # Its client dies, or the server.
            stuck = transaction.locks if self.fault == "locks are the session's" else frozenset()
            yield state._replace(sessions=others, stuck=state.stuck | stuck)
            try:
                yield from self._step(state, transaction, others)
                moved = True
            except Blocked:
                pass
        if state.prune in active:
            yield state._replace(prune=Prune())
            try:
                yield self._prune(state)
                moved = True
            except Blocked:
                pass
        if active and not moved:
            raise Broken("all wait for each other")
        if len(state.sessions) < 2:
            for call in state.waiting:
                begun = Transaction(call, state.month, self._order[0])
                yield state._replace(waiting=state.waiting - {call}, sessions=_sorted((*state.sessions, begun)))
        if state.month == 1:
            yield state._replace(month=2)
        elif state.prune.step == "idle":
            yield state._replace(prune=Prune("lock"))

    def check(self, state: State) -> None:
        """What holds of the committed rows, at every moment."""
        for row, counter in state.usage:
            units = sum((key[0], result.month) == row for key, result in state.stored)
            if counter.committed != counter.pruned + units:
                raise Broken("committed units are not the pruned and the stored")
            if counter.committed > LIMIT:
                raise Broken("the quota is exceeded")
        if sum(counter.committed for _, counter in state.usage) != len(state.stored) + len(state.gone):
            raise Broken("a result was charged to no counter")
        keys = [key for key, _ in state.stored]
        if len(keys) != len(set(keys)):
            raise Broken("a key is charged twice")

    # --- A call

    def _step(self, state: State, own: Transaction, others: tuple[Transaction, ...]) -> Iterator[State]:
        if own.step != "commit":
            yield state._replace(sessions=_sorted((*others, self._executed(state, own, others))))
            return
        if not own.charged and (own.usage or own.stored):
            raise Broken("a refused request changes something")
        stored = (*state.stored, *own.stored) if self.fault in _KEYLESS else _merged(state.stored, own.stored)
        yield state._replace(usage=_merged(state.usage, own.usage), stored=tuple(sorted(stored)), sessions=others)

    def _executed(self, state: State, own: Transaction, others: tuple[Transaction, ...]) -> Transaction:
        """What the next statement of a call does, but for its commit."""
        number = own.requests[0]
        request = self.requests[number]
        key, row = (request.account, request.key), (request.account, own.month)
        own = own._replace(begun=own.begun | {number})
        match own.step:
            case "lock input" | "lock key":
                return self._lock(state, own, others, request)
            case "read":
                own = own._replace(found=dict(own.stored).get(key, dict(state.stored).get(key)))
                return self._after(own, request)
            case "charge":
                seen = _seen(state, own, row)
                if seen is None or (seen.committed + 1 > LIMIT and self.fault != "the quota is not looked at"):
                    return own._replace(step="look")  # what does not fit is not locked, and not waited for
                if self.fault != "rows are not locked":
                    _wait_for(row, others, state.prune)
                charged = seen._replace(committed=seen.committed + 1)
                return own._replace(step="store", usage=_merged(own.usage, ((row, charged),)))
            case "look":
                seen = _seen(state, own, row) or Counter()
                return self._ended(own) if seen.committed + 1 > LIMIT else own._replace(step="open")
            case "open":
                if row not in dict(state.usage):
                    _wait_for(row, others, state.prune)
                    own = own._replace(usage=_merged(((row, Counter()),), own.usage))
                return own._replace(step="charge")
            case "store":
                if self.fault not in _KEYLESS:
                    if any(key in dict(other.stored) for other in others):
                        raise Blocked
                    if key in dict(state.stored):
                        raise Broken("the primary key has to refuse an execution")
                month = state.month if self.fault == "the month is looked up again" else own.month
                result = (key, Stored(request.what, month, number))
                stored = own.stored if self.fault == "the result is not stored" else (*own.stored, result)
                return self._ended(own._replace(charged=True, stored=stored))
        raise AssertionError(own.step)

    def _lock(self, state: State, own: Transaction, others: tuple[Transaction, ...], request: Request) -> Transaction:
        key: Lock = (request.account, request.key)
        is_first = own.step == "lock input"
        lock = (*key, request.what) if is_first != (self.fault == "the key is locked first") else key
        holders = [other for other in others if lock in other.locks]
        if (holders or lock in state.stuck) and self.fault not in _LOCKLESS:
            rivals = {
                self.requests[rival].what
                for other in others
                for rival in other.begun
                if self.requests[rival][:2] == key and other.locks & {key, tuple(self.requests[rival])}
            }
            own = own._replace(rivals=frozenset(rivals), step="lock key")  # the second is not tried then
            return self._after(own, request)
        own = own._replace(locks=own.locks | {lock})
        return self._after(own._replace(input_free=True) if is_first else own._replace(key_free=True), request)

    def _after(self, own: Transaction, request: Request) -> Transaction:
        """Goes on to the next of the first steps, and after the last one decides."""
        at = self._order.index(own.step) + 1
        if at < len(self._order):
            return own._replace(step=self._order[at])
        found = own.found
        if found is not None:
            if found.what == request.what:
                body = own.requests[0] if self.fault == "a replay has its own body" else found.body
                if body != found.body or self.requests[found.body] != request:
                    raise Broken("a replay is not of the first body")
            return self._ended(own)  # replayed, or a conflict
        if own.input_free and own.key_free:
            return own._replace(step="charge")
        if own.input_free and not own.rivals - {request.what}:
            raise Broken("a conflict with nobody")
        if not own.input_free and request.what not in own.rivals:
            raise Broken("in progress, and nobody runs this input")
        return self._ended(own)

    def _ended(self, own: Transaction) -> Transaction:
        """Goes on to the next request of the call."""
        if not own.requests[1:]:
            return own._replace(requests=(), step="commit", found=None)
        return own._replace(
            requests=own.requests[1:],
            step=self._order[0],
            input_free=False,
            key_free=False,
            rivals=frozenset(),
            found=None,
        )

    # --- A prune

    def _prune(self, state: State) -> State:
        own = state.prune
        row = (self.requests[0].account, 1)
        match own.step:
            case "lock":
                if row in dict(state.usage):
                    _wait_for(row, state.sessions, Prune())
                    own = own._replace(usage=((row, dict(state.usage)[row]),))
                return state._replace(prune=own._replace(step="delete"))
            case "delete":
                gone = tuple(pair for pair in state.stored if (pair[0][0], pair[1].month) == row)
                if self.fault == "prune commits twice":
                    state = _without(state, gone)
                return state._replace(prune=own._replace(step="count", gone=gone))
            case "count":
                if own.gone:
                    _wait_for(row, state.sessions, Prune())
                    counter = dict(state.usage)[row]
                    units = 0 if self.fault == "prune does not count" else len(own.gone)
                    own = own._replace(usage=((row, counter._replace(pruned=counter.pruned + units)),))
                return state._replace(prune=own._replace(step="commit"))
            case _:
                state = _without(state, own.gone)
                return state._replace(usage=_merged(state.usage, own.usage), prune=Prune("done"))


_KEYLESS = ("neither locks nor a primary key",)
_LOCKLESS = (*_KEYLESS, "no locks")


def _seen(state: State, own: Transaction, row: Row) -> Counter | None:
    return dict(own.usage).get(row, dict(state.usage).get(row))


def _wait_for(row: Row, others: Iterable[Transaction], prune: Prune) -> None:
    if row in dict(prune.usage) or any(row in dict(other.usage) for other in others):
        raise Blocked


def _merged(before: tuple[tuple[K, V], ...], after: tuple[tuple[K, V], ...]) -> tuple[tuple[K, V], ...]:
    return tuple(sorted((dict(before) | dict(after)).items()))


def _sorted(sessions: Iterable[Transaction]) -> tuple[Transaction, ...]:
    """Which session it is makes no difference."""
    return tuple(sorted(sessions, key=lambda transaction: (transaction.requests, sorted(transaction.begun))))


def _without(state: State, gone: Results) -> State:
    stored = tuple(pair for pair in state.stored if pair not in gone)
    return state._replace(stored=stored, gone=state.gone.union(result.body for _, result in gone))


# --- Every start, and every state that follows


def starts() -> list[tuple[tuple[Request, ...], frozenset[tuple[int, ...]]]]:
    """Requests and how they share calls, once for all that differ in names only."""
    found = {}
    for calls in (((0,), (1,), (2,)), ((0, 1), (2,))):
        for requests in product([Request(*parts) for parts in product("ab", "klm", "xy")], repeat=3):
            swaps = permutations(range(3)) if len(calls) == 3 else [(0, 1, 2)]
            name = min(_renamed([requests[at] for at in order]) for order in swaps)
            found[calls, name] = (name, frozenset(_by_account(call, name) for call in calls))
    return list(found.values())


def _renamed(requests: Iterable[Request]) -> tuple[Request, ...]:
    """Names in the order of their appearance: keys within an account, inputs within a key."""
    names: dict[tuple[str, ...], dict[str, str]] = {}
    renamed = []
    for request in requests:
        scope: tuple[str, ...] = ()
        parts = []
        for part, letters in zip(request, ("ab", "klm", "xy"), strict=True):
            known = names.setdefault(scope, {})
            if part not in known:
                known[part] = letters[len(known)]
            parts.append(known[part])
            scope = (*scope, part)
        renamed.append(Request(*parts))
    return tuple(renamed)


def _by_account(call: tuple[int, ...], requests: tuple[Request, ...]) -> tuple[int, ...]:
    return tuple(sorted(call, key=lambda number: requests[number].account))


def explore(fault: str = "") -> tuple[int, int]:
    """Looks at every state of every start; the numbers of both."""
    states = 0
    for requests, calls in starts():
        model = Model(requests, fault)
        start = State(waiting=calls)
        seen = {start}
        due = deque(seen)
        while due:
            state = due.popleft()
            model.check(state)
            for following in model.next_states(state):
                if following not in seen:
                    seen.add(following)
                    due.append(following)
        states += len(seen)
    return len(starts()), states


def test_all_invariants_hold(capsys: pytest.CaptureFixture[str]) -> None:
    number, states = explore()
    with capsys.disabled():
        print(f"{states:,} states of {number} starts")  # noqa: T201
    assert number == 28
    assert states > 100_000


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ("the key is locked first", "in progress, and nobody runs this input"),
        ("reads before it locks", "the primary key has to refuse an execution"),
        ("no locks", "the primary key has to refuse an execution"),
        ("neither locks nor a primary key", "a key is charged twice"),
        ("locks are the session's", "in progress, and nobody runs this input"),
        ("rows are not locked", "committed units are not"),
        ("the quota is not looked at", "the quota is exceeded"),
        ("the month is looked up again", "committed units are not"),
        ("the result is not stored", "committed units are not"),
        ("a replay has its own body", "a replay is not of the first body"),
        ("prune commits twice", "committed units are not"),
        ("prune does not count", "committed units are not"),
    ],
)
def test_a_planted_fault_is_found(fault: str, words: str) -> None:
    with pytest.raises(Broken, match=words):
        explore(fault)
