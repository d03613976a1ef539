"""What is asked, and what the right answer is: for the HTTP client, and for pgbench as its floor."""

import random
from bisect import bisect
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import accumulate
from typing import Literal, NamedTuple
from urllib.parse import quote

import msgspec
from bench.queries import QUERIES
from tests.harness.accounts import HELD_NUMBER, SPENT_NUMBER, account_id, api_key, hash_in_sql, id_in_sql

from sepu.database.statements import statement
from sepu.http.service import Service
from sepu.library.release import load_release
from sepu.operations.match import MatchInput
from sepu.operations.search import SearchInput

ACCOUNTS = 1_000
REPLAYED = 1_000  # keys that are asked for again and again
_QUESTIONS = 256  # of each kind; their answers are known in advance


class Ask(NamedTuple):
    """One request, and how its right answer is known."""

    request: bytes
    status: bytes
    part: bytes  # of the answer's body; of a 200 from match and search it is all of it
    replayed: bool = False


class Question(NamedTuple):
    """A request with places for the API key and the idempotency key."""

    form: bytes
    answer: bytes


Kind = Literal["match-1", "match-5x3", "search", "usage", "library"]


@dataclass(frozen=True, slots=True)
class Scenario:
    """`kinds` are weighted by repetition. `accounts` is their number; `only` is the only one that asks.

    With `zipf`, account k is drawn in proportion to k to the power of -`zipf`; otherwise uniformly.
    With `made_up`, each request has its own key, well-formed and never issued, that names the account.
    """

    name: str
    kinds: tuple[Kind, ...]
    accounts: int = ACCOUNTS
    only: int | None = None
    refusal: tuple[int, str] | None = None
    replays: bool = False
    zipf: float | None = None
    made_up: bool = False


SKEW = Scenario("skew", ("match-1",), zipf=2.0)
SCENARIOS = {
    scenario.name: scenario
    for scenario in (
        Scenario("match-1", ("match-1",)),
        Scenario("match-5x3", ("match-5x3",)),
        Scenario("search", ("search",)),
        Scenario("replay", ("match-1",), replays=True),
        Scenario("usage", ("usage",)),
        Scenario("library", ("library",)),
        Scenario("mixed", ("match-1",) * 5 + ("match-5x3",) * 2 + ("search",) * 2 + ("usage",)),
        Scenario("hot-account", ("match-1",), only=1),
        Scenario("100k-accounts", ("match-1",), accounts=100_000),
        Scenario("quota-exhausted", ("match-1",), only=SPENT_NUMBER, refusal=(429, "quota_exceeded")),
        Scenario("abuse-limited", ("match-1",), only=HELD_NUMBER, refusal=(429, "rate_limited")),
    )
}


def asks(scenario: Scenario, seed: str, run: str, key: str = "") -> Callable[[], Ask]:
    """Makes requests without end; `run` makes their idempotency keys unique.

    With a key, all are its account's, whatever the scenario says.
    """
    rng = random.Random(run)
    questions = {kind: list(_questions(kind)) for kind in set(scenario.kinds)}
    status = b"200" if scenario.refusal is None else b"%d" % scenario.refusal[0]
    refusal = None if scenario.refusal is None else f'"error":"{scenario.refusal[1]}"'.encode()
    choose, below = rng.choice, rng.random
    number = 0
    weights = list(accumulate(k**-scenario.zipf for k in range(1, scenario.accounts + 1))) if scenario.zipf else []

    def who(draw: float) -> tuple[bytes, bytes]:
        if key:
            return key.encode(), key.split("_")[1].encode()
        place = bisect(weights, draw * weights[-1]) if weights else int(draw * scenario.accounts)
        account = scenario.only or 1 + min(place, scenario.accounts - 1)
        secret = api_key.__wrapped__(f"{run}/{number}", account) if scenario.made_up else api_key(seed, account)
        return secret.encode(), account_id(account).encode()

    def fresh() -> Ask:
        nonlocal number
        number += 1
        kind = choose(scenario.kinds)
        question = choose(questions[kind])
        secret, ident = who(below())
        part = refusal or (ident if kind == "usage" else question.answer)
        if kind in {"usage", "library"}:
            return Ask(question.form % secret, status, part)
        return Ask(question.form % (secret, b"%b-%010d" % (run.encode(), number)), status, part)

    if not scenario.replays:
        return fresh
    first = [fresh() for _ in range(REPLAYED)]
    again = [ask._replace(replayed=True) for ask in first]
    remaining = iter(first)

    def replay() -> Ask:
        return next(remaining, None) or choose(again)

    return replay


