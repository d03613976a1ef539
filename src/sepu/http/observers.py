"""Reports each reply to the log and the metrics."""

import logging
import time
from collections.abc import Callable

from sepu.http.replies import Reply
from sepu.metering.key_format import Credential

log = logging.getLogger("sepu.http")

# Takes the request id, the reply, the route or None, the credential if the client sent one in a key's form (the key and
# the account may not exist), the seconds taken, the Idempotency-Key as sent or None, and the caller's trace id or None.
# An invalid request has neither route nor seconds.
ReplyObserver = Callable[[str, Reply, str | None, Credential | None, float | None, str | None, str | None], None]


class ReplyObservers:
    """Passes each reply to its observers after it has gone to the server."""

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
        trace: str | None = None,
    ) -> None:
        """Passes the reply to the observers. The request began at `started`, by `time.perf_counter`.

        Logs an exception and does not raise it, because the request has been answered.
        """
        try:
            seconds = None if started is None else time.perf_counter() - started
            for observe in self._observers:
                observe(request_id, reply, route, credential, seconds, idempotency_key, trace)
        except Exception as raised:  # no message: it could quote the input
            log.error("%s: not observed: %s", request_id, type(raised).__name__)  # noqa: TRY400
