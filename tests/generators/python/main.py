"""Calls the generated client: reads a JSON request per line, and prints its answer on one."""

import asyncio
import json
import sys
from typing import Any

from colors import AuthenticatedClient, models
from colors.api.account import get_usage
from colors.api.colors import get_library, match_colors, search_colors
from colors.types import UNSET


def call(given: dict[str, Any]) -> Any:
    client = AuthenticatedClient(given["url"], given["key"])
    match given["operation"]:
        case "matchColors":
            body = models.MatchRequest([models.RGB(**color) for color in given["colors"]], given.get("top", UNSET))
            called = match_colors.asyncio_detailed(client=client, body=body, idempotency_key=given["idempotencyKey"])
            return asyncio.run(called)
        case "searchColors":
            return search_colors.sync_detailed(
                client=client, q=given["q"], limit=given.get("limit", UNSET), idempotency_key=given["idempotencyKey"]
            )
        case "getLibrary":
            return get_library.sync_detailed(client=client)
        case _:
            return get_usage.sync_detailed(client=client)


for line in sys.stdin:
    response = call(json.loads(line))
    parsed = response.parsed
    answer = {
        "status": response.status_code,
        "headers": {name.lower(): value for name, value in response.headers.items()},
        "type": type(parsed).__name__,
        "code": str(getattr(parsed, "error", "")),
        "body": parsed.to_dict(),
    }
    print(json.dumps(answer), flush=True)  # noqa: T201
