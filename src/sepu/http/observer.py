"""What the HTTP side tells the log and the metrics."""

import logging

from sepu.http.replies import Reply

log = logging.getLogger("sepu.http")


class RequestObserver:
    """Observes each reply after it was given to the server. This one does nothing."""

    def observe(
        self,
        request_id: str,
        reply: Reply,
        route: str | None = None,
        account: str | None = None,
        started: float | None = None,
    ) -> None:
        """Passes a reply to `replied`. What that raises is logged and goes no further: the request was answered."""
        try:
            self.replied(request_id, reply, route, account, started)
        except Exception as raised:  # no message: it could quote the input
            log.error("%s: not observed: %s", request_id, type(raised).__name__)  # noqa: TRY400

    def replied(
        self, request_id: str, reply: Reply, route: str | None, account: str | None, started: float | None
    ) -> None:
        """Observes a reply, on one of `routes` or on none, to a request that began at `started` (`time.perf_counter`).

        The account is the one that the key names, if it has a key's form; there may be no such account. What never
        became a request has neither route nor start.
        """
