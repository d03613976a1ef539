"""Finds colours by Chinese name, pinyin, English name or slug. sepu.library.ranking ranks the languages."""

import hashlib
import re
from collections.abc import Sequence
from urllib.parse import parse_qs

import msgspec

from sepu import limits
from sepu._names import NameIndex
from sepu.errors import InputError

# What JSON Schema's \s matches and JavaScript trims, so that docs/openapi.yaml can express it. Python's set differs.
_WHITE_SPACE = (
    "\t\n\v\f\r \xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
    "\u2028\u2029\u202f\u205f\u3000\ufeff"
)
_PARAMETERS = frozenset({"q", "limit"})
_BROKEN_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2})")  # RFC 3986, 2.1
_LIMIT_LEFT_OUT = [str(limits.inputs.MAX_LIMIT)]
_NUMBER = re.compile(r"[1-9][0-9]{0,3}", re.ASCII)


class SearchInput(msgspec.Struct, frozen=True):
    """Parsed input; `q` is trimmed."""

    q: str
    limit: int

    def fingerprint(self) -> bytes:
        """Returns the SHA-256 of the values. `search/1` versions what is hashed."""
        return hashlib.sha256(b"search/1\0%d\0%b" % (self.limit, self.q.encode())).digest()


def parse_search(query: str) -> SearchInput:
    """Parses a percent-encoded query string.

    Raises:
        InputError: `unknown_parameter`, `invalid_q` or `invalid_limit`. Its pointer names the parameter, and
            is empty if the parameter is unknown or the query cannot be decoded.
    """
    if _BROKEN_ESCAPE.search(query):
        raise InputError("invalid_q")
    try:
        given = parse_qs(query, keep_blank_values=True, errors="strict")
    except ValueError:  # bytes that are not UTF-8 are not a name
        raise InputError("invalid_q") from None
    if not given.keys() <= _PARAMETERS:
        raise InputError("unknown_parameter")
    match given.get("q"):
        case [text] if limits.inputs.MIN_QUERY <= len(q := text.strip(_WHITE_SPACE)) <= limits.inputs.MAX_QUERY:
            pass
        case _:
            raise InputError("invalid_q", "/q")
    match given.get("limit", _LIMIT_LEFT_OUT):
        case [digits] if _NUMBER.fullmatch(digits) and (limit := int(digits)) <= limits.inputs.MAX_LIMIT:
            return SearchInput(q, limit)
        case _:
            raise InputError("invalid_limit", "/limit")


class Searcher:
    """Answers searches over one release.

    `colors` are the records as JSON objects, in the index's order.
    """

    def __init__(self, index: NameIndex, colors: Sequence[bytes], dataset_version: str) -> None:
        self._index = index
        self._colors = colors
        self._head = b'{"datasetVersion":' + msgspec.json.encode(dataset_version)

    def answer(self, request: SearchInput) -> bytes:
        """Returns the body of the response."""
        found = self._index.search(request.q, request.limit)
        results = b",".join([self._colors[position] for position in found])
        return b'%b,"count":%d,"results":[%b]}' % (self._head, len(found), results)
