"""The answer to a match as Python's own json writes it: slow, plain, and independent of the core's text."""

import json

import msgspec

from sepu.library.release import load_release
from sepu.operations.color import color
from sepu.operations.match import Matcher, MatchInput

_RELEASE = load_release()
_PALETTE, _VERSION = _RELEASE.palette(), _RELEASE.manifest.version
_COLORS = [color(record) for record in _RELEASE.records]
ENCODED = [msgspec.json.encode(one) for one in _COLORS]
MATCHER = Matcher(_PALETTE, ENCODED, _VERSION)


def answer(request: MatchInput) -> bytes:
    """Answers as the matcher must, byte for byte."""
    results = [
        {
            "input": dict(zip("rgb", rgb, strict=True)),
            "matches": [
                {
                    **_COLORS[position],
                    "deltaE": round(delta_e, 4),
                    "similarity": round(max(0.0, 1 - delta_e / 100), 4),
                }
                for position, delta_e in _PALETTE.nearest(*rgb, request.top)
            ],
        }
        for rgb in request.colors
    ]
    document = {"datasetVersion": _VERSION, "results": results}
    return json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode()
