"""Reads `data/facts/`, what the sources say, into typed rows. Its README.md describes the columns."""

import csv
import io
from pathlib import Path
from typing import Annotated, Literal, TypeVar

import msgspec
from msgspec import Meta, Struct

from sepu.library.records import Hex, Mode, Slug, Text, Version

Form = TypeVar("Form")


class FactsError(ValueError):
    """A facts file is missing, malformed or contradicts another; the message names the file."""


class Color(Struct, frozen=True, forbid_unknown_fields=True):
    """A row of `colors.csv`: a record without its reliability."""

    ordinal: int
    group: Text
    zh: Text
    zh_hant: Text
    pinyin: Text
    en: Text
    slug: Slug
    hex: Hex
    lineage_conflicts: Annotated[int, Meta(ge=0)]


class Reading(Struct, frozen=True, forbid_unknown_fields=True):
    """A row of `readings.csv`: what one source gives for one of our names.

    An empty field is None; `hex` is None where the source has only the name.
    """

    source: Text
    zh: Text
    hex: Hex | None
    source_name: str | None
    match: Literal["exact", "se", "variant", "customary"] | None
    measured: str | None


class Spelling(Struct, frozen=True, forbid_unknown_fields=True):
    """A row of `spellings.csv`: a character that a source equates with one in our names."""

    source: Text
    written: Annotated[str, Meta(min_length=1, max_length=1)]
    zh: Annotated[str, Meta(min_length=1, max_length=1)]


class Variant(Struct, frozen=True, forbid_unknown_fields=True):
    """A row of `variants.csv`: one of our names in other characters that are read alike, as a dictionary writes it."""

    source: Text
    written: Text
    zh: Text


class Pronunciation(Struct, frozen=True, forbid_unknown_fields=True):
    """A row of `pronunciations.csv`: a reading of a character that a source gives in addition to ours."""

    source: Text
    zh: Annotated[str, Meta(min_length=1, max_length=1)]
    pinyin: Text


class Thresholds(Struct, frozen=True, forbid_unknown_fields=True):
    """The CIEDE2000 differences that the rule of reliability uses."""

    agree: float
    far: float
    lineage_conflict: float


class Source(Struct, frozen=True):
    """A lineage. Sources with the same `voice` count once; the base list has none.

    The file has more for people: where the source was read, and what is known about it.
    """

    id: Text
    title: Text
    role: Literal["base", "values", "names", "spellings"]
    used: Text
    rights: Text
    attribution: Text
    voice: Text | None = None


class Versions(Struct, frozen=True, forbid_unknown_fields=True):
    """`release.json`: the versions of the next release."""

    version: Version
    source_projection_version: Version
    mode: Mode


class Facts(Struct, frozen=True):
    """All the facts, which agree with each other: every reading has its colour and its source."""

    versions: Versions
    thresholds: Thresholds
    sources: tuple[Source, ...]
    colors: tuple[Color, ...]
    readings: tuple[Reading, ...]
    spellings: tuple[Spelling, ...]
    variants: tuple[Variant, ...]
    pronunciations: tuple[Pronunciation, ...]


class _SourcesFile(Struct, frozen=True, forbid_unknown_fields=True):
    thresholds: Thresholds
    sources: tuple[Source, ...]


def load_facts(directory: Path) -> Facts:
    """Reads and cross-checks the facts in `directory`; raises FactsError."""
    sources = _read_json(directory / "sources.json", _SourcesFile)
    facts = Facts(
        versions=_read_json(directory / "release.json", Versions),
        thresholds=sources.thresholds,
        sources=sources.sources,
        colors=_read_csv(directory / "colors.csv", Color),
        readings=_read_csv(directory / "readings.csv", Reading),
        spellings=_read_csv(directory / "spellings.csv", Spelling),
        variants=_read_csv(directory / "variants.csv", Variant),
        pronunciations=_read_csv(directory / "pronunciations.csv", Pronunciation),
    )
    _check(facts)
    return facts


def _read(path: Path) -> str:
    try:
        return path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise FactsError(f"{path.name} cannot be read: {error}") from error


def _read_json(path: Path, form: type[Form]) -> Form:
    try:
        return msgspec.json.decode(_read(path), type=form)
    except msgspec.DecodeError as error:
        raise FactsError(f"{path.name}: {error}") from error


def _read_csv(path: Path, form: type[Form]) -> tuple[Form, ...]:
    converted: list[Form] = []
    reader = csv.DictReader(io.StringIO(_read(path)), strict=True)
    try:
        for row in reader:
            filled = {field: value or None for field, value in row.items()}
            converted.append(msgspec.convert(filled, form, strict=False))
    except (csv.Error, msgspec.ValidationError) as error:
        raise FactsError(f"{path.name}, line {reader.line_num}: {error}") from error
    return tuple(converted)


def _check(facts: Facts) -> None:
    names = [color.zh for color in facts.colors]
    voiced = [source.id for source in facts.sources if source.voice is not None]
    readings = [(reading.source, reading.zh) for reading in facts.readings]
    for file, what, values in (
        ("colors.csv", "zh", names),
        ("colors.csv", "slug", [color.slug for color in facts.colors]),
        ("sources.json", "id", [source.id for source in facts.sources]),
        ("readings.csv", "source and zh", readings),
        ("pronunciations.csv", "row", list(facts.pronunciations)),
        ("spellings.csv", "written", [spelling.written for spelling in facts.spellings]),
        ("variants.csv", "written", [variant.written for variant in facts.variants]),
    ):
        if len(set(values)) != len(values):
            raise FactsError(f"{file}: a {what} comes twice")
    if [color.ordinal for color in facts.colors] != list(range(1, len(names) + 1)):
        raise FactsError("colors.csv: the ordinals do not count from 1")
    for source, zh in readings:
        if source not in voiced:
            raise FactsError(f"readings.csv: sources.json has no source {source} with a voice")
        if zh not in names:
            raise FactsError(f"readings.csv: {zh} is not in colors.csv")
    characters = set("".join(names))
    ids = {source.id for source in facts.sources}
    for pronunciation in facts.pronunciations:
        if pronunciation.source not in ids or pronunciation.zh not in characters:
            raise FactsError(f"pronunciations.csv: {pronunciation.zh} has no source or is in none of our names")
    for spelling in facts.spellings:
        if spelling.source not in ids:
            raise FactsError(f"spellings.csv: sources.json has no source {spelling.source}")
        if spelling.zh not in characters or spelling.written in characters:
            raise FactsError(f"spellings.csv: {spelling.written} does not stand for a character of our names only")
    for variant in facts.variants:
        if variant.source not in ids:
            raise FactsError(f"variants.csv: sources.json has no source {variant.source}")
        if variant.zh not in names or variant.written in names:
            raise FactsError(f"variants.csv: {variant.written} does not stand for one of our names only")
