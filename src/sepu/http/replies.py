"""Makes replies: those of success, and of each error of the contract."""

import msgspec

from sepu.http.errors import ERRORS
from sepu.metering.key_format import Credential
from sepu.metering.meters import Usage

JSON = "application/json"
POINTER = "X-Error-Pointer"
# Every response has these; the server adds X-Request-Id, Content-Length and Date.
COMMON_HEADERS = (("Content-Type", JSON), ("Cache-Control", "no-store"))


class Reply(msgspec.Struct, frozen=True):
    """Holds a response without its request id: a body, or the code of an error.

    For the log and the metrics: the meter that it was charged on and the units, whether it is a replay, and the
    credential that was refused without asking the database.
    """

    status: int
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes = b""
    error: str | None = None
    meter: str | None = None
    units: int = 0
    replayed: bool = False
    credential: Credential | None = None

    @property
    def pointer(self) -> str | None:
        """Returns the place of the error in the request. Its header comes first."""
        headers = self.headers
        return headers[0][1] if headers and headers[0][0] == POINTER else None

    def render(self, request_id: str) -> bytes:
        """Returns the body; that of an error has the request id."""
        if self.error is None:
            return self.body
        return f'{{"error":"{self.error}","requestId":"{request_id}"}}'.encode()


def error(code: str, *headers: tuple[str, str]) -> Reply:
    """Returns the reply for a code of the contract."""
    found = ERRORS[code]
    if found.retry_after is not None:
        headers = (*headers, ("Retry-After", found.retry_after))
    if found.status == 401:
        headers = (*headers, ("WWW-Authenticate", "Bearer"))
    return Reply(found.status, headers, error=code)


def usage_headers(usage: Usage) -> tuple[tuple[str, str], ...]:
    """Returns an X-Usage header for each field of usage."""
    return tuple([(f"X-Usage-{name.capitalize()}", str(value)) for name, value in usage.as_dict().items()])
