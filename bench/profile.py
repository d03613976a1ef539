"""`make profile`: where the microseconds of one metered POST go.

The profile times each stage by itself, with the objects of the service, in rounds and in turns. The figure of a round
is the lower quartile of its calls, or the mean of a block where a call is shorter than one of the clock. The figure of
a stage is the least of its rounds, because disturbances only add time. So the whole is less than the median under load.

- whole: `POST /v1/match`, one colour, one connection, from the client's `send` to its `recv`, at a real server.
- socket and worker: the same request to a worker that answers with a constant. The parser is a part of it.
- Falcon: a call of the application in process, with a ledger that answers at once, minus the stages of the endpoint.
- validation, core: calls of the functions of the endpoint. The order of judgement is the rest of `judge`.
- ledger: the batcher of the default worker in its own event loop, minus the same call by pgbench.
- commit: the call by pgbench, minus the same with synchronous_commit off.
- SQL: the function in a statement of 500 calls, one for each of 500 accounts: no round trip, one commit.
- wire: the rest of the call by pgbench: two process switches, the protocol, the execution of the outer statement.

The last line has what is missing from the sum of the stages: the cost of a process that has just been woken.
"""

import asyncio
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from timeit import Timer
from typing import Any

import httptools
import uvloop
from bench.hot_paths import InProcess, loop_for_its_clock, pending
from bench.load.client import Client
from bench.load.figures import percentile
from bench.load.floor import pgbench
from bench.load.holders import api_key
from bench.load.report import table
from bench.load.scenarios import SCENARIOS, asks, first_executions, pgbench_scripts
from bench.load.stage import EMPTY, cluster, constant, settings_of
from tests.awaited_batcher import AwaitedBatcher
from tests.serving import serving

from bench import machine
from sepu.cli.database import connect
from sepu.http.replies import Reply
from sepu.http.responder import CallbackResponder
from sepu.http.service import Service
from sepu.library.release import load_release
from sepu.metering.commands import Command
from sepu.metering.keys import Credential, credential
from sepu.operations.match import parse_match

ROUNDS = 7
QUARTILE = 25
SCENARIO = SCENARIOS["match-1"]
CALLS = 500
BODY = b'{"colors":[{"r":200,"g":60,"b":35}],"top":1}'


@dataclass(frozen=True, slots=True)
class Head:
    """The head of a request, as an endpoint sees it."""

    headers: Mapping[str, str]
    query_string: str = ""
    remote_addr: str = "127.0.0.1"

    def header(self, name: str) -> str | None:
        return self.headers.get(name.upper())


class Answering:
    """A ledger that charges at once."""

    def __init__(self, body: bytes) -> None:
        self._row = ("charged", "2026-01", 2000, 1, 0, body)

    def is_limited(self, holder: Credential) -> bool:  # noqa: ARG002
        return False

    def submit(self, command: Command[Any], done: Callable[[Any], None]) -> None:
        done(True if command.look_up_for is not None else command.read([self._row]))

    def probe(self, done: Callable[[bool], None]) -> None:
        done(True)


def main() -> None:
    with ExitStack() as stack:
        made = stack.enter_context(cluster(None))
        url = made.make_empty(SCENARIO.accounts)
        ours = stack.enter_context(serving("uvloop", url, workers=1))
        fixed = stack.enter_context(constant(1))
        not_awaited = f"{url} options='-c synchronous_commit=off'"
        stages = in_process(made.seed)
        stages |= {
            "whole": lambda: http(ours.address, made.seed),
            "constant": lambda: http(fixed.address, made.seed, part=b"librarySha256"),
            "ledger": lambda: ledger(url, made.seed),
            "pgbench": lambda: pgbench_call(made.programs, url),
            "pgbench, commit not awaited": lambda: pgbench_call(made.programs, not_awaited),
            "SQL": lambda: sql(url),
        }
        rounds: dict[str, list[float]] = {name: [] for name in stages}
        for number in range(ROUNDS):
            print(f"round {number + 1} of {ROUNDS}", file=sys.stderr)
            for name, measure in stages.items():
                rounds[name].append(measure())
        with connect(made.owner_url(EMPTY)) as owner:
            database = settings_of(owner)
    print(__doc__.partition("\n\n")[2])
    print(f"{machine.in_words()}; Postgres {database['server_version']}\n")
    print(as_table({name: min(times) for name, times in rounds.items()}))


