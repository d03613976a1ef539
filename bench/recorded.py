"""Charges, and a real Postgres's answers to them, replayed to the batcher, so that only the batcher works.

A round is one charge, or several at the same time: then the first goes alone, and a batch takes the others.
"""

import asyncio
import atexit
import itertools
import socket
import tempfile
import threading
import uuid

import uvloop
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from tests.harness import accounts
from tests.harness.awaited_batcher import AwaitedBatcher

from sepu import limits
from sepu.metering.commands import Charge, Command, Metered, meter_request
from sepu.metering.key_format import Credential

SEED = "recorded"
MOST = 17  # charges in a round; each is another account's
_SOCKET = ".s.PGSQL.5432"
# The ends of a client's first message, of each later one, and of each answer (outside a transaction).
_GREETED, _ASKED, _READY = b"\0\0", b"S\0\0\0\4", b"Z\0\0\0\5I"
_SECONDS = 600
_SETTLING_SECONDS = 0.5  # longer than the batcher's timers
_BODY = b'{"datasetVersion":"1.0.0","results":[' + b"x" * 300 + b"]}"
_NUMBERS = itertools.count()
# One buffer for all: what an allocation of this size costs depends on how the memory happens to be laid out.
_BUFFER = memoryview(bytearray(1 << 16))


def holder(number: int) -> Credential:
    """Returns the credential of an account, from 1."""
    return accounts.holder(SEED, number)


def charge(holder: Credential, key: str = "") -> Command[Metered]:
    """Returns a charge, by default with an idempotency key that this process has not used."""
    idempotency_key, request_id = key or f"bench-{next(_NUMBERS):09}", str(uuid.uuid4())
    return meter_request(holder, idempotency_key, Charge("color_match", 1, bytes(32), _BODY), request_id)


def _until(source: socket.socket, end: bytes) -> bytes:
    data = b""
    while not data.endswith(end) and (size := source.recv_into(_BUFFER)):
        data += _BUFFER[:size]
    return data


class Recorded:
    """A batcher whose event loop has stopped: `answer` does the loop's work."""

    def __init__(self, url: str, charges: int) -> None:
        # Counting instructions is slow, and a stopped loop ends no wait.
        limits.database.QUEUE_SECONDS = limits.database.STATEMENT_SECONDS = _SECONDS
        limits.database.CONNECT_SECONDS = limits.batches.OVERFLOW_SECONDS = _SECONDS
        limits.batches.SLOW_CALL_SECONDS = _SECONDS
        self.loop = uvloop.new_event_loop()
        self._session: socket.socket
        self._answers: list[bytes] = []
        self._answered = 0
        self._commands = [charge(holder(number + 1)) for number in range(charges)]
        with (
            tempfile.TemporaryDirectory(prefix="sepu-recorded-") as directory,
            socket.socket(socket.AF_UNIX) as listener,
            socket.socket(socket.AF_UNIX) as postgres,
        ):
            postgres.connect(f"{conninfo_to_dict(url)['host']}/{_SOCKET}")
            listener.bind(f"{directory}/{_SOCKET}")
            listener.listen()
            self.loop.add_reader(listener, lambda: self._accept(listener, postgres))
            self.loop.run_until_complete(self._record(make_conninfo(url, host=directory)))
            self.loop.remove_reader(listener)
        self.loop.remove_reader(self._session)

    def _accept(self, listener: socket.socket, postgres: socket.socket) -> None:
        self._session, _ = listener.accept()
        atexit.register(self._session.close)
        self._pass_on(postgres, _GREETED)
        self.loop.add_reader(self._session, lambda: self._pass_on(postgres, _ASKED))

    def _pass_on(self, postgres: socket.socket, end: bytes) -> None:
        postgres.sendall(_until(self._session, end))
        self._answers.append(_until(postgres, _READY))
        self._session.sendall(self._answers[-1])

    async def _record(self, url: str) -> None:
        """Runs rounds. The first waits for the session and is sent as one batch; all is prepared after the second."""
        self.batcher = AwaitedBatcher(url)
        for _ in range(3):
            self._answers.clear()
            # Other processes have charged the same accounts. Their numbers keep the keys in order, on which the cost of
            # an index depends.
            keys = (f"recorded-{threading.get_native_id():07}-{next(_NUMBERS):09}" for _ in self._commands)
            new = (charge(holder(number), key) for number, key in enumerate(keys, start=1))
            answers = await asyncio.gather(*map(self.batcher.run, new))
            assert all(answer.outcome == "charged" for answer in answers)
        # A charge takes fewer instructions once the first round's timers are over.
        await asyncio.sleep(_SETTLING_SECONDS)

    def answer(self) -> None:
        """Answers a round as the last one was, and lets the batcher read that."""
        for answer in self._answers:
            _until(self._session, _ASKED)
            self._session.sendall(answer)
            self.batcher.poll()

    def round(self) -> None:
        """Runs one round."""
        self._answered = 0
        for command in self._commands:
            self.batcher.submit(command, self._count)
        self.answer()
        assert self._answered == len(self._commands)

    def _count(self, answer: Metered) -> None:
        self._answered += answer.outcome == "charged"
