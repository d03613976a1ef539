"""The page of errors, from the table in the code. `python -m docs.site.errors` writes it.

The mistakes stand here. A test sends each to a service, and sees that it leads to the code whose section shows it.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from sepu.http.errors import ERRORS, Again

PAGE = Path(__file__).parents[1] / "errors.md"

ONE = '{"colors":[{"r":200,"g":60,"b":35}]}'

_HEAD = """\
# Errors

Each error has a status and a code: `{"error":"invalid_rgb","requestId":"…"}`. The body says no more, and never repeats
what you sent. Find the code below. Each section says what is wrong, what to do, and whether to send the request again.
Give support the request id when you ask for help. If you do not know a code, go by the status: send again after 408,
429 (when `Retry-After` has passed) and any 5xx, and correct the request after any other 4xx.

This page is written from the table that the service uses, and a test sends the mistakes on it to a real service.
[Metering](metering.md#when-to-send-again) says how to send again, and [the clients](integrate/index.md) show it."""


class Mistake(NamedTuple):
    """Something that is easily sent, and what to send instead. Without a body it is a search."""

    anchor: str
    code: str
    instead: str
    query: str = "?q=tao+hong"
    body: str | None = None
    headers: Mapping[str, str | None] = {}
    method: str | None = None
    path: str | None = None

    @property
    def target(self) -> str:
        """Returns path and query."""
        return self.path or ("/v1/search" + self.query if self.body is None else "/v1/match")

    @property
    def line(self) -> str:
        """Returns the method and the target."""
        return f"{self.method or ('GET' if self.body is None else 'POST')} {self.target}"

    @property
    def shown(self) -> str:
        """Returns the part of the request that is wrong."""
        if self.headers:
            [(name, value)] = self.headers.items()
            return f"no `{name}`" if value is None else f"`{name}: {value}`"
        if self.path or self.method:
            return f"`{self.line}`"
        return f"`{self.query}`" if self.body is None else f"`{self.body}`" if self.body else "an empty body"


MISTAKES = (
    Mistake("no-key", "idempotency_key_required", "a random UUID for each intent", headers={"Idempotency-Key": None}),
    Mistake("short-key", "idempotency_key_invalid", "8 characters: `order-42`", headers={"Idempotency-Key": "42"}),
    Mistake("space-in-key", "idempotency_key_invalid", "`order-8812`", headers={"Idempotency-Key": "order 8812"}),
    Mistake("no-body", "body_required", f"`{ONE}`", body=""),
    Mistake("single-quotes", "invalid_json", f"`{ONE}`", body="{'colors':[{'r':200,'g':60,'b':35}]}"),
    Mistake("trailing-comma", "invalid_json", f"`{ONE}`", body='{"colors":[{"r":200,"g":60,"b":35},]}'),
    Mistake("no-bearer", "unauthorized", "`Authorization: Bearer KEY`", headers={"Authorization": "KEY"}),
    Mistake("no-authorization", "unauthorized", "`Authorization: Bearer KEY`", headers={"Authorization": None}),
    Mistake("no-version", "not_found", "`/v1/search`", path="/search?q=tao+hong"),
    Mistake("slash-at-the-end", "not_found", "`/v1/usage`", path="/v1/usage/"),
    Mistake("all-colours", "not_found", "nothing: no endpoint lists the colours", path="/v1/colors"),
    Mistake("get-match", "method_not_allowed", "`POST /v1/match`, with a body", method="GET", path="/v1/match"),
    Mistake("post-search", "method_not_allowed", "`GET /v1/search?q=tao+hong`", method="POST", path="/v1/search"),
    Mistake(
        "form",
        "unsupported_media_type",
        "`Content-Type: application/json`; `curl -d` sets another one, so pass `-H`",
        body=ONE,
        headers={"Content-Type": "application/x-www-form-urlencoded"},
    ),
    Mistake("bare-list", "invalid_body", f"`{ONE}`", body='[{"r":200,"g":60,"b":35}]'),
    Mistake("bare-colour", "invalid_body", f"`{ONE}`", body='{"colors":{"r":200,"g":60,"b":35}}'),
    Mistake("no-colours", "invalid_colors", "at least one colour", body='{"colors":[]}'),
    Mistake(
        "six-colours",
        "invalid_colors",
        "two requests, each with its own key",
        body='{"colors":[' + ",".join(['{"r":0,"g":0,"b":0}'] * 6) + "]}",
    ),
    Mistake("hex", "invalid_rgb", f"`{ONE}`: each two digits are a channel", body='{"colors":["#C83C23"]}'),
    Mistake("256", "invalid_rgb", "`255`: channels are from 0 to 255", body='{"colors":[{"r":256,"g":60,"b":35}]}'),
    Mistake("strings", "invalid_rgb", f"`{ONE}`: numbers", body='{"colors":[{"r":"200","g":"60","b":"35"}]}'),
    Mistake("array", "invalid_rgb", f"`{ONE}`", body='{"colors":[[200,60,35]]}'),
    Mistake("alpha", "invalid_rgb", f"`{ONE}`: there is no alpha", body='{"colors":[{"r":200,"g":60,"b":35,"a":1}]}'),
    Mistake("capitals", "invalid_rgb", f"`{ONE}`: small letters", body='{"colors":[{"R":200,"G":60,"B":35}]}'),
    Mistake("top-5", "invalid_top", '`"top":3` at most', body='{"colors":[{"r":200,"g":60,"b":35}],"top":5}'),
    Mistake("top-string", "invalid_top", '`"top":2`', body='{"colors":[{"r":200,"g":60,"b":35}],"top":"2"}'),
    Mistake("one-character", "invalid_q", "`?q=大红`: two characters at least", query="?q=红"),
    Mistake("no-q", "invalid_q", "`?q=hong&limit=3`", query="?limit=3"),
    Mistake("plus-lost", "invalid_q", "`?q=hong`; several words are one `q`: `?q=tao+hong`", query="?q=tao&q=hong"),
    Mistake("limit-50", "invalid_limit", "`limit=10` at most", query="?q=hong&limit=50"),
    Mistake("limt", "unknown_parameter", "`?q=hong&limit=3`", query="?q=hong&limt=3"),
    Mistake("query", "unknown_parameter", "`?q=hong`", query="?query=hong"),
    Mistake("limit-of-match", "unknown_parameter", '`"top":2`', body='{"colors":[{"r":200,"g":60,"b":35}],"limit":2}'),
    Mistake("color", "unknown_parameter", f"`{ONE}`: `colors`, plural", body='{"color":[{"r":200,"g":60,"b":35}]}'),
)  # fmt: skip


def page() -> str:
    """Returns the page in Markdown."""
    rows = (
        f"| [`{code}`](#{code}) | {error.status} | {'yes' if error.again is Again.SAME else 'no'} |"
        for code, error in ERRORS.items()
    )
    table = "\n".join(["| code | status | send again |", "|---|---|---|", *rows])
    return "\n\n".join([_HEAD, table, *(part for code in ERRORS for part in _section(code))]) + "\n"


def _section(code: str) -> Iterator[str]:
    error = ERRORS[code]
    wait = f" `Retry-After` is {error.retry_after}." if error.retry_after else ""
    yield f"## {code}"
    yield f"**{error.status}.** {error.cause}{wait}"
    yield f"**What to do.** {error.remedy}"
    yield f"**Send again?** {error.again[:1].upper()}{error.again[1:]}."
    if mistakes := [mistake for mistake in MISTAKES if mistake.code == code]:
        rows = (f'| <a id="{of.anchor}"></a>{of.shown} | {of.instead} |' for of in mistakes)
        yield "\n".join(["| if you sent | send |", "|---|---|", *rows])


if __name__ == "__main__":
    PAGE.write_text(page(), "utf-8")
