"""Shows what the gate sees: each path made slower by 1 %, and nothing in comparisons of a commit with itself.

Every count is of new processes whose memory is laid out otherwise, as after a change somewhere else. Each count of one
group is compared with each of the other.
"""

import asyncio
import sys
from collections import Counter
from collections.abc import Callable
from itertools import permutations, product

from bench.commits import working_tree
from bench.gate.database import EXPLAINED
from bench.gate.disturbance import Disturbance
from bench.gate.sides import KINDS, Figures, sides
from bench.load.report import table

SLOWDOWN = 0.01
# 15 * 14 comparisons of the commit with itself, 10 * 10 trials of each slowdown.
SAME, AGAINST, SLOWED = 15, 10, 10


async def prove(tolerance: Callable[[str], float]) -> tuple[list[str], bool]:
    """Returns the lines of the proof, and whether it failed."""
    tree, at_once = working_tree(), asyncio.Semaphore(2)
    with sides(tree, tree) as both:

        async def count(disturbed: Disturbance) -> Figures:
            async with at_once:
                # In both directories, as the gate does it.
                counts = await both[disturbed.layout % 2].count(list(KINDS), both[1].directory, disturbed)
            if counts.failures:
                sys.exit(str(counts.failures))
            print(".", end="", file=sys.stderr, flush=True)
            return counts.figures

        known = await count(Disturbance())
        layouts = range(SAME, SAME + SLOWED)
        slowed = await asyncio.gather(*(count(Disturbance(SLOWDOWN, layout, known)) for layout in layouts))
        same = [known, *await asyncio.gather(*(count(Disturbance(0, layout)) for layout in range(1, SAME)))]
        trials = list(product(same[:AGAINST], slowed))
    print(file=sys.stderr)

    def alarms(base: Figures, head: Figures) -> set[str]:
        return {name for name in base if head[name] > base[name] * (1 + tolerance(name))}

    pairs = list(permutations(same, 2))
    false = Counter(name for pair in pairs for name in alarms(*pair))
    seen = Counter(name for trial in trials for name in alarms(*trial))
    exact = [name for name in same[0] if not tolerance(name) or name.endswith(tuple(EXPLAINED))]  # a loop adds none
    told = [
        f"{len(pairs)} comparisons of the commit with itself, of {len(same[0])} figures each: {false.total()} alarms."
    ]
    rows = []
    for name in same[0]:
        values = [figures[name] for figures in same]
        spread = max(values) / min(values) - 1 if min(values) else 0
        rows.append([name, f"{spread:.3%}", "" if name in exact else f"{seen[name]} of {len(trials)}"])
    told += ["", table(["figure", "spread", "seen of 1 %"], rows)]
    return told, bool(false) or any(seen[name] < len(trials) for name in same[0] if name not in exact)
