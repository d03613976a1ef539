"""Builds the endpoints for one release of the library."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from typing import Final, Literal, Self

import msgspec

from sepu.http.client_address import Network
from sepu.http.known_keys import KnownKeys
from sepu.http.replies import Reply, error
from sepu.http.request_checks import Callers, Judgement, LibraryEndpoint, MatchEndpoint, SearchEndpoint, UsageEndpoint
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
    def of(cls, release: Release, trusted_proxies: Iterable[Network] = ()) -> Self:
        """Builds the endpoints, and encodes once what never changes."""
        callers = Callers(KnownKeys(), tuple(trusted_proxies))
        manifest = release.manifest
        colors = [msgspec.json.encode(color(record)) for record in release.records]
        metadata = msgspec.to_builtins(manifest)
        del metadata["indexSha256"]  # is for this server only
        return cls(
            library=LibraryEndpoint(callers, msgspec.json.encode(metadata)),
            usage=UsageEndpoint(callers),
            match=MatchEndpoint(callers, Matcher(release.palette(), colors, manifest.version)),
            search=SearchEndpoint(callers, Searcher(release.names(), colors, manifest.version)),
        )
