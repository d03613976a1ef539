"""Builds the endpoints for one release of the library."""

from dataclasses import dataclass
from enum import Enum
from typing import Final, Literal, Self

import msgspec

from sepu.http.replies import Reply, error
from sepu.http.request_checks import Judgement, LibraryEndpoint, MatchEndpoint, SearchEndpoint, UsageEndpoint
from sepu.library.release import Release
from sepu.operations.color import color
from sepu.operations.match import Matcher
from sepu.operations.search import Searcher

HEALTHY = Reply(200, body=b'{"status":"ok"}')
NOT_READY = error("not_ready")


class Readiness(Enum):
    """Marks a probe, whose answer the ledger gives."""

    ASK = "ask"


READINESS: Final = Readiness.ASK
Decision = Judgement | Literal[Readiness.ASK]


@dataclass(frozen=True, slots=True)
class Service:
    """Holds everything that a server needs except its ledger; all its requests share it."""

    library: LibraryEndpoint
    usage: UsageEndpoint
    match: MatchEndpoint
    search: SearchEndpoint

    @classmethod
    def of(cls, release: Release) -> Self:
        """Builds the endpoints, and encodes once what never changes."""
        manifest = release.manifest
        colors = [msgspec.json.encode(color(record)) for record in release.records]
        metadata = msgspec.to_builtins(manifest)
        del metadata["indexSha256"]  # is for this server only
        return cls(
            library=LibraryEndpoint(msgspec.json.encode(metadata)),
            usage=UsageEndpoint(),
            match=MatchEndpoint(Matcher(release.palette(), colors, manifest.version)),
            search=SearchEndpoint(Searcher(release.names(), colors, manifest.version)),
        )
