"""Builds the endpoints for one release of the library."""

from dataclasses import dataclass
from typing import Self

import msgspec

from sepu.http.request_checks import LibraryEndpoint, MatchEndpoint, SearchEndpoint, UsageEndpoint
from sepu.library.release import Release
from sepu.operations.color import color
from sepu.operations.match import Matcher
from sepu.operations.search import Searcher


@dataclass(frozen=True, slots=True)
class Service:
    """Holds everything that a server needs except its ledger; all its requests share it."""

    library: LibraryEndpoint
    usage: UsageEndpoint
    match: MatchEndpoint
    search: SearchEndpoint

    @classmethod
    def of(cls, release: Release) -> Self:
        """Builds the endpoints, and encodes everything that never changes."""
        manifest = release.manifest
        colors = [msgspec.json.encode(color(record)) for record in release.records]
        metadata = msgspec.to_builtins(manifest)
        del metadata["indexSha256"]  # for this server only
        return cls(
            library=LibraryEndpoint(msgspec.json.encode(metadata)),
            usage=UsageEndpoint(),
            match=MatchEndpoint(Matcher(release.palette(), colors, manifest.version)),
            search=SearchEndpoint(Searcher(release.names(), colors, manifest.version)),
        )
