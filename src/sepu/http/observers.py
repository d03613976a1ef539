"""Tells the log and the metrics of each reply."""

import logging
import time
from collections.abc import Callable

from sepu.http.replies import Reply
from sepu.metering.key_format import Credential

log = logging.getLogger("sepu.http")

# Takes the request id, the reply, its route or None, the credential of what was sent if it has a key's form (there may
# be no such key, nor account), the seconds that it took, and the Idempotency-Key as it was sent or None. An
# invalid request has neither route nor seconds.
ReplyObserver = Callable[[str, Reply, str | None, Credential | None, float | None, str | None], None]


class ReplyObservers:
    """Passes each reply to its observers after the server has it."""

    def __init__(self, *observers: ReplyObserver) -> None:
        self._observers = observers

    def replied(
        self,
        request_id: str,
        reply: Reply,
        route: str | None = None,
        credential: Credential | None = None,
        started: float | None = None,
        idempotency_key: str | None = None,
    ) -> None:
        """Passes a reply to a request that began at `started`, by `time.perf_counter`.

        An exception is logged and goes no further, because the request was answered.
        """
        try:
            seconds = None if started is None else time.perf_counter() - started
            for observe in self._observers:
                observe(request_id, reply, route, credential, seconds, idempotency_key)
        except Exception as raised:  # no message: it could quote the input
            log.error("%s: not observed: %s", request_id, type(raised).__name__)  # noqa: TRY400
