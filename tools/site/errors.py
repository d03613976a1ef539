"""The page of errors, from the table in the code. `python -m tools.site.errors` writes it.

It contains the causes, the remedies and the mistakes. A test sends each mistake to a service, and checks that it gets
the code under which the page shows it.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from sepu import limits
from sepu.http.errors import ERRORS, Again

PAGE = Path(__file__).parents[2] / "docs" / "errors.md"

_KIB = 1024

ONE = '{"colors":[{"r":200,"g":60,"b":35}]}'

_HEAD = """\
# Errors

```http
HTTP/1.1 422 Unprocessable Entity
Content-Type: application/json
X-Request-Id: 6f1f1a2c-7f6e-4f0e-9f5b-2d1c7b0f8a35
X-Error-Pointer: /colors/2/g

{"error":"invalid_rgb","requestId":"6f1f1a2c-7f6e-4f0e-9f5b-2d1c7b0f8a35"}
```

An error has a status and a code, and never repeats what you sent. Send support the request id.

- **Cost.** A 4xx is free, and does not use up the idempotency key. If no earlier attempt with the key was charged, you
  may correct the request and keep the key.
- **Retries.** See [when to retry](metering.md#when-to-retry). If you do not know a code, go by the status.
- **`X-Error-Pointer`** comes with a 422. It is a JSON pointer (RFC 6901) to the first fault, here the `g` of the third
  colour. `/q` is the `q` parameter. For an unknown member of a colour, it points to the colour. There is no pointer
  if the whole body or query is at fault, or has an unknown member or parameter.

The lists give common mistakes: what was sent → what to send."""


# For each code: what is wrong, and what to do.
EXPLANATIONS: dict[str, tuple[str, str]] = {
    "bad_request": (
        "The request is not valid HTTP/1.x: a missing, repeated or invalid `Host`, contradictory headers, a transfer "
        "coding other than `chunked`, broken chunks, an incomplete body, or a URL that is not percent-encoded, "
        "such as `?q=桃红`.",
        "Use an HTTP library, and check any proxy in between. With curl: `-G --data-urlencode 'q=桃红'`.",
    ),
    "idempotency_key_required": (
        "A match or a search has no `Idempotency-Key`.",
        "Create one for each intent, before its first attempt.",
    ),
    "idempotency_key_invalid": (
        "The `Idempotency-Key` must be 8 to 128 of these characters: `A-Z a-z 0-9 . _ : -`.",
        "Use a random UUID, or a hash of your own identifier.",
    ),
    "body_required": ("A match has no body.", "Send the colours as JSON."),
    "invalid_json": (
        "The body is not JSON in UTF-8. `NaN` and `Infinity` are not JSON.",
        "Let a JSON library write the body.",
    ),
    "unauthorized": (
        "The API key is missing, malformed, unknown, revoked or expired.",
        "Send `Authorization: Bearer KEY`. If the header is right, ask your colleagues whether they [replaced the "
        "key](get-a-key.md#replace-a-key): the old one expires. Otherwise ask support for a new key, but do not send "
        "them the old one.",
    ),
    "account_unavailable": ("The account is suspended or has expired.", "Stop sending, and ask support."),
    "not_found": ("There is no such path.", "Use a path that begins with `/v1`."),
    "method_not_allowed": (
        "The path does not accept this method.",
        "Use `POST` for a match, otherwise `GET`.",
    ),
    "request_timeout": (
        f"The request did not arrive within {limits.requests.REQUEST_SECONDS:g} seconds. It was not processed.",
        "Send it in one piece. If this recurs, check your network.",
    ),
    "idempotency_conflict": (
        "The key was already used, or is being used, with a different input.",
        "Create a key for each intent. Do not use a counter that restarts, or one key per user.",
    ),
    "request_in_progress": (
        "An earlier attempt with this key is still running.",
        "Wait, then retry with the same key: the earlier attempt may be charged. Never send two attempts at the same "
        "time.",
    ),
    "payload_too_large": (
        f"The body is over {limits.requests.BODY_BYTES // _KIB} KiB, or has over "
        f"{limits.requests.FRAMING_BYTES // _KIB} KiB of chunk framing.",
        "Send at most five colours in each request.",
    ),
    "uri_too_long": (
        f"The request line has more than {limits.requests.LINE_BYTES} bytes.",
        "Look for a mistake in the URL. `q` has at most 64 characters.",
    ),
    "unsupported_media_type": (
        "The `Content-Type` of a match is not `application/json`, or there is a `Content-Encoding`.",
        "Send `Content-Type: application/json`, and do not compress.",
    ),
    "expectation_failed": ("There is an `Expect` header other than `100-continue`.", "Leave the header out."),
    "invalid_body": (
        "The body of a match is not an object, or its `colors` is missing or not an array.",
        'Send `{"colors": [...]}`, even for a single colour.',
    ),
    "invalid_colors": ("`colors` is empty, or has more than five items.", "Split a longer list across requests."),
    "invalid_rgb": (
        "An item of `colors` is not an object with exactly the numbers `r`, `g` and `b`, each from 0 to 255.",
        "Send each colour as three numbers. Fractions are allowed.",
    ),
    "invalid_top": ("`top` is not a whole number from 1 to 3.", "Leave it out to get only the nearest."),
    "invalid_q": (
        "`q` is missing or repeated, or does not have 2 to 64 characters after trimming. Or the query has a broken "
        "escape (`%zz`), or escaped bytes that are not UTF-8.",
        "Send one `q` with two characters or more.",
    ),
    "invalid_limit": ("`limit` is repeated, or is not a whole number from 1 to 10.", "Leave it out to get up to 10."),
    "unknown_parameter": (
        "The body has an unknown member, or the URL an unknown parameter.",
        "Check the spelling. A match takes `colors` and `top`; a search takes `q` and `limit`.",
    ),
    "rate_limited": (
        "The account sent more requests in a minute than its plan allows, or your IP address sent more than nginx "
        "allows: [20 a second, or 100 at a time](api.md#connection-limits). Nothing was charged.",
        "Wait for `Retry-After`. Then send fewer requests. If your account sends few, open fewer connections and "
        "spread the requests.",
    ),
    "quota_exceeded": (
        "Too few units are left this UTC month. The `X-Usage` headers have the figures.",
        "Wait for the next month, or ask support for a higher limit. A request with fewer colours may still fit.",
    ),
    "headers_too_large": (
        f"There are over {limits.requests.HEADERS} headers, a header over {limits.requests.LINE_BYTES} bytes, or over "
        f"{limits.requests.HEAD_BYTES // _KIB} KiB of request line and headers (behind our nginx, sometimes over 17 "
        "KiB).",
        "Send only the headers that you need, and no cookies.",
    ),
    "internal_error": (
        "The service failed. For library and usage, the database may be down. A match or search may have been charged.",
        "Retry with increasing delays. If the error persists, send support the request id.",
    ),
    "overloaded": (
        "The service has too many connections and closes this one. Nothing was charged.",
        "Reuse connections, and open fewer.",
    ),
    "usage_commit_failed": (
        "The service does not know whether the charge was made.",
        "Retry with increasing delays. With a new key, you may be charged twice.",
    ),
    "not_ready": (
        "`/readyz`, which is for operators, sends this if no charge can be committed now. nginx sends it for paths "
        "other than the API's while no instance answers.",
        "See [the causes](observe.md#metrics).",
    ),
}


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
    Mistake("short-key", "idempotency_key_invalid", "8 characters: `order-42`", headers={"Idempotency-Key": "42"}),
    Mistake("space-in-key", "idempotency_key_invalid", "`order-8812`", headers={"Idempotency-Key": "order 8812"}),
    Mistake("single-quotes", "invalid_json", f"`{ONE}`", body="{'colors':[{'r':200,'g':60,'b':35}]}"),
    Mistake("trailing-comma", "invalid_json", f"`{ONE}`", body='{"colors":[{"r":200,"g":60,"b":35},]}'),
    Mistake("no-bearer", "unauthorized", "`Authorization: Bearer KEY`", headers={"Authorization": "KEY"}),
    Mistake("no-version", "not_found", "`/v1/search`", path="/search?q=tao+hong"),
    Mistake("slash-at-the-end", "not_found", "`/v1/usage`", path="/v1/usage/"),
    Mistake("all-colours", "not_found", "nothing: no endpoint lists the colours", path="/v1/colors"),
    Mistake("get-match", "method_not_allowed", "`POST /v1/match`, with a body", method="GET", path="/v1/match"),
    Mistake(
        "form",
        "unsupported_media_type",
        "`Content-Type: application/json`; `curl -d` sets another type, so pass `-H`",
        body=ONE,
        headers={"Content-Type": "application/x-www-form-urlencoded"},
    ),
    Mistake("bare-list", "invalid_body", f"`{ONE}`", body='[{"r":200,"g":60,"b":35}]'),
    Mistake(
        "six-colours",
        "invalid_colors",
        "two requests, each with its own key",
        body='{"colors":[' + ",".join(['{"r":0,"g":0,"b":0}'] * 6) + "]}",
    ),
    Mistake("hex", "invalid_rgb", f"`{ONE}`: each pair of digits is one channel", body='{"colors":["#C83C23"]}'),
    Mistake("256", "invalid_rgb", "`255`: channels are from 0 to 255", body='{"colors":[{"r":256,"g":60,"b":35}]}'),
    Mistake("strings", "invalid_rgb", f"`{ONE}`: no quotes", body='{"colors":[{"r":"200","g":"60","b":"35"}]}'),
    Mistake("array", "invalid_rgb", f"`{ONE}`", body='{"colors":[[200,60,35]]}'),
    Mistake("alpha", "invalid_rgb", f"`{ONE}`: there is no alpha", body='{"colors":[{"r":200,"g":60,"b":35,"a":1}]}'),
    Mistake("capitals", "invalid_rgb", f"`{ONE}`: lower case", body='{"colors":[{"R":200,"G":60,"B":35}]}'),
    Mistake("top-string", "invalid_top", '`"top":2`', body='{"colors":[{"r":200,"g":60,"b":35}],"top":"2"}'),
    Mistake("one-character", "invalid_q", "`?q=%E5%A4%A7%E7%BA%A2` (大红), not 红 alone", query="?q=%E7%BA%A2"),
    Mistake("no-q", "invalid_q", "`?q=hong&limit=3`", query="?limit=3"),
    Mistake("plus-lost", "invalid_q", "`?q=hong`; several words go into one `q`: `?q=tao+hong`", query="?q=tao&q=hong"),
    Mistake("limt", "unknown_parameter", "`?q=hong&limit=3`", query="?q=hong&limt=3"),
    Mistake("query", "unknown_parameter", "`?q=hong`", query="?query=hong"),
    Mistake("limit-of-match", "unknown_parameter", '`"top":2`', body='{"colors":[{"r":200,"g":60,"b":35}],"limit":2}'),
    Mistake("color", "unknown_parameter", f"`{ONE}`: `colors`, plural", body='{"color":[{"r":200,"g":60,"b":35}]}'),
)  # fmt: skip


def page() -> str:
    """Returns the page in Markdown."""
    return "\n\n".join([_HEAD, *(part for code in ERRORS for part in _section(code))]) + "\n"


def _section(code: str) -> Iterator[str]:
    error = ERRORS[code]
    cause, remedy = EXPLANATIONS[code]
    wait = f" `Retry-After` is {error.retry_after}." if error.retry_after else ""
    yield f"## {code}"
    retry = "" if error.again is Again.CORRECTED else f" Retry? {error.again[:1].upper()}{error.again[1:]}."
    yield f"**{error.status}.{retry}** {cause}{wait}"
    yield remedy
    if mistakes := [mistake for mistake in MISTAKES if mistake.code == code]:
        yield "\n".join(f'- <a id="{of.anchor}"></a>{of.shown} → {of.instead}' for of in mistakes)


if __name__ == "__main__":
    PAGE.write_text(page(), "utf-8")
