"""Observes every reply of a worker."""

import time

from sepu.http.observer import RequestObserver
from sepu.http.replies import Reply
from sepu.server.metrics import Counts
from sepu.server.request_log import RequestLog


class Observer(RequestObserver):
    """Counts replies and writes a line for each."""

    def __init__(self, counts: Counts, request_log: RequestLog) -> None:
        self._counts = counts
        self._request_log = request_log

    def replied(
        self, request_id: str, reply: Reply, route: str | None, account: str | None, started: float | None
    ) -> None:
        """Counts and logs a reply."""
        seconds = None if started is None else time.perf_counter() - started
        self._counts.replied(reply, route, seconds)
        self._request_log.request(request_id, reply, route, account, seconds)
