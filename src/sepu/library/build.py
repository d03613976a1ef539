"""Builds the release from the facts: the same facts give the same bytes.

`python -m sepu.library.build FACTS OUT SPELLINGS` does it by hand; `make release` for this repository.
"""

import json
from collections import Counter
from collections.abc import Iterable
from hashlib import sha256
from pathlib import Path

import click
import msgspec

from sepu import limits
from sepu._palette import Palette
from sepu.library.facts import Color, Facts, FactsError, Reading, load_facts
from sepu.library.records import Name, Record, rgb_of
from sepu.library.release import (
    INDEX,
    LIBRARY,
    MANIFEST,
    RIGHTS,
    SOURCE_PROJECTION,
    Manifest,
    Release,
    load_release,
)
from sepu.library.reliability import Assessment, Comparison, judge


def build_release(facts: Path, out: Path) -> Release:
    """Writes the release of the `facts` directory into the `out` directory, and loads it from there.

    Raises FactsError for facts that contradict each other.
    """
    files = build_files(load_facts(facts))
    out.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        (out / name).write_bytes(content)
    return load_release(out)


def build_files(facts: Facts) -> dict[str, bytes]:
    """Returns the files of the release by name."""
    voices = {source.id: source.voice for source in facts.sources if source.voice is not None}
    readings: dict[str, list[Reading]] = {color.zh: [] for color in facts.colors}
    for reading in facts.readings:
        readings[reading.zh].append(reading)
    assessments = [judge(color, readings[color.zh], voices, facts.thresholds) for color in facts.colors]
    judged = list(zip(facts.colors, assessments, strict=True))

    library = encode_canonical([_record(color, assessment) for color, assessment in judged])
    projection = encode_canonical(
        {
            "version": facts.versions.source_projection_version,
            "thresholds": {
                "agree": facts.thresholds.agree,
                "far": facts.thresholds.far,
                "lineageConflict": facts.thresholds.lineage_conflict,
            },
            "records": [_projection(color, readings[color.zh], assessment) for color, assessment in judged],
        }
    )
    rights = encode_canonical(
        [
            {field: getattr(source, field) for field in ("id", "title", "used", "rights", "attribution")}
            for source in facts.sources
            if source.role != "spellings"  # publishing the colours does not require crediting them
        ]
    )
    index = Palette([rgb_of(color.hex) for color in facts.colors]).build_index(k=limits.inputs.MAX_TOP)
    manifest = msgspec.convert(
        {
            "version": facts.versions.version,
            "sourceProjectionVersion": facts.versions.source_projection_version,
            "mode": facts.versions.mode,
            "recordCount": len(judged),
            "valueMismatchCount": sum(assessment.mismatches for assessment in assessments),
            "librarySha256": sha256(library).hexdigest(),
            "sourceProjectionSha256": sha256(projection).hexdigest(),
            "rightsManifestSha256": sha256(rights).hexdigest(),
            "indexSha256": sha256(index).hexdigest(),
        },
        Manifest,
    )
    return {
        LIBRARY: library,
        SOURCE_PROJECTION: projection,
        RIGHTS: rights,
        MANIFEST: encode_canonical(manifest),
        INDEX: index,
    }


def encode_spellings(facts: Facts) -> str:
    """Returns the Cython source of equivalent characters, other readings and variants of names; raises FactsError."""
    pairs = [pair for color in facts.colors for pair in zip(color.zh_hant, color.zh, strict=True)]
    pairs += [(spelling.written, spelling.zh) for spelling in facts.spellings]
    equivalents: dict[str, str] = {}
    for written, zh in pairs:
        if equivalents.setdefault(written, zh) != zh:
            raise FactsError(f"{written} stands for {equivalents[written]} and for {zh}")
    different = sorted((written, zh) for written, zh in equivalents.items() if written != zh)
    rows = "".join(f'    "{written}": "{zh}",\n' for written, zh in different)
    readings = _tuples((pronunciation.zh, pronunciation.pinyin) for pronunciation in facts.pronunciations)
    variants = _tuples((variant.zh, variant.written) for variant in facts.variants)
    return (
        "# Written by `make release` from data/facts.\n\n"
        "# Maps each character to the one in our names that means the same.\n"
        f"cdef dict EQUIVALENTS = {{\n{rows}}}\n\n"
        "# Other readings that sources give, by character.\n"
        f"OTHER_READINGS = {{\n{readings}}}\n\n"
        "# Other ways to write a name.\n"
        f"VARIANTS = {{\n{variants}}}\n"
    )


