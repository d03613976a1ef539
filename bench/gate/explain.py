"""Says which functions or statements made a figure grow, by unit."""

from collections import Counter
from collections.abc import Iterator, Mapping

from bench.gate.opcodes import function
from bench.gate.sides import OPCODES, Functions
from bench.load.report import table

ROWS = 5  # per unit


def lines(path: str, base: Functions, head: Functions) -> Iterator[str]:
    """Yields the functions that have grown most, by unit."""
    rows: list[list[str]] = []
    for unit in (unit for unit in head if unit in base):
        before, after = (_by_function(of[unit]) if unit == OPCODES else Counter(of[unit]) for of in (base, head))
        growth = Counter({name: after[name] - before[name] for name in before.keys() | after.keys()})
        whole = sum(figure for figure in growth.values() if figure > 0)
        rows += [
            [f"`{name}`", unit, f"{before[name]:,}", f"{after[name]:,}", f"{more / whole:.0%}"]
            for name, more in growth.most_common(ROWS)
            if more > 0 and more >= whole / 100
        ]
    if rows:
        yield f"### What has grown in {path}\n"
        yield table(("function", "unit", "base", "head", "share of the growth"), rows)
        yield ""


def _by_function(stacks: Mapping[str, int]) -> Counter[str]:
    found: Counter[str] = Counter()
    for stack, opcodes in stacks.items():
        found[function(stack)] += opcodes
    return found
