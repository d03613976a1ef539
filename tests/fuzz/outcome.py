"""What each harness of `make fuzz` returns."""

from collections import Counter
from dataclasses import dataclass, field

SHOWN = 20


@dataclass
class Outcome:
    """What a run tried, and the faults that it found, each with what repeats it."""

    tried: Counter[str] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        counts = ", ".join(f"{name}: {count}" for name, count in sorted(self.tried.items()))
        return "\n".join([counts, f"{len(self.faults)} faults", *self.faults[:SHOWN]])
