"""Judges how reliable a colour is: the rule of data/README.md, and the comparisons with the sources that it needs."""

from collections.abc import Sequence
from operator import attrgetter

from msgspec import Struct

from sepu._palette import ciede2000, srgb_to_lab
from sepu.library.facts import Color, Reading, Thresholds
from sepu.library.records import Reliability, rgb_of


class Comparison(Struct, frozen=True):
    """The CIEDE2000 difference of a source's value from ours."""

    source: str
    delta_e: float


class Assessment(Struct, frozen=True):
    """The sources' evidence for one colour.

    `attested_by` are the voices that know the name. Each voice counts with its nearest value: `nearest` and `farthest`
    are the least and the greatest of these, None if no independent source has a value. `mismatches` says whether any
    source gives the name another value than ours.
    """

    reliability: Reliability
    reason: str
    attested_by: tuple[str, ...]
    nearest: Comparison | None
    farthest: Comparison | None
    mismatches: bool


def judge(color: Color, readings: Sequence[Reading], voices: dict[str, str], thresholds: Thresholds) -> Assessment:
    """Judges `color` by its own readings; `voices` has the voice of each source."""
    attested_by = tuple(sorted({voices[reading.source] for reading in readings}))
    comparisons = _compare_voices(color, readings, voices)
    nearest = min(comparisons, key=attrgetter("delta_e"), default=None)
    farthest = max(comparisons, key=attrgetter("delta_e"), default=None)
    reliability, reason = _decide(color, nearest, len(attested_by), thresholds)
    return Assessment(
        reliability=reliability,
        reason=reason,
        attested_by=attested_by,
        nearest=nearest,
        farthest=farthest,
        mismatches=any(reading.hex not in (None, color.hex) for reading in readings),
    )


def _decide(color: Color, nearest: Comparison | None, voices: int, thresholds: Thresholds) -> tuple[Reliability, str]:
    """Returns the first case that fits."""
    if color.lineage_conflicts >= 2:
        return "disputed", "copies-disagree"
    if nearest is not None and nearest.delta_e > thresholds.far:
        return "disputed", "all-independent-values-far"
    if nearest is not None and nearest.delta_e <= thresholds.agree:
        if voices >= 2:
            return "verified", "name-and-colour-corroborated"
        return "attributed", "single-attestation"
    if nearest is not None:
        return "attributed", "independent-values-differ"
    if voices:
        return "attributed", "name-attested-no-independent-value"
    return "attributed", "classic-list-only"


def _compare_voices(color: Color, readings: Sequence[Reading], voices: dict[str, str]) -> list[Comparison]:
    """Returns the nearest value of each voice, in the order of the readings."""
    best: dict[str, Comparison] = {}
    for reading in readings:
        if reading.hex is None:
            continue
        voice = voices[reading.source]
        comparison = Comparison(reading.source, _compute_delta_e(color.hex, reading.hex))
        if voice not in best or comparison.delta_e < best[voice].delta_e:
            best[voice] = comparison
    return list(best.values())


def _compute_delta_e(hex1: str, hex2: str) -> float:
    lab1, lab2 = srgb_to_lab([rgb_of(hex1), rgb_of(hex2)])
    return float(ciede2000([lab1], [lab2])[0])