def _tuples(pairs: Iterable[tuple[str, str]]) -> str:
    """Returns the rows of a dict's source: each first text with a tuple of its second ones."""
    found: dict[str, list[str]] = {}
    for key, value in pairs:
        found.setdefault(key, []).append(value)
    return "".join(f"    {key!r}: {tuple(values)!r},\n" for key, values in sorted(found.items()))


def encode_canonical(value: object) -> bytes:
    """Returns UTF-8 JSON with sorted keys, one value in each line, and a line break at the end."""
    plain = msgspec.to_builtins(value)
    text = json.dumps(plain, ensure_ascii=False, sort_keys=True, indent=1, separators=(",", ": "))
    return f"{text}\n".encode()


def summarize(release: Release) -> str:
    """Returns what the build made, as text for people."""
    manifest = release.manifest
    counts = Counter(record.reliability for record in release.records)
    totals = ", ".join(f"{counts[level]} {level}" for level in ("verified", "attributed", "disputed"))
    return "\n".join(
        [
            f"release {manifest.version} ({manifest.mode}): {manifest.record_count} records",
            f"{totals}; {manifest.value_mismatch_count} with another value elsewhere",
            f"{manifest.library_sha256}  {LIBRARY}",
            f"{manifest.source_projection_sha256}  {SOURCE_PROJECTION}",
            f"{manifest.rights_manifest_sha256}  {RIGHTS}",
            f"{manifest.index_sha256}  {INDEX}",
        ]
    )


def _record(color: Color, assessment: Assessment) -> Record:
    return Record(
        ordinal=color.ordinal,
        group=color.group,
        slug=color.slug,
        name=Name(zh=color.zh, zh_hant=color.zh_hant, pinyin=color.pinyin, en=color.en),
        hex=color.hex,
        reliability=assessment.reliability,
    )


def _projection(color: Color, readings: list[Reading], assessment: Assessment) -> dict[str, object]:
    return {
        "slug": color.slug,
        "lineageConflicts": color.lineage_conflicts,
        "readings": [
            {
                "source": reading.source,
                "hex": reading.hex,
                "sourceName": reading.source_name,
                "match": reading.match,
                "measured": reading.measured,
            }
            for reading in readings
        ],
        "attestedBy": assessment.attested_by,
        "nearest": _rounded(assessment.nearest),
        "farthest": _rounded(assessment.farthest),
        "reliability": assessment.reliability,
        "reason": assessment.reason,
    }


def _rounded(comparison: Comparison | None) -> dict[str, object] | None:
    if comparison is None:
        return None
    # Published values are exact to two decimals at most, and these are the same on every machine.
    return {"source": comparison.source, "deltaE": round(comparison.delta_e, 2)}


@click.command()
@click.argument("facts", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.argument("out", type=click.Path(file_okay=False, path_type=Path))
@click.argument("spellings", type=click.Path(dir_okay=False, path_type=Path))
def main(facts: Path, out: Path, spellings: Path) -> None:
    """Build the release in OUT, and the core's SPELLINGS file, from the FACTS directory."""
    spellings.write_text(encode_spellings(load_facts(facts)), "utf-8")
    click.echo(summarize(build_release(facts, out)))


if __name__ == "__main__":
    main()
