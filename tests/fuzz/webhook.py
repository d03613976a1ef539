"""Hostile answers of an endpoint to the real deliverer of events: `make fuzz WHAT=webhook`."""

import re
import sys
import tempfile
from base64 import b64encode
from collections import Counter
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from random import Random

import psycopg
from tests.client.hostile import Peer, listening, pausing
from tests.fuzz.cases import Played
from tests.fuzz.grammar import TAKEN, made
from tests.fuzz.seeds import mutate
from tests.harness.processes import completed

from sepu.admin.events import list_events

AT_ONCE = 1000
SECRET = b64encode(b"a secret for the fuzz of webhooks").decode()
# The command itself, with less patience; what failed is not due again while it runs.
_DELIVER = """
import atexit, re
# Its own memory: getrusage(2) counts that of the process that started it, too.
peak = lambda: print(*re.findall(r"VmHWM:\\s+([0-9]+)", open("/proc/self/status").read()))
atexit.register(peak)
from sepu import limits
limits.webhooks.ANSWER_SECONDS, limits.webhooks.FIRST_RETRY_SECONDS = 8.0, 40000
from sepu.cli.main import main
main()
"""
_ERRORS = "HTTP [0-9]{3}|no answer in time|not reached: [A-Za-z]+"
_MAX_KIB = 200 << 10
_LETTERS = "abcdefghijklmnopqrstuvwxyz234567"
_LUMPS = {"flood": bytes(1 << 16), "interim": b"HTTP/1.1 100 \r\n\r\n" * 4000}


def _be_hostile(number: int, peer: Peer) -> None:
    rng = Random(number)
    answer = made(rng, "answer")
    if rng.random() < 0.2:
        answer = mutate(rng, answer)
    if rng.random() < 0.05:
        answer = answer[: rng.randrange(len(answer) + 1)]
    if rng.random() < 0.05:
        for byte in answer[:40]:
            peer.send(bytes([byte]))
            pausing(0.01)(peer)
    else:
        piece = rng.choice([1 << 20, 1 << 20, 1000, len(answer) // 2 + 1])
        for start in range(0, len(answer), piece):
            peer.send(answer[start : start + piece])
    how = rng.choices(["close", "reset", "hang", "flood", "interim"], [170, 30, 0.5, 0.5, 0.5])[0]
    match how:
        case "reset":
            peer.reset()
        case "hang":
            peer.silence()
        case "flood" | "interim":
            peer.flood(_LUMPS[how])


class _Endpoint:
    """What came: how often each event, and requests that are no webhook, where a redirect led."""

    def __init__(self, numbers: dict[str, int]) -> None:
        self._numbers = numbers
        self.received: Counter[str] = Counter()
        self.strange: list[bytes] = []

    def answer(self, peer: Peer) -> None:
        head = peer.head()
        event_id = re.search(rb"\r\nwebhook-id: (([^:]+):\S+)\r\n", head, re.IGNORECASE)
        if event_id is None or not head.startswith(b"POST /hooks "):
            self.strange.append(head[:200])
            return
        self.received[event_id[1].decode()] += 1
        number = self._numbers[event_id[2].decode()]
        if _is_good(number) or number % 10:
            peer.body(head)
        if _is_good(number):
            peer.send(TAKEN.encode())
        else:
            _be_hostile(number, peer)


def _is_good(number: int) -> bool:
    return number % 4 == 0


def play(connection: psycopg.Connection, url: str, numbers: Iterator[int]) -> Iterator[Played]:
    """Lets the command deliver an event for each of these cases, every fourth of which is taken."""
    while some := {_account_id(number): number for number in islice(numbers, AT_ONCE)}:
        yield from _deliver(connection, url, some)


def _deliver(connection: psycopg.Connection, url: str, numbers: dict[str, int]) -> Iterator[Played]:
    endpoint = _Endpoint(numbers)
    _make_events(connection, list(numbers))
    with (
        listening("plain", [endpoint.answer]) as peer,
        tempfile.NamedTemporaryFile(prefix="sepu-fuzz-") as secret_file,
    ):
        Path(secret_file.name).write_text(f"whsec_{SECRET}")
        done = completed(
            [
                *(sys.executable, "-c", _DELIVER, "events", "deliver", "--once", "--url", f"{peer.url}/hooks"),
                *("--secret-file", secret_file.name, "--database-url", url),
            ],
            timeout=300,
        )
    assert done.returncode == 0, done.stderr[-600:]
    line = re.compile(rf"sepu: ([a-z2-7]{{16}}):\S+: attempt 1: ({_ERRORS}); (again in \d+ s|it is dead; .*)")
    assert [said for said in done.stderr.splitlines() if not line.fullmatch(said)] == []
    assert SECRET not in done.stderr
    assert endpoint.strange == [], "a redirect was followed"
    assert 0 < int(done.stdout) <= _MAX_KIB
    for event in list_events(connection):
        number = numbers[event.account_id]
        state = "delivered" if _is_good(number) else event.state
        recorded = state == "delivered" or re.fullmatch(_ERRORS, event.last_error or "")
        sound = recorded and (endpoint.received[event.event_id], event.attempts, event.state) == (1, 1, state)
        outcome = re.sub(" [0-9]+$|: .*", "", event.last_error or "taken")
        yield number, "good" if _is_good(number) else f"hostile, {outcome}", None if sound else f"{event}"


def _account_id(number: int) -> str:
    return "".join(_LETTERS[number >> 5 * digit & 31] for digit in reversed(range(16)))


def _make_events(connection: psycopg.Connection, account_ids: list[str]) -> None:
    """An event of each account, and no others."""
    connection.execute("delete from sepu.quota_event")
    connection.execute(
        "insert into sepu.account (account_id, plan_id) select unnest(%s::text[]), 'standard'", (account_ids,)
    )
    connection.execute(
        "insert into sepu.quota_event (account_id, period, meter, threshold, unit_limit, committed, crossed_at) "
        "select unnest(%s::text[]), '2026-11', 'color_match', 80, 10, 8, now()",
        (account_ids,),
    )
    connection.execute(
        "insert into sepu.event_delivery (account_id, period, meter, threshold, unit_limit, due_at) "
        "select account_id, period, meter, threshold, unit_limit, now() from sepu.quota_event"
    )
