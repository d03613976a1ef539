"""Says which functions or statements a figure's growth is of; the units stay apart."""

from collections import Counter
from collections.abc import Iterator, Mapping

from bench.gate.opcodes import function
from bench.gate.sides import OPCODES, Functions
from bench.load.report import table

ROWS = 10


def lines(path: str, base: Functions, head: Functions) -> Iterator[str]:
    """Yields the functions that have grown most, the units apart."""
    rows = [row for unit in head if unit in base for row in _grown(unit, base[unit], head[unit])]
    if rows:
        yield f"### What has grown in {path}\n"
        yield table(("function", "unit", "base", "head", "share of the growth"), rows)
        yield ""


def _grown(unit: str, base: Mapping[str, int], head: Mapping[str, int]) -> list[list[str]]:
    before, after = (_by_function(of) if unit == OPCODES else Counter(of) for of in (base, head))
    growth = Counter({name: after[name] - before[name] for name in before.keys() | after.keys()})
    whole = sum(figure for figure in growth.values() if figure > 0)
    return [
        [f"`{name}`", unit, f"{before[name]:,}", f"{after[name]:,}", f"{more / whole:.0%}"]
        for name, more in growth.most_common(ROWS // 2)
        if more > 0 and more >= whole / 100
    ]


def _by_function(stacks: Mapping[str, int]) -> Counter[str]:
    found: Counter[str] = Counter()
    for stack, opcodes in stacks.items():
        found[function(stack)] += opcodes
    return found
