"""The answer to a match as Python's own json writes it: slow, plain, and independent of the core's text."""

import json

import msgspec

from sepu.library.release import Release
from sepu.operations.color import color
from sepu.operations.match import Matcher, MatchInput


class Reference:
    """Answers exactly as a `Matcher` of the same release must, byte for byte."""

    def __init__(self, release: Release) -> None:
        self._palette = release.palette()
        self._version = release.manifest.version
        self._colors = [color(record) for record in release.records]

    def answer(self, request: MatchInput) -> bytes:
        results = [
            {
                "input": dict(zip("rgb", rgb, strict=True)),
                "matches": [
                    {
                        **self._colors[position],
                        "deltaE": round(delta_e, 4),
                        "similarity": round(max(0.0, 1 - delta_e / 100), 4),
                    }
                    for position, delta_e in self._palette.nearest(*rgb, request.top)
                ],
            }
            for rgb in request.colors
        ]
        document = {"datasetVersion": self._version, "results": results}
        return json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode()


def matcher_of(release: Release) -> Matcher:
    colors = [msgspec.json.encode(color(record)) for record in release.records]
    return Matcher(release.palette(), colors, release.manifest.version)
