"""The endpoint of docs/events.md on the fresh machine: keeps the ids of webhooks signed with a secret of the page."""

import threading
from contextlib import suppress
from pathlib import Path

from standardwebhooks.webhooks import WebhookVerificationError
from tests.endpoint import Received, Reply, endpoint

PORT = 8091
_SECRETS = (Path("hooks.secret"), Path("/etc/sepu/hooks.secret"))
_TAKEN = Path("/run/taken")


def take(got: Received) -> Reply:
    """Answers 401 to a wrong signature."""
    for file in _SECRETS:
        with suppress(FileNotFoundError, WebhookVerificationError):
            got.verify(file.read_text().strip())
            with _TAKEN.open("a") as taken:
                taken.write(f"{got.event_id}\n")
            return 204, {}
    return 401, {}


if __name__ == "__main__":
    with endpoint(PORT, take):
        threading.Event().wait()