def as_table(taken: Mapping[str, float]) -> str:
    """Returns the stages so that they add up to the whole."""
    validation = taken["credential"] + taken["parse"] + taken["fingerprint"]
    rows = [
        ("client, kernel, event loop", taken["constant"] - taken["parser"]),
        ("HTTP parser (httptools)", taken["parser"]),
        ("Falcon, environ and response", taken["application"] - taken["parser"] - taken["judge"] - taken["conclude"]),
        ("validation: credential", taken["credential"]),
        ("validation: parsing the body", taken["parse"]),
        ("validation: fingerprint", taken["fingerprint"]),
        ("core: the nearest colour, written", taken["answer"]),
        ("the rest of the endpoint", taken["judge"] - validation - taken["answer"]),
        ("reply and usage headers", taken["conclude"]),
        ("ledger: session, event loop", taken["ledger"] - taken["pgbench"]),
        ("wire between the processes", taken["pgbench, commit not awaited"] - taken["SQL"]),
        ("SQL: the function", taken["SQL"]),
        ("commit: to the disk", taken["pgbench"] - taken["pgbench, commit not awaited"]),
    ]
    whole = taken["whole"]
    rows.append(("not accounted for", whole - sum(time for _, time in rows)))
    rows.append(("**whole**", whole))
    rows.append(("pgbench, the same call", taken["pgbench"]))
    return table(("stage", "µs", "share"), [(name, f"{t * 1e6:.1f}", f"{t / whole:.1%}") for name, t in rows])


def in_process(seed: str) -> dict[str, Callable[[], float]]:
    """Returns the stages that need no other process."""
    release = load_release()
    service = Service.of(release)
    key = api_key(seed, 1)
    headers = {
        "AUTHORIZATION": f"Bearer {key}",
        "IDEMPOTENCY-KEY": "profile-0000000001",
        "CONTENT-TYPE": "application/json",
        "CONTENT-LENGTH": str(len(BODY)),
    }
    request = parse_match(BODY)
    matcher = service.match._matcher
    verdict = pending(service.match, Head(headers), BODY)
    answering = Answering(matcher.answer(request))
    charged = verdict.command.read([answering._row])
    raw = asks(SCENARIO, seed, "profile")().request
    server = InProcess(CallbackResponder(answering), loop_for_its_clock())

    def conclude() -> None:
        reply = verdict.conclude(charged)
        assert isinstance(reply, Reply)
        reply.render("")

    class Nothing:
        def on_header(self, name: bytes, value: bytes) -> None: ...

    def parse() -> None:
        httptools.HttpRequestParser(Nothing()).feed_data(raw)

    server.send(raw)
    assert server.status() == 200
    head = Head(headers)
    return {
        "parser": block(parse),
        "application": block(lambda: server.send(raw)),
        "judge": block(lambda: service.match.judge(head, BODY)),
        "conclude": block(conclude),
        "credential": block(lambda: credential(key)),
        "parse": block(lambda: parse_match(BODY)),
        "fingerprint": block(request.fingerprint),
        "answer": block(lambda: matcher.answer(request)),
    }


def block(run: Callable[[], object], number: int = 2_000) -> Callable[[], float]:
    """Returns the mean time of many calls, one after another."""
    timer = Timer(run)
    return lambda: timer.timeit(number) / number


_tokens = (f"profile{time.time_ns()}-{number}" for number in count())


def http(address: str, seed: str, part: bytes | None = None) -> float:
    """Returns what the client measures; `part` is the time of a constant answer."""
    ask = asks(SCENARIO, seed, next(_tokens))
    client = Client(address, 1, ask if part is None else lambda: ask()._replace(part=part))
    try:
        client.closed(0.2)
        client.forget()
        sample = client.closed(1.0)
    finally:
        client.hang_up()
    assert not sample.errors, sample.errors
    return percentile(sample.latencies, QUARTILE)


def ledger(url: str, seed: str) -> float:
    """Calls the ledger, one call after another."""
    service = Service.of(load_release())
    token = next(_tokens)

    def command(number: int) -> Command[Any]:
        headers = {
            "AUTHORIZATION": f"Bearer {api_key(seed, 1 + number % SCENARIO.accounts)}",
            "IDEMPOTENCY-KEY": f"{token}-{number}",
            "CONTENT-TYPE": "application/json",
            "CONTENT-LENGTH": str(len(BODY)),
        }
        return pending(service.match, Head(headers), BODY).command

    async def measure() -> float:
        gateway = AwaitedBatcher(url)
        times = []
        for each in [command(number) for number in range(CALLS)]:
            started = time.perf_counter()
            answer = await gateway.run(each)
            times.append(time.perf_counter() - started)
            assert answer.outcome == "charged"
        await gateway.close()
        return percentile(sorted(times), QUARTILE)

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(measure())


def pgbench_call(programs: Path, url: str) -> float:
    return percentile(pgbench(programs, url, pgbench_scripts(SCENARIO, next(_tokens)), 1, 1).latencies, QUARTILE)


def sql(url: str) -> float:
    """Returns the time of the function itself."""
    with connect(url) as service:
        service.execute(
            first_executions(SCENARIO, next(_tokens), 10).encode()
        )  # Postgres plans its statements in the first calls
        charge = first_executions(SCENARIO, next(_tokens), CALLS).encode()
        started = time.perf_counter()
        service.execute(charge)
        return (time.perf_counter() - started) / CALLS


if __name__ == "__main__":
    main()
