"""A request for each endpoint, as a curl line that works as pasted."""

from sepu.http import routes


def curls(address: str, api_key: str) -> list[str]:
    """Curl lines for a server at `HOST:PORT` or `unix:PATH`."""
    socket = address.removeprefix("unix:")
    curl = f"curl http://{address}" if socket == address else f"curl --unix-socket {socket} http://localhost"
    bearer = f"-H 'Authorization: Bearer {api_key}'"
    return [
        f"{curl}{routes.LIBRARY} {bearer}",
        f"{curl}{routes.USAGE} {bearer}",
        f"{curl}{routes.MATCH} {bearer} -H 'Idempotency-Key: demo-match-1' "
        """-H 'Content-Type: application/json' -d '{"colors":[{"r":200,"g":60,"b":35}],"top":3}'""",
        f"{curl}{routes.SEARCH} {bearer} -H 'Idempotency-Key: demo-search-1' -G --data-urlencode 'q=桃红'",
    ]
