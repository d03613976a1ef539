"""The arithmetic of a measurement: percentiles, and medians over rounds."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from math import ceil
from statistics import median

PERCENTILES = (50.0, 90.0, 99.0, 99.9)


@dataclass
class Sample:
    """What one client saw in one round."""

    seconds: float  # of the window of the requests
    within: int  # right answers that came in it
    latencies: list[float]  # sorted, of right answers; in an open loop from the intended instant
    errors: Counter[str] = field(default_factory=Counter)  # by status and code
    busy: float = 0.0  # the client's own share of a core
    cpu: dict[str, float] = field(default_factory=dict)  # seconds of the watched processes, by name
    right: int = 0  # right answers, the warm-up's too

    @classmethod
    def pooled(cls, samples: "Sequence[Sample]") -> "Sample":
        """All of them as one."""
        return cls(
            sum(one.seconds for one in samples),
            sum(one.within for one in samples),
            sorted(latency for one in samples for latency in one.latencies),
            sum((one.errors for one in samples), Counter()),
        )

    @property
    def rate(self) -> float:
        """Right answers a second."""
        return self.within / self.seconds

    def cpu_of_one(self) -> dict[str, float]:
        """CPU seconds of one request, by name."""
        requests = len(self.latencies) + self.errors.total()
        return {who: seconds / max(requests, 1) for who, seconds in self.cpu.items()}


@dataclass(frozen=True, slots=True)
class Figures:
    """Medians over the rounds; the maximum is that of all. Seconds."""

    p50: float
    p90: float
    p99: float
    p999: float
    maximum: float
    rate: float
    errors: dict[str, int]
    cpu: dict[str, float]  # of a request

    @classmethod
    def of(cls, rounds: Sequence[Sample]) -> "Figures":
        filled = [sample.latencies for sample in rounds if sample.latencies] or [[float("nan")]]
        p50, p90, p99, p999 = (median(percentile(one, share) for one in filled) for share in PERCENTILES)
        errors: Counter[str] = sum((sample.errors for sample in rounds), Counter())
        rate, cpu = median(sample.rate for sample in rounds), [sample.cpu_of_one() for sample in rounds]
        cpus = {who: median(one[who] for one in cpu) for who in cpu[0]}
        return cls(p50, p90, p99, p999, max(one[-1] for one in filled), rate, dict(errors), cpus)


def percentile(ordered: Sequence[float], share: float) -> float:
    """The nearest rank: the smallest value that at least `share` per cent do not exceed."""
    # Rounded, as 99.9 per cent of 41000 is 40959.00000000001 to a float.
    return ordered[max(1, ceil(round(share * len(ordered) / 100, 9))) - 1]
