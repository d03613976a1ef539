"""How far the sources bear a colour out: the rule that data/README.md states, and what it is judged by."""

from collections.abc import Sequence

from msgspec import Struct

from sepu._palette import ciede2000, srgb_to_lab
from sepu.library.facts import Color, Reading, Thresholds
from sepu.library.records import Reliability, rgb_of


class Distance(Struct, frozen=True):
    """The CIEDE2000 difference of a source's value from ours."""

    source: str
    delta_e: float


class Verdict(Struct, frozen=True):
    """What the sources say of one colour.

    `attested_by` are the voices that know the name. A voice is as near as its nearest value: `nearest` and
    `farthest` are taken over the voices, None where no independent source has a value. `mismatches` tells
    whether any source gives the name another value than ours.
    """

    reliability: Reliability
    reason: str
    attested_by: tuple[str, ...]
    nearest: Distance | None
    farthest: Distance | None
    mismatches: bool


def judge(color: Color, readings: Sequence[Reading], voices: dict[str, str], thresholds: Thresholds) -> Verdict:
    """Judges `color` by its own readings; `voices` has the voice of each source."""
    attested_by = tuple(sorted({voices[reading.source] for reading in readings}))
    distances = _per_voice(color, readings, voices)
    nearest = min(distances, key=_delta_e, default=None)
    farthest = max(distances, key=_delta_e, default=None)
    reliability, reason = _rule(color, nearest, len(attested_by), thresholds)
    return Verdict(
        reliability=reliability,
        reason=reason,
        attested_by=attested_by,
        nearest=nearest,
        farthest=farthest,
        mismatches=any(reading.hex not in (None, color.hex) for reading in readings),
    )


def _rule(color: Color, nearest: Distance | None, attestations: int, thresholds: Thresholds) -> tuple[Reliability, str]:
    """The first case that fits."""
    if color.lineage_conflicts >= 2:
        return "disputed", "copies-disagree"
    if nearest is not None and nearest.delta_e > thresholds.far:
        return "disputed", "all-independent-values-far"
    if nearest is not None and nearest.delta_e <= thresholds.agree:
        if attestations >= 2:
            return "verified", "name-and-colour-corroborated"
        return "attributed", "single-attestation"
    if nearest is not None:
        return "attributed", "independent-values-differ"
    if attestations:
        return "attributed", "name-attested-no-independent-value"
    return "attributed", "classic-list-only"


def _per_voice(color: Color, readings: Sequence[Reading], voices: dict[str, str]) -> list[Distance]:
    """The nearest value of each voice, in the order of the readings."""
    best: dict[str, Distance] = {}
    for reading in readings:
        if reading.hex is None:
            continue
        voice = voices[reading.source]
        distance = Distance(reading.source, _difference(color.hex, reading.hex))
        if voice not in best or distance.delta_e < best[voice].delta_e:
            best[voice] = distance
    return list(best.values())


def _difference(hex1: str, hex2: str) -> float:
    lab1, lab2 = srgb_to_lab([rgb_of(hex1), rgb_of(hex2)])
    return float(ciede2000([lab1], [lab2])[0])


def _delta_e(distance: Distance) -> float:
    return distance.delta_e
