"""Loads and verifies the release, from which the server answers."""

from collections.abc import Sequence
from hashlib import sha256
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Annotated, TypeVar

import msgspec
from msgspec import Meta, Struct

from sepu import limits
from sepu._names import NameIndex, fold
from sepu._palette import Palette
from sepu.errors import SepuError
from sepu.library.collection import Collection, whole_number
from sepu.library.css import quoted
from sepu.library.names import build_name_index
from sepu.library.once import once
from sepu.library.records import (
    Match,
    Mode,
    Record,
    Records,
    Share,
    Version,
    rgb_of,
)

LIBRARY = "library.json"
SOURCE_PROJECTION = "source-projection.json"
RIGHTS = "rights.json"
MANIFEST = "manifest.json"
INDEX = "index.bin"

Sha256 = Annotated[str, Meta(pattern=r"\A[a-f0-9]{64}\Z")]

Form = TypeVar("Form")


class ReleaseError(SepuError):
    """The release is incomplete, malformed or not what its manifest says; the message names the file."""


class Manifest(Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """Description of a release, with the SHA-256 of each of its files' bytes.

    `value_mismatch_count` is the number of records for which at least one independent source gives the same
    name another HEX value.
    """

    version: Version
    record_count: Annotated[int, Meta(ge=1)]
    value_mismatch_count: Annotated[int, Meta(ge=0)]
    source_projection_version: Version
    source_projection_sha256: Sha256
    rights_manifest_sha256: Sha256
    library_sha256: Sha256
    index_sha256: Sha256
    mode: Mode


class _Rights(Struct, frozen=True):
    attribution: str


class Release(Struct, Collection[Record, Match, Share], frozen=True, dict=True):
    """A verified release: its manifest, and a collection of its records in library order.

    Iterable, with a length; `release["fei-hong"]` is the record with that slug or name. Searches of its `palette()` and
    `names()` return positions in `records`; keep these two, because making them takes milliseconds. `index` makes
    matching faster; without it, the answers are the same. `attribution` has the lines that must accompany anything made
    from the colours.
    """

    manifest: Manifest
    records: tuple[Record, ...]
    index: bytes | None
    attribution: tuple[str, ...] = ()

    _match = Match
    _share = Share

    def __repr__(self) -> str:
        """Names only the version: the index alone has hundreds of thousands of bytes."""
        return f"<Release {self.manifest.version}>"

    def search(self, q: str, *, limit: int = 10) -> Records[Record]:
        """Returns at most `limit` colours that `q` finds by Chinese name, pinyin, English name or slug, best first.

        Raises ValueError if `q` has more than 64 characters, not counting blanks around it.
        """
        if not isinstance(q, str):
            raise TypeError(f"a search takes text, not {quoted(q)}")
        if len(q.strip()) > limits.inputs.MAX_QUERY:
            raise ValueError(f"a search takes at most {limits.inputs.MAX_QUERY} characters, not {quoted(q)}")
        return Records(map(self.records.__getitem__, self._names.search(q, whole_number(limit, "limit"))))

    def _several(self, found: Records[Record]) -> str:
        return f"{_listed(found)}; use a slug"

    def hint(self, name: str) -> str:
        """Returns the end of a message: the colours that an unknown name may mean; may be empty."""
        near = self.search(name, limit=4) if len(name) <= limits.inputs.MAX_QUERY else ()
        more = f"; sepu search {name} shows more" if len(near) > 3 else ""
        return f"; perhaps you mean {_listed(near[:3])}{more}" if near else ""

    @once
    def _names(self) -> NameIndex:
        return self.names()

    def _index_names(self) -> dict[str, list[int]]:
        """By slug and by folded name: a slug names one colour, even if others have it as a name."""
        positions: dict[str, list[int]] = {}
        for position, record in enumerate(self.records):
            name = record.name
            joined = name.pinyin.replace(" ", "")
            for spelling in dict.fromkeys(
                map(fold, (name.zh, name.zh_hant, name.pinyin, joined, name.en, record.slug))
            ):
                positions.setdefault(spelling, []).append(position)
        return positions | {record.slug: [position] for position, record in enumerate(self.records)}

    def palette(self) -> Palette:
        """Makes the palette of the records' colours; positions in it are those of `records`.

        Raises ReleaseError if the index belongs to other colours.
        """
        try:
            return Palette([rgb_of(record.hex) for record in self.records], self.index)
        except ValueError as error:
            raise ReleaseError(f"{INDEX}: {error}") from error

    def names(self) -> NameIndex:
        """Makes the index of the records' names; a search returns positions in `records`."""
        return build_name_index(self.records)


def _listed(records: Sequence[Record]) -> str:
    return ", ".join(f"{record.slug} ({record.name.zh})" for record in records)


def load_release(directory: Traversable | None = None) -> Release:
    """Reads the release in `directory`, or the one in this package; raises ReleaseError."""
    if directory is None:
        directory = files("sepu.library") / "release"
    manifest = _decode(MANIFEST, _read(directory, MANIFEST), Manifest)
    library = _read(directory, LIBRARY)
    rights = _read(directory, RIGHTS)
    index = _read(directory, INDEX) if (directory / INDEX).is_file() else None
    for name, content, digest in (
        (LIBRARY, library, manifest.library_sha256),
        (SOURCE_PROJECTION, _read(directory, SOURCE_PROJECTION), manifest.source_projection_sha256),
        (RIGHTS, rights, manifest.rights_manifest_sha256),
        (INDEX, index, manifest.index_sha256),
    ):
        if content is not None and sha256(content).hexdigest() != digest:
            raise ReleaseError(f"{name} is not the file that {MANIFEST} names: its SHA-256 differs")
    records = _decode(LIBRARY, library, tuple[Record, ...])
    _check(manifest, records)
    attribution = tuple(source.attribution for source in _decode(RIGHTS, rights, tuple[_Rights, ...]))
    return Release(manifest, records, index, attribution)


def _read(directory: Traversable, name: str) -> bytes:
    try:
        return (directory / name).read_bytes()
    except OSError as error:
        raise ReleaseError(f"{name} cannot be read: {error}") from error


def _decode(name: str, content: bytes, form: type[Form]) -> Form:
    try:
        return msgspec.json.decode(content, type=form)
    except msgspec.DecodeError as error:
        raise ReleaseError(f"{name} is malformed: {error}") from error


def _check(manifest: Manifest, records: tuple[Record, ...]) -> None:
    if len(records) != manifest.record_count:
        raise ReleaseError(f"{LIBRARY} has {len(records)} records, {MANIFEST} {manifest.record_count}")
    if [record.ordinal for record in records] != list(range(1, len(records) + 1)):
        raise ReleaseError(f"{LIBRARY}: the ordinals do not count from 1")
    if len({record.slug for record in records}) != len(records):
        raise ReleaseError(f"{LIBRARY}: a slug comes twice")
    if manifest.value_mismatch_count > manifest.record_count:
        raise ReleaseError(f"{MANIFEST}: more mismatches than records")
