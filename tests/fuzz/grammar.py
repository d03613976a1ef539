"""A grammar of a hostile service's answers: heads, bodies, and JSON as our service writes it.

Each rule has its choices. `<rule>` stands for one of them, `<rule>{1,3}` for one or three, and `<bytes>{20}` for 20
random bytes.
"""

import gzip
import re
from random import Random


def _text(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")


def _words(text: str) -> list[str]:
    return text.split()


RULES: dict[str, list[str]] = {
    "digit": list("0123456789"),
    "number": ["<digit>{1,2,3,9,10,19,400,5000}", *_words("-5 +5 1e9 0x10 inf nan １２３"), ""],
    # Mostly an HTTP date.
    "year": [*3 * ["<digit>{4}"], "<digit>{1,2,5,11,30}", "２０３７", "-1", ""],
    "zone": [*_words("GMT UTC EST Z"), "", "+<digit>{2,4,14,40}", "-<digit>{4}", "<bytes>{3}"],
    "weekday": ["Wed, ", "Wednesday, ", " ", "X,", "Wed, Wed, "],
    "month": [" Oct ", "-Oct-", "-Okt-", "13", ""],
    "time": ["<digit>{2,2,9}:<digit>{2,2,9}:<digit>{0,2,2,9}", "<digit>{2}.<digit>{2}"],
    "date": [*2 * ["<weekday><digit>{1,2,2,12}<month><year> <time> <zone>"], "Sun Nov  6 08:49:37 <year>"],
    # Headers that the client acts on.
    "retry after": ["Retry-After: <number>", "retry-after:<date>", "Retry-After: <date>", "Retry-After: <bytes>{1,40}"],
    "host": [
        *_words("xn--a 127.0.0.1 169.254.169.254 [::1] [ [::1 localhost a..b %00 ſ.example 例え。テスト"),
        *("a" * 300, "", "user:password@127.0.0.1", "xn--" + "9" * 60, "<bytes>{8}"),
    ],
    "scheme": [*_words("http:// https:// // mailto: javascript: file:// HTTP:"), "", "ht tp://", "\x01://"],
    "port": ["", "", ":<digit>{1,5,40}", ":", ":x"],
    "path": ["/", "/redirected", "", "?", "/%zz", "/" + "a" * 70_000, "/\udcff\udcfe", "/ b", "<bytes>{20}"],
    "location": ["Location: <scheme><host><port><path>"],
    "attribute": [
        *("expires=<date>", "max-age=<number>", "domain=<host>"),
        *("a=" + " " * 50_000, "; " * 20_000, '"' * 30_000, "<bytes>{30}"),
    ],
    "cookie": ["Set-Cookie: a=b; <attribute>"],
    "length": ["Content-Length: <number>", "Content-Length:<number>", "content-length : <number>"],
    "framing": [f"Transfer-Encoding: {coding}" for coding in ("chunked", "gzip, chunked", "chunked, chunked", "x", "")],
    "encoding": [f"Content-Encoding: {coding}" for coding in ("gzip", "gzip, gzip", "br", "deflate", "gzip," * 3000)],
    "other": [
        *("Connection: close", "Connection: upgrade", "Upgrade: h2c", "Proxy-Authenticate: Basic", "Trailer: x"),
        *("WWW-Authenticate: Digest realm=,nonce", "Content-Type: text/html; charset=" + "x" * 4000),
        *("Link: <>; rel=next", "Keep-Alive: timeout=-1", " folded", "no colon", ": no name", "x\x00y: z"),
        *("X: \udcff\udcfe", "X: \x1b[31m", "X: " + "y" * 99_000, "X: " + "y" * 300_000, "X: <bytes>{1,200}"),
    ],
    "end of line": [*4 * ["\r\n"], "\n"],
    "asks": ["<retry after>", "<retry after>", "<location>", "<cookie>", "<encoding>"],
    "header": [*5 * ["<asks><end of line>"], *(f"<{name}><end of line>" for name in ("length", "framing", "other"))],
    # A whole answer, and unexpected bytes after it.
    "status": _words("200 204 301 302 303 307 308 400 401 407 410 429 500 503"),
    "odd status": ["<status>", *_words("101 103 000 099 600 999 20 2000 -200 ２００"), "", "<digit>{3}", "<bytes>{3}"],
    "version": [*4 * ["HTTP/1.1"], "HTTP/1.0", "HTTP/2", "HTTP/0.9", "ICY", "", "<bytes>{8}"],
    "reason": [" OK", "", " ", " \x1b[2J", " " + "x" * 70_000, " <bytes>{10}"],
    "interim": ["HTTP/1.1 100 \r\n\r\n", "HTTP/1.1 103 \r\nLink: x\r\n\r\n"],
    "interims": [*9 * [""], "<interim>{1,2,3000}"],
    "chunk": [f"{size}\r\nhello\r\n" for size in ("5", "0", "ffffffffffffffff", "-1", "5;" + "x" * 9000, "z")],
    "bomb": [_text(gzip.compress(gzip.compress(bytes(64 << 20))))],
    "body": ["", "", "{}", "0\r\n\r\n", "<bomb>", "<chunk>{1,5}", "<bytes>{10,70000}"],
    "second": [
        *6 * [""],
        "HTTP/1.1 410 Gone\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1 204 No Content\r\n\r\n",
        "<bytes>{9}",
    ],
    "answer": [
        # Heads that every client can parse, so that it reads the body.
        "HTTP/1.1 <status> \r\n<asks>\r\n\r\n<body><second>",
        "HTTP/1.1 <status> \r\n<asks>\r\n<asks>\r\n\r\n<body><second>",
        *2 * ["<interims><version> <odd status><reason>\r\n<header>{0,1,1,2,3,6,200}\r\n<body><second>"],
    ],
    # An answer of our service, with hostile content in places.
    "evil": [*_words(r"\u001b[2J \u009b31m \u2028\u0000 \ud800 \udb40\udc41 红"), "\u202e", "\x9b2J", "x" * 5000],
    "text": [*4 * ['"a"'], '"a<evil>"', '"<evil>"'],
    "units": [*200 * ["9"], *_words("0 -1 1e999 -1e308 NaN -Infinity 1.5 00 0x1 true null"), '"1"', "1" * 5000],
    "color": ['"slug":<text>,"name":{"zh":<text>,"en":<text>,"pinyin":<text>},"hex":<text>,"reliability":<text>'],
    "nearest": ['{"input":{"r":1,"g":<units>,"b":3},"matches":[{<color>,"deltaE":0.5,"similarity":<units>}]}'],
    "match": [
        f'{{"datasetVersion":<text>,"results":[{found}]}}' for found in (*3 * ["<nearest>"], "<nearest>,<nearest>", "")
    ],
    "search": ['{"datasetVersion":<text>,"count":<units>,"results":[{<color>},{<color>}]}'],
    "library": [
        '{"version":<text>,"recordCount":<units>,"sourceProjectionVersion":<text>,"sourceProjectionSha256":<text>,'
        '"rightsManifestSha256":<text>,"librarySha256":<text>,"mode":<text>}'
    ],
    "meter": [
        '{"period":<text>,"meter":<text>,"limit":<units>,"committed":<units>,"reserved":<units>,"remaining":<units>}'
    ],
    "usage": ['{"accountId":<text>,"planId":<text>,"status":<text>,"usage":[<meter>,<meter>]}'],
    "error": ['{"error":"rate_limited"}', '{"error":"quota_exceeded"}', '{"error":<text>}', "[" * 100_000],
    "space": [" " * size + "{}" for size in (2**20 - 10, 2**20 + 10, 3 * 2**20)],
    "odd": [*400 * [""], *("\x1b[2J", "\udc9b", "\udce9", "9" * 5000, "-1", "\x00", "a\r\n b", "x" * 90_000)],
    "own headers": [
        "X-Request-Id: 00000000-0000-0000-0000-000000000000<odd>\r\nIdempotency-Replayed: true<odd>\r\n"
        "X-Error-Pointer: /colors/2/g<odd>\r\n"
        "X-Usage-Period: 2026-11<odd>\r\nX-Usage-Meter: color_match<odd>\r\nX-Usage-Limit: 9<odd>\r\n"
        "X-Usage-Committed: 1<odd>\r\nX-Usage-Reserved: 0<odd>\r\nX-Usage-Remaining: 8<odd>\r\n"
        "<header>{0,0,0,1,2,200}"
    ],
}
# A reference, and its repeat counts.
_REFERENCE = re.compile(r"<([a-z][a-z ]*)>(?:\{([\d,]+)\})?")


def made(rng: Random, rule: str) -> bytes:
    """Returns a random expansion of the rule."""
    return _expanded(rng, f"<{rule}>").encode("utf-8", "surrogateescape")


def _expanded(rng: Random, text: str) -> str:
    def chosen(found: re.Match[str]) -> str:
        times = int(rng.choice((found[2] or "1").split(",")))
        if found[1] == "bytes":
            return _text(rng.randbytes(times))
        return "".join(_expanded(rng, rng.choice(RULES[found[1]])) for _ in range(times))

    return _REFERENCE.sub(chosen, text)
