"""Makes a curl line for each endpoint. The lines work in a shell whose SEPU_API_KEY is an API key."""

from pathlib import Path
from shlex import quote

from sepu.http import routes


def curls(address: str) -> list[str]:
    """Returns curl lines for a server at `HOST:PORT` or `unix:PATH`; ASCII, except for that path."""
    path = address.removeprefix("unix:")
    if path == address:
        curl, origin = "curl", f"http://{address}"
    else:
        curl, origin = f"curl --unix-socket {quote(str(Path(path).absolute()))}", "http://localhost"

    def line(route: str, rest: str = "") -> str:
        return f'{curl} {quote(origin + route)} -H "Authorization: Bearer $SEPU_API_KEY"{rest}'

    return [
        line(routes.LIBRARY),
        line(routes.USAGE),
        line(
            routes.MATCH,
            " -H 'Idempotency-Key: demo-match-1' -H 'Content-Type: application/json' "
            """-d '{"colors":[{"r":200,"g":60,"b":35}],"top":3}'""",
        ),
        line(routes.SEARCH, " -H 'Idempotency-Key: demo-search-1' -G --data-urlencode 'q=tao hong'"),
    ]
