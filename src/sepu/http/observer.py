"""What the HTTP side tells whoever logs and counts."""

from sepu.http.replies import Reply


class RequestObserver:
    """Hears of every reply. This one does not care."""

    def replied(
        self,
        request_id: str,
        reply: Reply,
        route: str | None = None,
        account: str | None = None,
        started: float | None = None,
    ) -> None:
        """A reply was made, on one of `routes` or on none, `started` by `time.perf_counter`.

        The account is the one that the key names, if it has a key's form; it may be nobody's. What never became a
        request has neither route nor start.
        """
