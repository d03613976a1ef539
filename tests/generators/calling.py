"""Calls a generated client in a separate process."""

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from subprocess import PIPE
from typing import IO, Any, cast

from tests.generators.toolchains import Command
from tests.harness.processes import running


@dataclass(frozen=True)
class Answer:
    """A client's view of a response.

    Header names are in lower case. `type` is the body's, if the language knows it; `code` the error's.
    """

    status: int
    headers: Mapping[str, str]
    type: str | None
    code: str
    body: Any


Client = Callable[..., Answer]


@contextmanager
def calling(command: Command) -> Iterator[Client]:
    """Yields a function that calls a client, which runs until the block ends."""
    with (
        running(command, stdin=PIPE, stdout=PIPE, text=True, encoding="utf-8") as process,
        cast("IO[str]", process.stdin) as requests,
        cast("IO[str]", process.stdout) as answers,
    ):

        def call(url: str, key: str, operation: str, idempotency_key: str = "", **arguments: Any) -> Answer:
            given = {"url": url, "key": key, "operation": operation, "idempotencyKey": idempotency_key, **arguments}
            print(json.dumps(given), file=requests, flush=True)
            line = answers.readline()
            assert line, f"the client ended over {operation} {arguments}"
            return Answer(**json.loads(line))

        yield call