def _questions(kind: Kind) -> Iterator[Question]:
    """The answers are computed here by the same release, so a wrong or misdirected one is noticed."""
    service = Service.of(load_release())
    rng = random.Random(161)
    if kind == "library":
        yield Question(_form("GET", "/v1/library", idempotent=False), msgspec.json.encode("librarySha256"))
    elif kind == "usage":
        yield Question(_form("GET", "/v1/usage", idempotent=False), b"")
    elif kind == "search":
        for q in QUERIES:
            if 2 <= len(q.strip()) <= 64:
                asked = SearchInput(q.strip(), 10)
                form = _form("GET", f"/v1/search?q={quote(asked.q)}".replace("%", "%%"))
                yield Question(form, service.search._searcher.answer(asked))
    else:
        colours, top = (1, 1) if kind == "match-1" else (5, 3)
        for _ in range(_QUESTIONS):
            rows = tuple((rng.randrange(256), rng.randrange(256), rng.randrange(256)) for _ in range(colours))
            body = msgspec.json.encode({"colors": [dict(zip("rgb", row, strict=True)) for row in rows], "top": top})
            yield Question(_form("POST", "/v1/match", body), service.match._matcher.answer(MatchInput(rows, top)))


def _form(method: str, target: str, body: bytes = b"", *, idempotent: bool = True) -> bytes:
    lines = [f"{method} {target} HTTP/1.1", "Host: sepu", "Authorization: Bearer %b"]
    lines += ["Idempotency-Key: %b"] * idempotent
    if body:
        lines += ["Content-Type: application/json", f"Content-Length: {len(body)}"]
    return "\r\n".join([*lines, "", ""]).encode() + body


def pgbench_scripts(scenario: Scenario, run: str) -> dict[str, tuple[str, int]]:
    """A script and its weight for each kind: the call that the service makes, once a transaction.

    Accounts, keys and sizes are distributed as the client's.
    """
    return {kind: (_script(scenario, kind, run), scenario.kinds.count(kind)) for kind in dict.fromkeys(scenario.kinds)}


def bare_insert(run: str) -> dict[str, tuple[str, int]]:
    """A script: one durable row, as large as that of a match of one colour, and nothing else."""
    body, fingerprint = _median_answer("match-1").hex(), "ab" * 32
    values = (
        f"{id_in_sql(':a')}, '{run}-' || cast(:n as text), '\\x{fingerprint}', 'color_match', 1, '2026-01',"
        f" '\\x{body}', now(), {id_in_sql(':a')} || '-aaaaaaaa', gen_random_uuid()"
    )
    script = f"\\set n random(1, {10**15})\n\\set a random(1, {ACCOUNTS})\ninsert into bare values ({values});\n"
    return {"bare-insert": (script, 1)}


def first_executions(scenario: Scenario, run: str, number: int = REPLAYED) -> str:
    """A statement that charges `number` keys, which the scripts of a scenario of replays replay."""
    (kind,) = set(scenario.kinds)
    return (
        f"select count(*) from (select n, 1 + n % {scenario.accounts} as a from generate_series(1, {number}) n) k,"
        f" lateral sepu.{_call(kind, run, 'k.n', 'k.a')}"
    )


def _script(scenario: Scenario, kind: Kind, run: str) -> str:
    number, account = f"random(1, {10**15})", f"random(1, {scenario.accounts})"
    if scenario.replays:
        number, account = f"random(1, {REPLAYED})", f"1 + :n % {scenario.accounts}"
    elif scenario.only is not None:
        account = str(scenario.only)
    elif scenario.zipf is not None:
        account = f"random_zipfian(1, {scenario.accounts}, {scenario.zipf})"
    call = _call(kind, run, ":n", ":a")
    columns, _, _ = statement(call.partition("(")[0]).partition("from")  # as the service asks for them
    return f"\\set n {number}\n\\set a {account}\n{' '.join(columns.split())} from sepu.{call};\n"


def _call(kind: Kind, run: str, number: str, account: str) -> str:
    holder = f"{id_in_sql(account)}, {hash_in_sql(account)}"
    if kind == "usage":
        return f"read_usage({holder})"
    if kind == "library":
        return f"admit({holder})"
    meter, units = ("color_search", 1) if kind == "search" else ("color_match", 5 if kind == "match-5x3" else 1)
    body = _median_answer(kind).hex()
    key, fingerprint = f"'{run}-' || cast({number} as text)", "ab" * 32
    return f"meter_request({holder}, {key}, '\\x{fingerprint}', '{meter}', {units}, '\\x{body}', gen_random_uuid())"


def _median_answer(kind: Kind) -> bytes:
    answers = sorted((question.answer for question in _questions(kind)), key=len)
    return answers[len(answers) // 2]
