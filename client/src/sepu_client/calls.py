"""Makes the calls of the interface, and refuses input that the service would refuse."""

import os
import re
from collections.abc import Iterable
from operator import index
from urllib.parse import quote

from sepu_client import results
from sepu_client.colors import MAX_COLORS, ColorLike, read_colors
from sepu_client.messages import Call

MAX_TOP = 3
MAX_LIMIT = 10
# Characters that the service trims.
_WHITE_SPACE = (
    "\t\n\v\f\r \xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
    "\u2028\u2029\u202f\u205f\u3000\ufeff"
)
_IDEMPOTENCY_KEY = re.compile(r"[A-Za-z0-9._:-]{8,128}")


def new_idempotency_key() -> str:
    """Returns a random idempotency key, a UUID, for one new match or search."""
    digits = os.urandom(16).hex()  # as uuid4 does it, whose module is slow to import
    variant = "89ab"[int(digits[16], 16) & 3]
    return f"{digits[:8]}-{digits[8:12]}-4{digits[13:16]}-{variant}{digits[17:20]}-{digits[20:]}"


def match(
    colors: Iterable[ColorLike], top: int, idempotency_key: str | None, scale: int | None = None
) -> Call[results.MatchResponse]:
    """Makes a match. Without a key, it gets a new one."""
    return _match(read_colors(colors, scale, most=MAX_COLORS), top, _checked(idempotency_key))


def match_many(
    colors: Iterable[ColorLike], top: int, idempotency_key: str | None, scale: int | None = None
) -> tuple[list[results.RGB], list[Call[results.MatchResponse]]]:
    """Makes matches of five colours each, the first with the key KEY.1, the second with KEY.2.

    Returns all colours, and the calls.
    """
    key = _checked(idempotency_key)
    rgb = read_colors(colors, scale)
    parts = [rgb[start : start + MAX_COLORS] for start in range(0, len(rgb), MAX_COLORS)]
    return rgb, [_match(part, top, _checked(f"{key}.{number}"), key) for number, part in enumerate(parts, 1)]


def _match(rgb: list[results.RGB], top: int, key: str, intent_key: str | None = None) -> Call[results.MatchResponse]:
    # PERF: by hand, because `json` makes an encoder each time. These are floats from 0 to 255, whose text is JSON's.
    colors = ",".join([f'{{"r":{r!r},"g":{g!r},"b":{b!r}}}' for r, g, b in rgb])
    content = f'{{"colors":[{colors}],"top":{_whole("top", top, MAX_TOP)}}}'
    return Call("POST", "/v1/match", results.MatchResponse, key, content.encode(), intent_key)


def search(q: str, limit: int, idempotency_key: str | None) -> Call[results.SearchResponse]:
    """Makes a search. Without a key, it gets a new one."""
    key = _checked(idempotency_key)
    if not isinstance(q, str):
        raise TypeError(f"the text of a search is a string, and not {q!r}")
    text = q.strip(_WHITE_SPACE)
    if not 2 <= len(text) <= 64:
        raise ValueError(
            f"the text of a search has 2 to 64 characters, and not {len(text)}; "
            "write a name of one character in pinyin or in English"
        )
    target = f"/v1/search?q={quote(text, safe='')}&limit={_whole('limit', limit, MAX_LIMIT)}"
    return Call("GET", target, results.SearchResponse, key)


def _whole(name: str, value: int, most: int) -> int:
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise TypeError(f"{name} is a whole number from 1 to {most}, and not {value!r}")
    if not 1 <= index(value) <= most:
        raise ValueError(f"{name} is a whole number from 1 to {most}, and not {value!r}")
    return index(value)


def library() -> Call[results.Library]:
    """Makes the request for the library's metadata."""
    return Call("GET", "/v1/library", results.Library)


def usage() -> Call[results.UsageResponse]:
    """Makes the request for the account's meters."""
    return Call("GET", "/v1/usage", results.UsageResponse)


def _checked(idempotency_key: str | None) -> str:
    if idempotency_key is None:
        return new_idempotency_key()
    if not isinstance(idempotency_key, str):
        raise TypeError(f"an idempotency key is a string, and not {idempotency_key!r}")
    if not _IDEMPOTENCY_KEY.fullmatch(idempotency_key):
        raise ValueError("an idempotency key has 8 to 128 of A-Z a-z 0-9 . _ : -")
    return idempotency_key
