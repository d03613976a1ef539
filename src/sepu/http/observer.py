"""Notifies the log and the metrics of each reply."""

import logging
import time
from collections.abc import Callable

from sepu.http.replies import Reply

log = logging.getLogger("sepu.http")

# Takes the request id, the reply, its route or None, the account or None, the seconds that it took, the key's id or
# None, and the Idempotency-Key as it was sent or None. The account is the one that the key names, if it has a key's
# form; there may be no such account. The database has told the key's id, so the key is valid. What never became a
# request has neither route nor seconds.
Notified = Callable[[str, Reply, str | None, str | None, float | None, str | None, str | None], None]


class RequestObserver:
    """Notifies others of each reply after the server has it."""

    def __init__(self, *notified: Notified) -> None:
        self._notified = notified

    def observe(
        self,
        request_id: str,
        reply: Reply,
        route: str | None = None,
        account: str | None = None,
        started: float | None = None,
        key_id: str | None = None,
        idempotency_key: str | None = None,
    ) -> None:
        """Notifies of a reply to a request that began at `started`, by `time.perf_counter`.

        An exception is logged and goes no further, because the request was answered.
        """
        try:
            seconds = None if started is None else time.perf_counter() - started
            for notify in self._notified:
                notify(request_id, reply, route, account, seconds, key_id, idempotency_key)
        except Exception as raised:  # no message: it could quote the input
            log.error("%s: not observed: %s", request_id, type(raised).__name__)  # noqa: TRY400
